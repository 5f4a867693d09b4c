"""What routes ask for: the context, a filter, and proof that a change comes from our own page."""

from secrets import compare_digest
from typing import Annotated

from fastapi import Depends, Header, HTTPException, Query, Request

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


Shared = Annotated[Context, Depends(context)]
Wanted = Annotated[Filter, Depends(wanted)]
OwnPage = Depends(from_our_page)
