"""isch photos: a folder of pictures, searched in the browser or from the command line."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isch.cli.arguments import AsJson
from isch.cli.console import complain, done, json_lines, say, table
from isch.cli.help import PICTURES, SEARCH, Commands
from isch.cli.index import IndexPath

if TYPE_CHECKING:
    from isch.photos.library import Library, Report
    from isch.web.settings import Settings

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
    Path | None, typer.Option("--index", help="Where the index is kept; default: a folder in the user's cache.")
]
Port = Annotated[int, typer.Option(help="The port to listen on; 0 takes any free one.")]
Host = Annotated[str, typer.Option(help="The address to listen on; any but loopback needs --token.")]
Token = Annotated[str | None, typer.Option(help="What a browser must know to use the page.", envvar="ISCH_TOKEN")]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Print the address only.")]
Keep = Annotated[
    list[str] | None,
    typer.Option(help="Which copy to keep: pixels, format, bytes, oldest, folder; may be given several times."),
]


def attach(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (open_, index, search, duplicates, serve):
        group.command(name=command.__name__.rstrip("_"))(command)
    app.add_typer(group, rich_help_panel=PICTURES)
    app.command(name="serve", rich_help_panel=SEARCH)(serve_index)


def serve_index(
    index: IndexPath,
    port: Port = 8765,
    host: Host = "127.0.0.1",
    token: Token = None,
    no_browser: NoBrowser = False,
) -> None:
    """Serve any index: a page and an HTTP API that search by vector, by item, and by picture where it can."""
    settings = _settings(host, port, token)
    from isch.web.indexed import create

    _listen(create(index, settings), settings, not no_browser)


def open_(
    folder: Folder,
    index: Home = None,
    port: Port = 8765,
    host: Host = "127.0.0.1",
    token: Token = None,
    no_browser: NoBrowser = False,
) -> None:
    """Bring the index of a folder up to date and open its search page."""
    settings = _settings(host, port, token)
    library = _library(folder, index)
    _update(library)
    _serve(library, settings, not no_browser)


def index(folder: Folder, index: Home = None) -> None:
    """Bring the index of a folder up to date: only new, changed, moved and deleted files are handled."""
    _update(_library(folder, index))


def search(
    picture: Annotated[Path, typer.Argument(help="The picture to find the like of.")],
    folder: LastFolder = None,
    index: Home = None,
    k: Annotated[int, typer.Option("-k", help="How many pictures to find.")] = 10,
    json: AsJson = False,
) -> None:
    """Find the pictures most like one."""
    library = _library(folder, index)
    hits = library.search(picture, k)
    if json:
        done(json_lines([{"path": hit.item.path, "distance": hit.distance, "score": hit.score} for hit in hits]))
        return
    from isch.files import printable

    done(table((hit.distance, printable(hit.item.path)) for hit in hits))


def duplicates(
    folder: LastFolder = None,
    index: Home = None,
    closeness: Annotated[str, typer.Option(help="identical, near, loose, or a number of bits from 0 to 36.")] = "near",
    keep: Keep = None,
    prefer: Annotated[list[Path] | None, typer.Option(help="A preferred folder, for the copy to keep.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    json: AsJson = False,
) -> None:
    """List groups of identical and near-identical pictures, and the copy to keep of each."""
    from isch.photos.duplicates import Duplicates, Preference, as_csv
    from isch.photos.rules import DEFAULT as RULES

    wanted = Preference(tuple(keep or RULES), tuple(str(path.absolute()) for path in prefer or []))
    groups = Duplicates(_library(folder, index)).groups(_number(closeness), wanted)
    if csv:
        typer.echo(as_csv(groups), nl=False)
    elif json:
        done(json_lines([_plain(group) for group in groups]))
    else:
        _list(groups)


def serve(
    folder: LastFolder = None,
    index: Home = None,
    port: Port = 8765,
    host: Host = "127.0.0.1",
    token: Token = None,
    no_browser: NoBrowser = False,
) -> None:
    """Open the search page of a folder at once; what has changed is brought up to date meanwhile."""
    settings = _settings(host, port, token)
    _serve(_library(folder, index), settings, not no_browser)


def _library(folder: Path | None, home: Path | None) -> "Library":
    from isch.photos import homes
    from isch.photos.library import Library

    library = Library(folder or homes.last(), home)
    homes.remember(library.folder)
    return library


def _settings(host: str, port: int, token: str | None) -> "Settings":
    """Checked before the work, not after it."""
    from isch.errors import require
    from isch.web.settings import Settings

    require("fastapi", "photos")
    return Settings(host=host, port=port, token=token)


def _update(library: "Library") -> None:
    from isch.cli.progress import shown

    with shown():
        report = library.update()
    say(f"{library.folder}: {report}")
    _explain(library, report)


def _explain(library: "Library", report: "Report") -> None:
    if report.learned:
        say(f"codes of 256 bits were learned from {report.learned} pictures")
    elif not library.learned and len(library):
        from isch.photos.library import LEARN_ROWS

        say(
            f"{len(library)} pictures are too few to learn codes from: random codes find them and their vectors order "
            f"them; from {LEARN_ROWS} pictures on, codes are learned"
        )
    for path, (_, reason) in list(library.catalog.failures().items())[:20]:
        from isch.files import printable

        complain(f"{printable(path.decode('utf-8', 'surrogateescape'))}: {reason}")


def _serve(library: "Library", settings: "Settings", browser: bool) -> None:
    from isch.web.app import create

    _listen(create(library, settings), settings, browser)


def _listen(app: Any, settings: "Settings", browser: bool) -> None:
    from isch.web.server import serve as run

    def ready(address: str) -> None:
        say(f"the search page is at {address} (Ctrl-C stops it)")

    run(app, settings, ready, browser)


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _plain(group: Any) -> dict[str, Any]:
    from isch.files import printable

    return {
        "keep": printable(group.items[group.keep].path),
        "reason": group.reason,
        "largest_distance": group.diameter,
        "copies": [
            {"path": printable(item.path), "width": item.width, "height": item.height, "bytes": item.bytes}
            for item in group.items
        ],
    }


def _list(groups: list[Any]) -> None:
    from isch.files import printable

    for number, group in enumerate(groups, 1):
        say(f"group {number}: {len(group.items)} copies, at most {group.diameter:g} bits apart")
        for position, item in enumerate(group.items):
            mark = "keep" if position == group.keep else "    "
            say(f"  {mark}  {item.width} × {item.height}  {item.bytes} bytes  {printable(item.path)}")
    spare = sum(item.bytes for group in groups for i, item in enumerate(group.items) if i != group.keep)
    done(f"{len(groups)} groups; {spare} bytes in spare copies")
