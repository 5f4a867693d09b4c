"""isch photos: a folder of pictures, searched in the browser or from the command line."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isch.cli.arguments import AsJson
from isch.cli.console import complain, done, json_lines, say, table
from isch.cli.help import PICTURES, SEARCH, Commands
from isch.cli.index import IndexPath
from isch.cli.serving import Door, with_door

if TYPE_CHECKING:
    from isch.photos.library import Library
    from isch.photos.updating import Report

NAMED = 20  # files that could not be used and are named
CATALOG = "catalog.sqlite"
DEFAULT = "open"  # the command that a folder alone stands for


class FolderOrCommand(Commands):
    """``isch photos FOLDER`` is ``isch photos open FOLDER``."""

    def parse_args(self, context: Any, arguments: list[str]) -> list[str]:
        words = [word for word in arguments if not word.startswith("-")]
        if words and words[0] not in self.commands and "--help" not in arguments:
            arguments = [DEFAULT, *arguments]
        return super().parse_args(context, arguments)


group = typer.Typer(
    name="photos",
    cls=FolderOrCommand,
    help="Search a folder of pictures: isch photos FOLDER describes it, learns codes and opens the search page.",
)

Folder = Annotated[Path, typer.Argument(help="A folder of pictures, searched with all its subfolders.")]
LastFolder = Annotated[
    Path | None, typer.Option("--folder", help="The folder of pictures; default: the one used last.")
]
Home = Annotated[
    Path | None,
    typer.Option(
        "--index",
        help="Where everything is kept; default: the index in the user's cache, decisions in the user's data.",
    ),
]
Prune = Annotated[
    bool,
    typer.Option("--prune", help="Forget pictures that vanished all at once too, as if from a missing drive."),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(help="Which copy to keep: original, pixels, format, oldest, bytes, folder; in order of their weight."),
]


def attach(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (open_, index, search, duplicates, serve):
        group.command(name=command.__name__.rstrip("_"))(command)
    app.add_typer(group, rich_help_panel=PICTURES)
    app.command(name="serve", rich_help_panel=SEARCH)(serve_index)


@with_door
def serve_index(door: Door, index: IndexPath) -> None:
    """Serve any index: a page and an HTTP API that search by vector, by item, and by picture where it can."""
    from isch.web.indexed import create

    door.open(create(index, door.settings))


@with_door
def open_(door: Door, folder: Folder, index: Home = None, prune: Prune = False) -> None:
    """Bring the index of a folder up to date and open its search page."""
    library = _library(folder, index)
    _update(library, prune)
    _serve(door, library)


def index(folder: Folder, index: Home = None, prune: Prune = False) -> None:
    """Bring the index of a folder up to date: only new, changed, moved and deleted files are handled."""
    _update(_library(folder, index), prune)


def search(
    picture: Annotated[Path, typer.Argument(help="The picture to find the like of.")],
    folder: LastFolder = None,
    index: Home = None,
    k: Annotated[int, typer.Option("-k", help="How many pictures to find.", min=1)] = 10,
    json: AsJson = False,
) -> None:
    """Find the pictures most like one."""
    from isch.errors import InputError

    library = _indexed(folder, index)
    if not len(library):
        raise InputError(f"{library.folder}: the index holds no pictures; isch photos index looks for them")
    hits = library.search(picture, k)
    if json:
        done(json_lines([{"path": hit.item.path, "distance": hit.distance, "score": hit.score} for hit in hits]))
        return
    from isch.files import printable

    done(table((hit.distance, printable(hit.item.path)) for hit in hits))


def duplicates(
    folder: LastFolder = None,
    index: Home = None,
    closeness: Annotated[str, typer.Option(help="identical, same or altered.")] = "same",
    keep: Keep = None,
    prefer: Annotated[list[Path] | None, typer.Option(help="A preferred folder, for the copy to keep.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    json: AsJson = False,
) -> None:
    """List groups of identical and near-identical pictures, and the copy to keep of each."""
    from isch.photos.duplicates import Duplicates, Preference, as_csv
    from isch.photos.rules import DEFAULT as RULES

    wanted = Preference(tuple(keep or RULES), tuple(str(path.absolute()) for path in prefer or []))
    groups = Duplicates(_indexed(folder, index)).groups(closeness, wanted)
    if csv:
        typer.echo(as_csv(groups), nl=False)
    elif json:
        done(json_lines([_plain(group) for group in groups]))
    else:
        _list(groups)


@with_door
def serve(door: Door, folder: LastFolder = None, index: Home = None) -> None:
    """Open the search page of a folder at once; what has changed is brought up to date meanwhile."""
    library = _library(folder, index)
    for notice in library.notices:
        complain(notice)
    _serve(door, library)


def _library(folder: Path | None, home: Path | None) -> "Library":
    from isch.errors import InputError
    from isch.photos import homes
    from isch.photos.library import Library

    if folder is not None and not folder.expanduser().exists():
        raise InputError(
            f"{folder}: there is no such folder; name the one that holds your pictures, as in isch photos FOLDER, "
            "or try isch demo, which brings pictures of its own"
        )
    library = Library(folder or homes.last(), home)
    homes.remember(library.folder)
    return library


def _indexed(folder: Path | None, home: Path | None) -> "Library":
    """A library that was made before; a folder that was mistyped is not made one."""
    from isch.errors import InputError
    from isch.photos import homes

    top = (folder or homes.last()).expanduser().absolute()
    kept = homes.home_of(top) if home is None else home
    if top.is_dir() and not (kept / CATALOG).is_file():
        raise InputError(f"{top}: this folder has no index in {kept} yet; isch photos index {top} makes one")
    library = _library(top, home)
    for notice in library.notices:
        complain(notice)
    return library


def _update(library: "Library", prune: bool) -> None:
    from isch.cli.progress import shown

    with shown():
        report = library.update(prune=prune)
    for notice in library.notices:
        complain(notice)
    if report.missing and _agreed("forget them now?"):
        with shown():
            report = library.update(prune=True)
    say(f"{library.folder}: {report}")
    _explain(library, report)


def _agreed(question: str) -> bool:
    """Whether somebody at the terminal says yes; without a terminal nobody does."""
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        return False
    complain(f"{question} [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _explain(library: "Library", report: "Report") -> None:
    if report.learned:
        say(f"codes of {library.n_bits} bits were learned from {report.learned:,} pictures")
    elif not library.learned and len(library):
        from isch.photos.updating import LEARN_ROWS

        say(
            f"{_count(len(library), 'picture')}: too few to learn codes from, so random codes are used; from "
            f"{LEARN_ROWS:,} pictures on, codes are learned"
        )
    _complain(library, report)


def _complain(library: "Library", report: "Report") -> None:
    """Name the folders that could not be read, and the files that could not be used."""
    from isch.files import printable

    unread = [(failure.name, failure.reason) for failure in report.unread]
    unusable = [(os.fsdecode(path), reason) for path, (_, reason) in library.catalog.failures().items()]
    for path, reason in [*unread, *unusable][:NAMED]:
        complain(f"{printable(path)}: {reason}")
    if (more := len(unread) + len(unusable) - NAMED) > 0:
        complain(f"{more} more files could not be used")


def _serve(door: Door, library: "Library") -> None:
    from isch.photos.copies import compiling
    from isch.web.app import create

    with compiling():
        door.open(create(library, door.settings))


def _plain(group: Any) -> dict[str, Any]:
    from isch.files import printable

    return {
        "keep": printable(group.items[group.keep].path),
        "reason": group.reason,
        "closeness": group.closeness,
        "copies": [
            {"path": printable(item.path), "width": item.width, "height": item.height, "bytes": item.bytes}
            for item in group.items
        ],
    }


def _list(groups: list[Any]) -> None:
    from isch.files import printable

    for number, group in enumerate(groups, 1):
        say(f"group {number}: {len(group.items)} copies, {group.closeness}")
        for position, item in enumerate(group.items):
            mark = "keep" if position == group.keep else "    "
            say(f"  {mark}  {item.width} × {item.height}  {item.bytes} bytes  {printable(item.path)}")
    spare = sum(item.bytes for group in groups for i, item in enumerate(group.items) if i != group.keep)
    done(f"{_count(len(groups), 'group')}; {spare:,} bytes in spare copies")


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s'[: n != 1]}"
