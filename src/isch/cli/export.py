"""isch export."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from isch.cli.console import done
from isch.cli.help import SEARCH
from isch.cli.index import IndexPath
from isch.cli.outputs import claim
from isch.errors import ParameterError

if TYPE_CHECKING:
    from isch.connect.base import Store
    from isch.search.index import Index

PLACES = {  # which options say where an engine keeps its codes
    "faiss": ("--output",),
    "usearch": ("--output",),
    "postgres": ("--url", "--table"),
    "lancedb": ("--uri", "--table"),
    "milvus": ("--uri", "--collection"),
}


def attach(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=SEARCH)(export)


def export(
    index: IndexPath,
    to: Annotated[
        Literal["faiss", "usearch", "postgres", "lancedb", "milvus"], typer.Option("--to", help="The engine.")
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The file to make (faiss, usearch).")] = None,
    url: Annotated[str | None, typer.Option(help="The server: postgresql://user@host/database.")] = None,
    uri: Annotated[
        str | None, typer.Option(help="The folder or server of LanceDB; the server, or a file, of Milvus.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="The table (postgres, lancedb).")] = None,
    collection: Annotated[str | None, typer.Option(help="The collection (milvus).")] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="The index that the engine builds; faiss: flat, ivf, hnsw; usearch: hnsw, exact; postgres: exact, "
            "hnsw. The first is the default."
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Begin anew where the file, table or collection exists.")
    ] = False,
) -> None:
    """Put the items of an index into another engine; what is there already is brought up to date."""
    from isch.cli.progress import shown
    from isch.connect.export import export as stream
    from isch.search.index import Index

    given = {"--output": output, "--url": url, "--uri": uri, "--table": table, "--collection": collection}
    place = _place(to, given)
    if output is not None:
        claim(output, [index], force=True)
    with Index.open(index) as opened, shown(), _store(opened, to, place, kind, replace) as store:
        count = stream(opened, store)
        there = len(store)
    more = f"; there are {there} in all" if there != count else ""
    done(f"{count} items exported to {store.where}{more}")


def _place(to: str, given: dict[str, Any]) -> list[Any]:
    """Where the engine keeps its codes; refuses options that are missing and options that it has no use for."""
    needed = PLACES[to]
    if missing := [name for name in needed if given[name] is None]:
        raise ParameterError(f"--to {to} needs {' and '.join(needed)}; {' and '.join(missing)} is missing")
    if extra := [name for name, value in given.items() if value is not None and name not in needed]:
        raise ParameterError(f"--to {to} takes {' and '.join(needed)}; got {' and '.join(extra)} too")
    return [given[name] for name in needed]


def _store(index: "Index", to: str, place: list[Any], kind: str | None, replace: bool) -> "Store":
    from isch.connect import engine

    options: dict[str, Any] = {"encoder": index.encoder} if index.has_model else {"n_bits": index.n_bits}
    if kind is not None:
        if to in ("lancedb", "milvus"):
            raise ParameterError(f"--kind: {to} has no kinds of index here; its search is exact")
        options["kind"] = kind
    return engine(to)(*place, **options, replace=replace)
