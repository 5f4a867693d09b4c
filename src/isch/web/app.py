"""The app: routes over a photo library, a few lines each, behind the guard."""

import reprlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from isch import __version__
from isch.errors import IschError
from isch.photos.library import Library
from isch.web import duplicates, items, search
from isch.web.context import Context
from isch.web.decoder import BusyError
from isch.web.guard import Guard
from isch.web.schemas import Problem
from isch.web.settings import Settings

STATIC = Path(__file__).parent / "static"
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (400, 401, 403, 404, 408, 413, 422)
}


def create(library: Library, settings: Settings) -> Any:
    """The ASGI app that serves a photo library."""
    context = Context(library, settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        context.updater.start()
        yield
        context.close()

    app = FastAPI(
        title="ISCH photos",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=REFUSALS,
    )
    app.state.context = context
    for routes in (items.router, search.router, duplicates.router):
        app.include_router(routes)
    app.add_api_route("/", page, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC))
    app.middleware("http")(context.metrics.middleware)
    return guarded(app, settings)


def guarded(app: FastAPI, settings: Settings) -> Guard:
    """The app behind its guard; every error is answered in one sentence."""
    app.add_exception_handler(IschError, _sentence)
    app.add_exception_handler(RequestValidationError, _first)
    app.add_exception_handler(Exception, _apology)
    return Guard(app, settings)


async def page(request: Request) -> HTMLResponse:
    """The search page; it alone learns the token that changes need."""
    text = (STATIC / "index.html").read_text("utf-8")
    token = request.app.state.context.settings.page_token
    return HTMLResponse(text.replace("{{page_token}}", token), headers={"cache-control": "no-store"})


def _sentence(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=503 if isinstance(error, BusyError) else 400)


def _first(_: Request, error: Exception) -> JSONResponse:
    """The first of what is wrong with a request: where, what was expected, and the beginning of what came."""
    assert isinstance(error, RequestValidationError)
    first: dict[str, Any] = error.errors()[0]
    place = ".".join(map(str, first["loc"][1:])) or "the body"
    shown = isinstance(first.get("input"), str | int | float | list | dict)
    given = f"; got {reprlib.repr(first['input'])}" if shown else ""
    return JSONResponse({"detail": f"{place}: {first['msg']}{given}"}, status_code=422)


def _apology(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": "the server failed; its log says more"}, status_code=500)
