"""Routes that show the collection: pictures, thumbnails, words, filters, health."""

from itertools import islice
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Response
from fastapi import Path as InPath

from isch import __version__
from isch.photos import words
from isch.photos.catalog import Item
from isch.web import schemas
from isch.web.context import Context, spelt
from isch.web.depends import Route, Shared, Text, Wanted
from isch.web.thumbnails import SIZES

router = APIRouter(route_class=Route)
MAX_LIMIT = 500
SUGGESTIONS = 12
Id = Annotated[int, InPath(ge=0, le=2**53)]


@router.get("/api/items")
def items(
    shared: Shared,
    wanted: Wanted,
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 100,
) -> schemas.Page:
    """The collection, latest first; with a word, the likeliest first."""
    catalog = shared.library.catalog
    found = catalog.page(wanted, offset, limit)
    return schemas.Page(total=catalog.count(wanted), offset=offset, items=shared.pictures(found))


@router.get("/api/items/{number}")
def item(number: Id, shared: Shared) -> schemas.Picture:
    """One picture."""
    return shared.pictures([known(shared, number)])[0]


@router.get("/api/items/{number}/thumbnail", response_class=Response, responses={200: {"content": {"image/jpeg": {}}}})
def thumbnail(number: Id, shared: Shared, size: Annotated[int, Query()] = SIZES[0]) -> Response:
    """A small version of a picture, as JPEG: 256 or 1,600 pixels on its longer side."""
    if size not in SIZES:
        raise HTTPException(400, f"size must be one of {', '.join(map(str, SIZES))}; got {size}")
    one = known(shared, number)
    content = shared.thumbnails.get(one.path, one.digest, size)
    return Response(content, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})


@router.get("/api/items/{number}/code")
def code(number: Id, shared: Shared) -> schemas.Code:
    """The code of a picture, bit by bit."""
    known(shared, number)
    bits = shared.library.code(number)
    return schemas.Code(n_bits=len(bits), bits=spelt(bits), learned=shared.library.learned)


@router.get("/api/words")
def suggestions(shared: Shared, q: Text = "") -> list[schemas.Suggestion]:
    """Words that begin with a text, and how many pictures show what they stand for; without a text, the commonest."""
    counts = shared.library.catalog.kinds()
    if q.strip():
        names = words.completions(q)
    else:
        names = [words.kinds()[kind].names[0] for kind in sorted(counts, key=lambda k: -counts[k])]
    totals = ((name, sum(counts.get(kind, 0) for kind in words.numbers(name))) for name in names)
    found = (schemas.Suggestion(word=name, count=count) for name, count in totals if count)
    return list(islice(found, SUGGESTIONS))


@router.get("/api/facets")
def facets(shared: Shared) -> schemas.Facets:
    """The folders, cameras and years there are."""
    columns = {"folders": "folder", "cameras": "camera", "years": "year"}
    catalog = shared.library.catalog
    return schemas.Facets(
        **{
            name: [schemas.Value(value=value, count=count) for value, count in catalog.values(column) if value]
            for name, column in columns.items()
        }
    )


@router.get("/api/health")
def health(shared: Shared) -> schemas.Health:
    """Whether the server works, and what it serves."""
    library = shared.library
    return schemas.Health(
        status="ok",
        version=__version__,
        items=len(library),
        n_bits=library.n_bits,
        learned=library.learned,
        updating=shared.updater.updating,
        failures=len(library.catalog.failures()),
        notices=library.notices,
    )


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(shared: Shared) -> Response:
    """Numbers for Prometheus."""
    shared.metrics.items.set(len(shared.library))
    return Response(shared.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def known(shared: Context, number: int) -> Item:
    """A picture of the collection."""
    found = shared.library.catalog.item(number)
    if found is None:
        raise HTTPException(404, f"there is no picture {number} in the library")
    return found
