"""isch demo: the search page, or three searches as text, over pictures that the package brings and draws."""

from contextlib import nullcontext
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from isch.cli.console import done, say
from isch.cli.help import START
from isch.cli.serving import Door, Host, NoBrowser, Port, Token

if TYPE_CHECKING:
    from isch.photos.library import Library

PICTURE = "scenes/balloons 4.jpg"
WORD = "lighthouse"
SHOWN = 5  # pictures, or groups of copies, that a search prints
NAMED = 3  # copies of a group that are named

Folder = Annotated[
    Path | None, typer.Option(help="A new folder for the pictures; default: a folder in the user's cache.")
]
Once = Annotated[bool, typer.Option("--once", help="Print three searches and end, without the page.")]


def attach(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=START)(demo)


def demo(
    folder: Folder = None,
    once: Once = False,
    port: Port = 8765,
    host: Host = "127.0.0.1",
    token: Token = None,
    no_browser: NoBrowser = False,
) -> None:
    """See it work: a search page over some 250 pictures, with more like this, words and duplicates."""
    from isch.cli.progress import shown
    from isch.errors import require
    from isch.photos import samples
    from isch.photos.copies import compiling
    from isch.photos.library import Library
    from isch.web.app import create

    require("fastapi", "photos")
    with nullcontext() if once else Door(port, host, token, no_browser) as door:
        pictures = _cached() if folder is None else folder.expanduser().absolute()
        with compiling():
            with shown():
                samples.write(pictures)
                library = Library(pictures)
                library.update()
            say(f"{len(library)} pictures are in {pictures}")
            if door is None or not door.opens_browser:
                _search(library)
            hint = "the same with pictures of your own: isch photos FOLDER"
            if door is None:
                done(["", hint])
            else:
                say()
                say(hint)
                door.open(create(library, door.settings))


def _cached() -> Path:
    from platformdirs import user_cache_path

    return Path(user_cache_path("isch")) / "demo"


def _search(library: "Library") -> None:
    """One search of each kind, as text."""
    from isch.photos.catalog import Filter

    _like(library)
    say()
    say(f"pictures that may show a {WORD}:")
    for item in library.catalog.page(Filter(WORD), 0, SHOWN):
        say(f"  {item.name}")
    say()
    _copies(library)


def _like(library: "Library") -> None:
    hits = library.search(library.folder / PICTURE, SHOWN + 1)
    say()
    say(f"pictures like {PICTURE}, and how far away they are:")
    for hit in hits:
        if hit.item.path != str(library.folder / PICTURE):
            say(f"  {hit.score:.2f}  {hit.item.name}")


def _copies(library: "Library") -> None:
    from isch.photos.duplicates import Duplicates

    say("looking for copies of the same picture; in a new installation this takes half a minute, once")
    groups = Duplicates(library).groups()
    say(f"{len(groups)} pictures have copies; the largest groups, each with the copy to keep:")
    for group in groups[:SHOWN]:
        spare = [item.name for place, item in enumerate(group.items) if place != group.keep]
        more = f" and {len(spare) - NAMED} more" if len(spare) > NAMED else ""
        say(f"  {group.items[group.keep].name}: {', '.join(spare[:NAMED])}{more}")
    say(f"  isch photos duplicates --folder {quote(str(library.folder))} lists them all")
