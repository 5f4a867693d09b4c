"""isch duplicates."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isch.cli.arguments import AsJson
from isch.cli.console import complain, done, table
from isch.cli.help import SEARCH
from isch.cli.index import IndexPath

if TYPE_CHECKING:
    from isch.search.duplicates import Alike, AlikePair


def attach(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=SEARCH)(duplicates)


def duplicates(
    index: IndexPath,
    radius: Annotated[int, typer.Option("--radius", "-r", help="How many bits two codes may differ in.", min=0)] = 8,
    pairs: Annotated[
        bool, typer.Option("--pairs/--groups", help="List all pairs, or groups of which every two are near.")
    ] = False,
    json: AsJson = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say on standard error how the pairs are found, and why so.")
    ] = False,
) -> None:
    """List items that are nearly the same; each group says the largest distance between two of its items."""
    from isch.search.index import Index

    with Index.open(index) as opened:
        found = opened.duplicates(radius)
        if explain:
            complain(found.plan)
        if pairs:
            done(_json(found.pairs()) if json else _pairs(found.pairs()))
        else:
            done(_json(found) if json else _groups(found))


def _json(entries: Iterable[Any]) -> Iterator[str]:
    from json import dumps

    for entry in entries:
        yield dumps(entry._asdict(), ensure_ascii=False)


def _pairs(pairs: "Iterable[AlikePair]") -> Iterator[str]:
    yield from table([("first", "second", "distance")])
    yield from table(pairs)


def _groups(groups: "Iterable[Alike]") -> Iterator[str]:
    yield from table([("group", "diameter", "key")])
    for number, group in enumerate(groups):
        yield from table((number, group.diameter, key) for key in group.keys)
