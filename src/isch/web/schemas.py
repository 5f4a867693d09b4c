"""What the API takes and gives, as OpenAPI shows it."""

from typing import Annotated, Literal

from pydantic import BaseModel, FailFast, Field

from isch.photos.matching import DEFAULT, Setting

Number = Annotated[int, Field(ge=0, le=2**53)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Word(BaseModel):
    """A word for what a picture shows."""

    name: str
    share: float = Field(description="How likely, from 0 to 1.")


class Picture(BaseModel):
    """A picture of the collection."""

    id: int
    name: str
    folder: str
    width: int
    height: int
    bytes: int
    format: str
    taken: str
    camera: str
    words: list[Word]


class Page(BaseModel):
    """Some pictures of a listing."""

    total: int
    offset: int
    items: list[Picture]


class Hit(Picture):
    """A picture that was found."""

    distance: int = Field(description="Bits that differ between the codes.")
    score: float = Field(description="What the results are ordered by; smaller is nearer.")


class Found(BaseModel):
    """The answer to a search."""

    items: list[Hit]
    searched: int = Field(description="How many pictures were compared.")
    milliseconds: float
    n_bits: int
    bits: str = Field(description="The code of the picture searched for, one 0 or 1 per bit.")
    learned: bool = Field(
        description="Whether the codes were learned from this collection; small ones have random codes."
    )


class Suggestion(BaseModel):
    """A word that can be searched for."""

    word: str
    count: int


class Value(BaseModel):
    """A value to filter by."""

    value: str
    count: int


class Facets(BaseModel):
    """What can be filtered by."""

    folders: list[Value]
    cameras: list[Value]
    years: list[Value]


class Code(BaseModel):
    """The code of a picture, bit by bit."""

    n_bits: int
    bits: str = Field(description="One 0 or 1 per bit.")
    learned: bool


class Health(BaseModel):
    """Whether the server works."""

    status: Literal["ok"]
    version: str
    items: int
    n_bits: int
    learned: bool
    updating: bool
    failures: int
    notices: list[str] = Field(description="What the user should know of the library, a sentence each.")


class Copies(BaseModel):
    """A group of duplicates."""

    items: list[Picture]
    keep: int = Field(description="The position of the copy to keep.")
    reason: str = Field(description="The rule that chose it, or 'you'.")
    closeness: str = Field(description="The setting at which these copies come together.")


class Duplicates(BaseModel):
    """Groups of duplicates."""

    total: int = Field(description="How many groups there are.")
    offset: int
    closeness: str = Field(description="Which copies belong together: identical, same or altered.")
    pictures: int = Field(description="Pictures in all groups.")
    savings: int = Field(description="Bytes of all copies but those to keep.")
    groups: list[Copies]


class Decision(BaseModel):
    """What the user says of some pictures."""

    verdict: Literal["not duplicates", "keep both", "keep one", "forget"]
    items: Annotated[list[Number], FailFast(), Field(min_length=2, max_length=1000)]
    keep: Number | None = Field(None, description="With 'keep one': the picture to keep.")


class Removal(BaseModel):
    """Copies to give up, and those kept."""

    give_up: Annotated[list[Number], FailFast(), Field(min_length=1, max_length=1000)]
    keep: Annotated[list[Number], FailFast(), Field(min_length=1, max_length=1000)]


class Trash(BaseModel):
    """What goes to the trash; ``confirmed`` is the number of files that the user was shown."""

    removals: Annotated[list[Removal], FailFast(), Field(min_length=1, max_length=10_000)]
    confirmed: int
    closeness: Setting = Field(DEFAULT, description="The setting at which the copies were shown.")
    step: str | None = Field(None, pattern="^[0-9a-f]{16}$", description="Equal for requests that are undone together.")


class Outcome(BaseModel):
    """What became of one file."""

    path: str
    bytes: int
    moved: bool
    to: str | None
    reason: str | None


class Undoable(BaseModel):
    """What the next undo brings back."""

    steps: int = Field(description="How many steps can be undone, one after the other.")
    files: int = Field(description="Files of the last step.")
    bytes: int


class Trashed(BaseModel):
    """What became of all files: moved to the trash, or brought back from it."""

    moved: int
    bytes: int
    outcomes: list[Outcome]
    undoable: Undoable


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str
