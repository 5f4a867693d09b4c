"""Routes that search: by an uploaded picture, and by a picture of the collection."""

import time
from typing import Annotated

from fastapi import APIRouter, File, Form, Query, UploadFile

from isch.web import schemas
from isch.web.depends import Route, Shared, Wanted
from isch.web.items import Id, known

router = APIRouter(route_class=Route)
MAX_K = 500
K = Annotated[int, Query(ge=1, le=MAX_K, description="How many pictures to find.")]


@router.post("/api/search")
def search(
    shared: Shared,
    wanted: Wanted,
    picture: Annotated[UploadFile, File(description="The picture to find the like of.")],
    k: Annotated[int, Form(ge=1, le=MAX_K)] = 40,
) -> schemas.Found:
    """The pictures most like an uploaded one."""
    library = shared.library
    vector = library.describe(shared.decoder.decode(picture.file.read()))
    start = time.perf_counter()
    return shared.found(library.nearest(vector, k, wanted), start, library.bits(vector))


@router.get("/api/items/{number}/similar")
def similar(number: Id, shared: Shared, wanted: Wanted, k: K = 40) -> schemas.Found:
    """The pictures most like one of the collection."""
    known(shared, number)
    start = time.perf_counter()
    return shared.found(shared.library.similar(number, k, wanted), start, shared.library.code(number))
