"""Which copy of a picture to keep: rules in order of priority; if one sees no difference, the next decides.

    choice = keep(copies, ["folder", "original", "pixels"], folders=["/home/me/Pictures/Best"])
    copies[choice.index], choice.rule

A rule looks at all copies and gives each a value; the least one wins. The path decides last, so the outcome never
depends on the order of the copies.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isch.describe.decoding.reader import Trait
from isch.errors import InputError, unknown
from isch.photos.catalog import Look

RAW = frozenset(
    ["RAW", "DNG", "CR2", "CR3", "CRW", "NEF", "NRW", "ARW", "SRF", "SR2", "RAF", "RW2", "ORF", "PEF", "SRW"]
)
HEIC = frozenset(["HEIC", "HEIF"])
_RANKS = {**dict.fromkeys(RAW, 0), **dict.fromkeys(HEIC, 1), "TIFF": 2, "JPEG": 3, "MPO": 3}
_CONVERTED = 4  # PNG, WebP, GIF and others: of a photograph usually made from a JPEG
REDUCED = 0.4  # a copy with less than this share of the detail of another one is a small version, whatever it says
BORDERED = 0.97  # times the share of the picture that another copy has inside its borders
GREY = 0.5  # times the colour of another copy
COLOURFUL = 6.0  # grey levels between the channels from which a picture has colours to lose
WORSE = 10  # a JPEG quality so much below that of another copy is clearly worse
ALIKE = 4  # two estimates of a JPEG quality that differ less may be the same
SIZE = 0.01  # the share of the pixels by which copies of equal size may differ


@dataclass(frozen=True)
class Copy:
    """What the rules know of one copy of a picture."""

    path: str
    width: int
    height: int
    bytes: int
    format: str  # as Pillow names it, or the suffix of a camera's RAW format, such as "NEF"
    date: float | None = None  # when it was taken or last changed, in seconds since 1970
    camera: str = ""
    traits: Trait = Trait.NONE
    quality: int = 0  # of a JPEG, 1 to 100; 0: unknown
    look: Look | None = None  # what its pixels tell, if they were looked at
    enlarged: bool = False  # it shows nothing that a smaller copy does not

    @property
    def folder(self) -> str:
        """The folder it lies in."""
        return os.path.dirname(self.path)

    @property
    def pixels(self) -> int:
        """How many pixels it has."""
        return self.width * self.height

    @property
    def detail(self) -> float:
        """How many pixels would show as much of the picture."""
        return self.pixels if self.look is None else self.pixels * self.look.share * self.look.detail**2

    @property
    def is_raw(self) -> bool:
        """Whether it is what the sensor saw."""
        return self.format.upper() in RAW


@dataclass(frozen=True)
class Choice:
    """The copy to keep, and the rule that decided; "path" if no rule saw a difference, "only" if there was one copy."""

    index: int
    rule: str


Rule = Callable[[Sequence[Copy]], Sequence[Any]]


def original(copies: Sequence[Copy]) -> list[Any]:
    """Evidence of an original: RAW, not reduced, from a camera and not edited since, the least altered, taken first."""
    most = max((copy.detail for copy in copies if not copy.enlarged), default=0.0)
    return [
        (
            not copy.is_raw,
            copy.detail < REDUCED * most and not copy.is_raw,
            _distance_from_camera(copy),
            _alterations(copy, copies),
            copy.date if copy.date is not None and Trait.DATED in copy.traits else math.inf,
        )
        for copy in copies
    ]


def _distance_from_camera(copy: Copy) -> int:
    """0 as the camera wrote it, 1 changed since, 2 without a camera's name."""
    if not copy.camera:
        return 2
    return int(bool(copy.traits & (Trait.EDITED | Trait.RESIZED)))


def _alterations(copy: Copy, copies: Sequence[Copy]) -> int:
    """How many alterations a copy shows beside the others."""
    others = [other for other in copies if other is not copy and other.look is not None]
    if copy.look is None or not others:
        return int(copy.enlarged)
    looks = [other.look for other in others if other.look is not None]
    bordered = copy.look.share < BORDERED * max(look.share for look in looks)
    colour = max(look.colour for look in looks)
    grey = colour > COLOURFUL and copy.look.colour < GREY * colour
    return int(copy.enlarged) + int(bordered) + int(grey) + int(any(_made_from(copy, other) for other in others))


