"""Routes that show duplicates, remember decisions, and move copies to the trash."""

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException, Query, Response
from fastapi.responses import JSONResponse

from isch.files import printable
from isch.photos.duplicates import Group, Preference, as_csv
from isch.photos.matching import DEFAULT, Setting
from isch.photos.rules import DEFAULT as RULES
from isch.photos.trash import Outcome
from isch.web import schemas
from isch.web.context import Context
from isch.web.depends import MAX_TEXT, OwnPage, Route, Shared

router = APIRouter(route_class=Route)

Closeness = Annotated[Setting, Query(description="Which copies belong together.")]
Rules = Annotated[list[Literal["folder", "original", "pixels", "format", "oldest", "bytes"]], Query(max_length=6)]
Folders = Annotated[list[Annotated[str, Query(max_length=MAX_TEXT)]], Query(max_length=20)]


@router.get("/api/duplicates")
def duplicates(
    shared: Shared,
    closeness: Closeness = DEFAULT,
    rule: Rules = [],  # noqa: B006  # FastAPI copies defaults
    folder: Folders = [],  # noqa: B006
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> schemas.Duplicates:
    """Groups of copies that are still to be decided, the largest first."""
    groups = _groups(shared, closeness, rule, folder)
    spare = [item.bytes for group in groups for i, item in enumerate(group.items) if i != group.keep]
    return schemas.Duplicates(
        total=len(groups),
        offset=offset,
        closeness=closeness,
        pictures=sum(len(group.items) for group in groups),
        savings=sum(spare),
        groups=shared.copies(groups[offset : offset + limit]),
    )


@router.get("/api/duplicates/export", response_class=Response)
def export(
    shared: Shared,
    closeness: Closeness = DEFAULT,
    rule: Rules = [],  # noqa: B006
    folder: Folders = [],  # noqa: B006
    form: Annotated[Literal["csv", "json"], Query(alias="format")] = "csv",
) -> Response:
    """The whole list as a file."""
    groups = _groups(shared, closeness, rule, folder)
    name = {"content-disposition": f'attachment; filename="duplicates.{form}"'}
    if form == "csv":
        return Response(as_csv(groups).encode(), media_type="text/csv; charset=utf-8", headers=name)
    return JSONResponse([group.model_dump() for group in shared.copies(groups)], headers=name)


@router.post("/api/decisions", dependencies=[OwnPage], status_code=204)
def decide(decision: schemas.Decision, shared: Shared) -> None:
    """Remember what the user says of some pictures."""
    shared.duplicates.decide(decision.verdict, decision.items, decision.keep)


@router.post("/api/trash", dependencies=[OwnPage])
def trash(wanted: schemas.Trash, shared: Shared) -> schemas.Trashed:
    """Move copies to the system's trash, after the user has confirmed how many."""
    count = sum(len(removal.give_up) for removal in wanted.removals)
    if count != wanted.confirmed:
        raise HTTPException(400, f"{count} files would go to the trash, but {wanted.confirmed} were confirmed")
    plan = [(removal.give_up, removal.keep) for removal in wanted.removals]
    return _told(shared, shared.duplicates.trash(plan, wanted.closeness, wanted.step))


@router.get("/api/trash")
def undoable(shared: Shared) -> schemas.Undoable:
    """What the next undo would bring back from the trash."""
    return _undoable(shared)


@router.post("/api/trash/undo", dependencies=[OwnPage])
def undo(shared: Shared) -> schemas.Trashed:
    """Bring back what the last step moved to the trash; again, the step before."""
    return _told(shared, shared.duplicates.undo())


def _told(shared: Context, outcomes: Sequence[Outcome]) -> schemas.Trashed:
    shown = [
        schemas.Outcome(
            path=printable(one.path),
            bytes=one.bytes,
            moved=one.moved,
            to=None if one.to is None else printable(one.to),
            reason=None if one.reason is None else printable(one.reason),
        )
        for one in outcomes
    ]
    moved = [one for one in outcomes if one.moved]
    total = sum(one.bytes for one in moved)
    return schemas.Trashed(moved=len(moved), bytes=total, outcomes=shown, undoable=_undoable(shared))


def _undoable(shared: Context) -> schemas.Undoable:
    steps = shared.duplicates.bin.steps()
    last = steps[-1].entries if steps else []
    return schemas.Undoable(steps=len(steps), files=len(last), bytes=sum(entry["bytes"] for entry in last))


def _groups(shared: Shared, closeness: str, rules: Sequence[str], folders: Sequence[str]) -> list[Group]:
    top = shared.library.folder
    preference = Preference(tuple(rules) or RULES, tuple(str(top / folder) for folder in folders))
    return shared.duplicates.groups(closeness, preference)
