"""What routes ask for: the context, a filter, a JSON body, and proof that a change comes from our own page."""

import json
from collections.abc import Awaitable, Callable
from secrets import compare_digest
from typing import Annotated, Any

from fastapi import Depends, Header, HTTPException, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

from isch.photos.catalog import Filter
from isch.web.context import Context

MAX_TEXT = 500


def context(request: Request) -> Context:
    """What all requests share."""
    found: Context = request.app.state.context
    return found


Text = Annotated[str, Query(max_length=MAX_TEXT)]
Date = Annotated[str, Query(pattern=r"^(\d{4}(-\d{2}(-\d{2})?)?)?$", description="YYYY, YYYY-MM or YYYY-MM-DD.")]


def wanted(word: Text = "", folder: Text = "", camera: Text = "", since: Date = "", until: Date = "") -> Filter:
    """The pictures that a query string asks for."""
    return Filter(word, folder, camera, since, until)


def from_our_page(request: Request, x_page_token: Annotated[str, Header()] = "") -> None:
    """Refuse a change that does not carry the token of our own page, which no other site can read."""
    if not compare_digest(x_page_token.encode(), context(request).settings.page_token.encode()):
        raise HTTPException(
            403, "changes are made on the search page only: the header X-Page-Token is missing or wrong"
        )


class StrictRequest(Request):
    """A request whose JSON is read in a thread of its own, and refused where JSON or UTF-8 does not know it."""

    async def json(self) -> Any:
        """The body."""
        return await run_in_threadpool(_parsed, await self.body())


class Route(APIRoute):
    """A route that takes strict JSON."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """What handles a request."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return strict


def _parsed(body: bytes) -> Any:
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
        if b"\\u" in body:
            json.dumps(value, ensure_ascii=False).encode()  # halves of surrogate pairs have no encoding
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else _reason(error)
        raise HTTPException(400, f"the body is not JSON: {reason}") from None
    return value


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    if isinstance(error, UnicodeError):
        return "it has characters that UTF-8 does not know"
    return str(error).partition(";")[0]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


Shared = Annotated[Context, Depends(context)]
Wanted = Annotated[Filter, Depends(wanted)]
OwnPage = Depends(from_our_page)