def _made_from(copy: Copy, other: Copy) -> bool:
    """Whether a copy was saved again from another: it shows the quantisation of that JPEG, and has a finer one."""
    if copy.look is None or other.look is None or not other.quality or not copy.look.quality:
        return False
    same_size = abs(copy.pixels - other.pixels) <= SIZE * other.pixels
    first = abs(other.look.quality - other.quality) <= ALIKE
    trace = abs(copy.look.quality - other.look.quality) < ALIKE
    return same_size and first and trace and (copy.quality or 101) > other.quality + 1


def most_pixels(copies: Sequence[Copy]) -> list[Any]:
    """More pixels are better."""
    return [-copy.pixels for copy in copies]


def largest_file(copies: Sequence[Copy]) -> list[Any]:
    """More bytes are better."""
    return [-copy.bytes for copy in copies]


def best_format(copies: Sequence[Copy]) -> list[Any]:
    """RAW, then HEIC and TIFF of a camera, then JPEG, then what is usually converted; a clearly worse JPEG is last."""
    best = max(copy.quality for copy in copies)
    return [(_rank(copy), 0 < copy.quality < best - WORSE) for copy in copies]


def _rank(copy: Copy) -> int:
    """The place of a format; a HEIC that no camera wrote was converted."""
    rank = _RANKS.get(copy.format.upper(), _CONVERTED)
    written = copy.camera and (copy.format.upper() not in HEIC or Trait.TILED in copy.traits)
    return rank if copy.is_raw or rank >= _RANKS["JPEG"] or written else _CONVERTED


def oldest(copies: Sequence[Copy]) -> list[Any]:
    """An earlier date is better; a known one better than none."""
    return [math.inf if copy.date is None or math.isnan(copy.date) else copy.date for copy in copies]


def preferred_folder(folders: Sequence[str | os.PathLike[str]]) -> Rule:
    """Below an earlier folder of the list is better; below any of them better than elsewhere."""
    tops = [os.path.normpath(os.fspath(folder)) for folder in folders]

    def place(copy: Copy) -> float:
        folder = os.path.normpath(copy.folder)
        return next((i for i, top in enumerate(tops) if _below(folder, top)), len(tops))

    return lambda copies: [place(copy) for copy in copies]


def _below(folder: str, top: str) -> bool:
    return folder == top or folder.startswith(top.rstrip(os.sep) + os.sep)


RULES: Mapping[str, Rule] = {
    "original": original,
    "pixels": most_pixels,
    "bytes": largest_file,
    "format": best_format,
    "oldest": oldest,
}
FOLDER = "folder"  # the rule that needs to be told something: the preferred folders
DEFAULT = ("original", "pixels", "format", "oldest", "bytes")


def keep(
    copies: Sequence[Copy], rules: Sequence[str] = DEFAULT, folders: Sequence[str | os.PathLike[str]] = ()
) -> Choice:
    """The copy to keep.

    Parameters
    ----------
    copies : at least one
    rules : names of rules, the weightiest first: "original", "pixels", "format", "oldest", "bytes", "folder"
    folders : the preferred folders for the rule "folder", the most preferred first

    Returns
    -------
    Choice

    Raises
    ------
    InputError
        There are no copies, a rule is unknown, or "folder" is asked for without folders.
    """
    if not copies:
        raise InputError("expected at least one copy to choose from; got none")
    chosen = named(rules, folders)
    left = list(range(len(copies)))
    if len(left) == 1:
        return Choice(0, "only")
    for name, rule in chosen.items():
        values = rule([copies[i] for i in left])
        left = [i for i, value in zip(left, values, strict=True) if value == min(values)]
        if len(left) == 1:
            return Choice(left[0], name)
    return Choice(min(left, key=lambda i: (copies[i].path, i)), "path")


def named(rules: Sequence[str], folders: Sequence[str | os.PathLike[str]] = ()) -> dict[str, Rule]:
    """The rules of some names, in order."""
    every = {**RULES, FOLDER: preferred_folder(folders)}
    for name in rules:
        if name not in every:
            raise unknown("rule", name, every)
    if FOLDER in rules and not folders:
        raise InputError('the rule "folder" needs at least one preferred folder; got none')
    return {name: every[name] for name in rules}
