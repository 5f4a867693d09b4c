"""isch export, import."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from isch.cli.arguments import MAX_BITS
from isch.cli.console import done
from isch.cli.help import SEARCH
from isch.cli.outputs import beside, claim
from isch.connect import ENGINES, FILE, FORMATS
from isch.errors import FileError, ParameterError

if TYPE_CHECKING:
    from isch.connect.source import Source

OUTSIDE = {name: facts for name, facts in ENGINES.items() if name != "local"}
FILES = ", ".join([*(name for name, facts in OUTSIDE.items() if facts.place == FILE), *FORMATS])
COLUMNS = [name for name, facts in (OUTSIDE | FORMATS).items() if facts.columns]
KINDS = "; ".join(f"{name}: {', '.join(facts.kinds)}" for name, facts in OUTSIDE.items() if facts.kinds)

if TYPE_CHECKING:
    # A type checker does not follow literals that are worked out.
    Name = str
else:
    Name = Literal[(*OUTSIDE, *FORMATS)]

Bits = Annotated[
    int | None,
    typer.Option(help="Bits per code, where codes do not fill their bytes and nothing says so.", min=1, max=MAX_BITS),
]
Url = Annotated[str | None, typer.Option(help="The server: postgresql://user@host/database.")]
Uri = Annotated[str | None, typer.Option(help="The folder or server of LanceDB; the server, or a file, of Milvus.")]
Table = Annotated[str | None, typer.Option(help="The table (postgres, lancedb).")]
Collection = Annotated[str | None, typer.Option(help="The collection (milvus).")]
Target = Annotated[Path | None, typer.Option("--output", "-o", help=f"The file to make ({FILES}).")]
Kind = Annotated[
    str | None,
    typer.Option(
        "--kind",
        "--index",
        help=f"The index that the engine builds; {KINDS}. The first is the default.",
    ),
]
Replace = Annotated[bool, typer.Option("--replace", help="Begin anew where the file, table or collection exists.")]
Read = Annotated[Path | None, typer.Argument(help=f"The file to read ({FILES}).")]
Model = Annotated[Path | None, typer.Option(help="The model that made the codes, so that the index takes features.")]
BitOrder = Annotated[
    Literal["packbits", "little"],
    typer.Option(help="Where the first bit of a byte is: packbits, the highest bit; little, the lowest."),
]
Code = Annotated[str | None, typer.Option(help=f"The column or dataset with the codes ({', '.join(COLUMNS)}).")]
Key = Annotated[str | None, typer.Option(help=f"The column or dataset with the keys ({', '.join(COLUMNS)}).")]


def attach(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(rich_help_panel=SEARCH)(export)
    app.command("import", rich_help_panel=SEARCH)(import_)


def export(
    source: Annotated[Path, typer.Argument(help="An index, or a file of codes: .npy, .h5 or .parquet.")],
    to: Annotated[Name, typer.Option("--to", help="The engine, or the format of a file.")],
    output: Target = None,
    url: Url = None,
    uri: Uri = None,
    table: Table = None,
    collection: Collection = None,
    kind: Kind = None,
    bits: Bits = None,
    replace: Replace = False,
) -> None:
    """Put the items of an index, or of a file of codes, into another engine or file.

    What an engine has already is brought up to date.
    """
    from isch.cli.progress import shown
    from isch.connect.source import ReadOptions
    from isch.connect.transfer import export_file, opened

    given = {"path": output, "url": url, "uri": uri, "table": table, "collection": collection}
    place = _place("--to", to, given)
    if kind is not None and not (to in OUTSIDE and OUTSIDE[to].kinds):
        raise ParameterError(f"--kind: {to} has no kinds of index here; got {kind}")
    if output is not None:
        claim(output, [source], force=True)
    with shown(), opened(source, ReadOptions(bits)) as codes:
        if to in OUTSIDE:
            said = _into_engine(codes, to, place, kind, replace)
        else:
            count = export_file(codes, to, _free(place[0], replace))
            said = f"{count} items exported to {place[0]}{'; .npy files keep no metadata' if to == 'npy' else ''}"
    done(said)


def import_(
    engine: Annotated[Name, typer.Argument(help="The engine, or the format of the file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The index to make.")],
    file: Read = None,
    url: Url = None,
    uri: Uri = None,
    table: Table = None,
    collection: Collection = None,
    model: Model = None,
    bits: Bits = None,
    bit_order: BitOrder = "packbits",
    code: Code = None,
    key: Key = None,
) -> None:
    """Make an index from codes that exist in another engine or file."""
    from isch.cli.progress import shown
    from isch.connect.source import ReadOptions, Reversed
    from isch.connect.transfer import import_index, imported
    from isch.encoder import Encoder

    given = {"path": file, "url": url, "uri": uri, "table": table, "collection": collection}
    place = _place("import", engine, given)
    if (code is not None or key is not None) and engine not in COLUMNS:
        raise ParameterError(f"import {engine} has no columns; got --code or --key")
    claim(output, [path for path in (file, model) if path is not None], force=None)
    encoder = None if model is None else Encoder.load(model)
    with shown(), imported(engine, place, ReadOptions(bits, code, key)) as codes:
        count = import_index(codes if bit_order == "packbits" else Reversed(codes), output, encoder)
    done(f"{count} items imported from {codes.where}; next: isch search {quote(str(output))} QUERIES -k 10")


def _place(command: str, name: str, given: dict[str, Any]) -> list[Any]:
    """Where codes are; refuses options that are missing and options that there is no use for."""
    words = {option: f"--{option}" for option in given} | {"path": "--output" if command == "--to" else "FILE"}
    needed = OUTSIDE[name].place if name in OUTSIDE else FILE
    listed = " and ".join(words[option] for option in needed)
    if missing := [words[option] for option in needed if given[option] is None]:
        raise ParameterError(f"{command} {name} needs {listed}; {' and '.join(missing)} is missing")
    if extra := [words[option] for option, value in given.items() if value is not None and option not in needed]:
        raise ParameterError(f"{command} {name} takes {listed}; got {' and '.join(extra)} too")
    return [given[option] for option in needed]


def _free(path: Path, replace: bool) -> Path:
    for file in (path, *beside(path)):
        if file.exists() and not replace:
            raise FileError(f"{file} exists already; --replace overwrites it")
    return path


def _into_engine(source: "Source", to: str, place: list[Any], kind: str | None, replace: bool) -> str:
    """Put codes into an engine; gives what was done in words."""
    from isch.connect import engine
    from isch.connect.transfer import export as stream

    options: dict[str, Any] = {"create": True, "replace": replace} | ({} if kind is None else {"kind": kind})
    with engine(to)(*place, getattr(source, "model", None) or source.tag, **options) as store:
        count = stream(source, store)
        there = len(store)
    return f"{count} items exported to {store.where}{f'; there are {there} in all' if there != count else ''}"
