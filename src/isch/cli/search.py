"""isch search, within."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from isch.cli import arguments
from isch.cli.arguments import AsJson
from isch.cli.console import complain, done, table
from isch.cli.help import SEARCH
from isch.cli.index import Source
from isch.errors import ParameterError

if TYPE_CHECKING:
    from isch.search.index import Index
    from isch.search.indexes import Indexes
    from isch.search.results import Hit

Paths = Annotated[list[Path], typer.Argument(help="An index, or several with the same model.")]
Conditions = Annotated[
    list[str] | None, typer.Option(help="A condition on metadata: FIELD=VALUE, also < <= > >= !=; all must hold.")
]
Explain = Annotated[bool, typer.Option("--explain", help="Say on standard error how the items are found, and why so.")]


def attach(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (search, within):
        app.command(rich_help_panel=SEARCH)(command)


def search(
    index: Paths,
    queries: Source,
    k: Annotated[int, typer.Option("-k", help="Hits per query.", min=1)] = 10,
    rerank: Annotated[
        Literal["auto", "asymmetric", "factors", "exact", "none"],
        typer.Option(help="How the best hits are sorted; auto: by factors if kept, else asymmetric if it can be."),
    ] = "auto",
    oversample: Annotated[
        float | None, typer.Option(help="How many candidates to re-rank, as a multiple of k.", min=1)
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(help="The share of the true neighbours to find, such as .95; oversampling follows.", min=0, max=1),
    ] = None,
    where: Conditions = None,
    explain: Explain = False,
    cluster: arguments.Cluster = None,
    json: AsJson = False,
) -> None:
    """Find the nearest items of each query, nearest first; with --json, one line of JSON per query."""
    from isch.cli.cluster import client_of

    wanted = arguments.conditions(where)
    with client_of(cluster) as client, _opened(index, client) as opened:
        kept = opened.info()["keep_features"] in ("float16", "float32")
        if rerank == "exact" and not kept:
            raise ParameterError("--rerank exact needs an index that was built with --keep-features float16 or float32")
        if recall is not None and not kept:
            raise ParameterError("--recall needs an index that was built with --keep-features float16 or float32")
        if explain:
            _explain(opened.explain(queries, k))
        results = opened.search(queries, k, where=wanted, rerank=rerank, oversample=oversample, recall=recall)
    done(_json(results) if json else _table(results))


def within(
    index: Paths,
    queries: Source,
    radius: Annotated[int, typer.Option("--radius", "-r", help="How many bits two codes may differ in.", min=0)] = 8,
    where: Conditions = None,
    explain: Explain = False,
    cluster: arguments.Cluster = None,
    json: AsJson = False,
) -> None:
    """Find every item near a query, however many, nearest first; with --json, one line of JSON per query."""
    from isch.cli.cluster import client_of

    wanted = arguments.conditions(where)
    with client_of(cluster) as client, _opened(index, client) as opened:
        if explain:
            _explain(opened.explain(queries, radius=radius))
        results = opened.within(queries, radius, where=wanted)
    done(_json(results) if json else _table(results))


def _explain(sentences: list[str]) -> None:
    for number, sentence in enumerate(sentences, 1):
        complain(sentence if len(sentences) == 1 else f"segment {number} of {len(sentences)}: {sentence}")


def _opened(folders: list[Path], client: Any) -> "Index | Indexes":
    from isch.search.index import Index

    return Index.open(folders[0], client=client) if len(folders) == 1 else Index.open(folders, client=client)


def _json(results: "Iterable[list[Hit]]") -> Iterator[str]:
    from json import dumps

    for query, hits in enumerate(results):
        yield dumps({"query": query, "hits": list(map(_fields, hits))}, ensure_ascii=False)


def _fields(hit: "Hit") -> dict[str, Any]:
    """A hit by the names of its fields; in one of several indexes, that index is one of them."""
    key: Any = hit.key
    return hit._asdict() | ({} if isinstance(key, str | int) else {"index": key.folder, "key": key.key})


def _table(results: "Iterable[list[Hit]]") -> Iterator[str]:
    yield from table([("query", "rank", "distance", "score", "key")])
    for query, hits in enumerate(results):
        for rank, hit in enumerate(hits, 1):
            score = "" if hit.score is None else f"{hit.score:.6g}"
            yield from table([(query, rank, f"{hit.distance:g}", score, hit.key)])
