"""The app over any index: search by vector, by picture where the index knows how, and by item; keys and metadata."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, FastAPI, File, Form, HTTPException, Query, Request, UploadFile
from fastapi import Path as InPath
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from numpy.typing import NDArray
from pydantic import BaseModel, FailFast, Field

from isch import __version__
from isch.errors import InputError
from isch.search.index import Index
from isch.search.results import Hit as FoundItem
from isch.web.app import REFUSALS, STATIC, guarded
from isch.web.decoder import Decoder
from isch.web.depends import Route
from isch.web.guard import Guard
from isch.web.settings import Settings

router = APIRouter(route_class=Route)
MAX_K = 500
MAX_VALUES = 1_000_000  # of a vector
VALUE_BYTES = 32  # that a value may take as text
AT_ONCE = 16_384

K = Annotated[int, Query(ge=1, le=MAX_K)]


class Item(BaseModel):
    """An item of the index."""

    key: int | str
    metadata: dict[str, Any] | None


class Hit(Item):
    """An item that was found."""

    distance: float
    score: float | None = Field(description="What the results are ordered by; smaller is nearer.")


class Found(BaseModel):
    """The answer to a search."""

    items: list[Hit]
    searched: int
    milliseconds: float


class Page(BaseModel):
    """Some items, in the order they were added."""

    total: int
    offset: int
    items: list[Item]


Value = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Vector(BaseModel):
    """A search by vector; ``where`` filters by metadata."""

    vector: Annotated[list[Value], FailFast(), Field(min_length=1, max_length=MAX_VALUES)]
    k: Annotated[int, Field(ge=1, le=MAX_K)] = 10
    where: dict[str, Any] | None = None


class Health(BaseModel):
    """What is served."""

    status: str
    version: str
    items: int
    n_bits: int
    n_features: int | None
    method: str | None
    describer: str | None


class Served:
    """An index and what its requests share."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self._index = Index.open(path)
        self.decoder = Decoder(settings.decode_seconds)

    @property
    def index(self) -> Index:
        """The index as it is now."""
        self._index.refresh()
        return self._index

    def key(self, number: int) -> int | str:
        """The key of the item with a number in the order they were added."""
        for place, key in enumerate(self.index):
            if place == number:
                return key
        raise HTTPException(404, f"there is no item {number} in the index")


def create(path: Path, settings: Settings) -> Guard:
    """The ASGI app that serves an index."""
    served = Served(path, settings)
    facts = served.index.info()
    needed = VALUE_BYTES * int(facts["n_features"] or facts["n_bits"])
    settings = replace(settings, body_bytes=max(settings.body_bytes, needed))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        served.decoder.close()

    app = FastAPI(
        title="ISCH index", version=__version__, docs_url=None, redoc_url=None, responses=REFUSALS, lifespan=lifespan
    )
    app.state.served = served
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC))
    return guarded(app, settings)


def served(request: Request) -> Served:
    """What all requests share."""
    found: Served = request.app.state.served
    return found


Shared = Annotated[Served, Depends(served)]


@router.get("/", include_in_schema=False)
def page() -> FileResponse:
    """A small page to look at the index."""
    return FileResponse(STATIC / "indexed.html")


@router.get("/api/health")
def health(shared: Shared) -> Health:
    """What is served."""
    facts = shared.index.info()
    names = ("items", "n_bits", "n_features", "method", "describer")
    return Health(status="ok", version=__version__, **{name: facts[name] for name in names})


@router.get("/api/items")
def items(
    shared: Shared,
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_K)] = 100,
) -> Page:
    """Keys and metadata, in the order they were added."""
    index, start, found = shared.index, 0, []
    for batch in index.batches(AT_ONCE):
        stop = start + len(batch.keys)
        for place in range(max(start, offset), min(stop, offset + limit)):
            found.append(Item(key=batch.keys[place - start], metadata=batch.metadata[place - start]))
        if stop >= offset + limit:
            break
        start = stop
    return Page(total=len(index), offset=offset, items=found)


@router.get("/api/items/{number}/similar")
def similar(number: Annotated[int, InPath(ge=0, le=2**53)], shared: Shared, k: K = 10) -> Found:
    """The items nearest to one, given by its place in the listing."""
    key, start = shared.key(number), time.perf_counter()
    return _found(shared, shared.index.similar(key, k)[0], start)


@router.post("/api/search")
def search(wanted: Vector, shared: Shared) -> Found:
    """The items nearest to a vector: of features, or of 0 and 1 where the index takes codes."""
    start, index = time.perf_counter(), shared.index
    row: Any = np.asarray(wanted.vector, np.float64)
    if not index.has_model:
        row = _code(row, index.n_bits)
    return _found(shared, index.search(row, wanted.k, where=wanted.where)[0], start)


@router.post("/api/search/picture")
def search_picture(
    shared: Shared,
    picture: Annotated[UploadFile, File(description="The picture to find the like of.")],
    k: Annotated[int, Form(ge=1, le=MAX_K)] = 10,
) -> Found:
    """The items nearest to a picture, where the index knows how pictures are described."""
    image = shared.decoder.decode(picture.file.read())
    start = time.perf_counter()
    return _found(shared, shared.index.search(image, k)[0], start)


def _code(row: NDArray[np.float64], n_bits: int) -> NDArray[np.uint8]:
    """The packed code of a vector of 0 and 1."""
    if len(row) != n_bits:
        raise InputError(f"vector: expected {n_bits} numbers, each 0 or 1; got {len(row)}")
    if not np.isin(row, (0, 1)).all():
        raise InputError(f"vector: expected {n_bits} numbers, each 0 or 1; got {row[~np.isin(row, (0, 1))][0]:g}")
    return np.packbits(row.astype(np.uint8))


def _found(shared: Served, hits: list[FoundItem], start: float) -> Found:
    rows = [Hit(key=hit.key, metadata=hit.metadata, distance=hit.distance, score=hit.score) for hit in hits]
    return Found(
        items=rows,
        searched=len(shared.index),
        milliseconds=round((time.perf_counter() - start) * 1000, 2),
    )
