"""isch index build, add, delete, compact, verify, info; isch search."""

import re
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

group = typer.Typer(name="index", help="Make, change and check an index on disk.", no_args_is_help=True)

IndexPath = Annotated[Path, typer.Argument(help="An index that isch index build wrote.")]
Source = Annotated[
    str, typer.Argument(help="A feature file, FILE::NAME inside one, or a folder of files; codes without a model.")
]
Keys = Annotated[
    Path | None,
    typer.Option(help="One key a line, or a .npy array; default: the names the features have, else 0, 1, 2, …"),
]
Metadata = Annotated[Path | None, typer.Option(help="One JSON object a line, for each row.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_CONDITION = re.compile(r"(?P<field>[^=<>!]+)(?P<operator>>=|<=|!=|=|<|>)(?P<value>.*)", re.DOTALL)


def attach(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (build, add, delete, compact, verify, info):
        group.command()(command)
    app.add_typer(group)
    app.command()(search)


def build(
    features: Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="The index to make.")],
    model: Annotated[Path | None, typer.Option(help="A model that isch fit wrote.")] = None,
    bits: Annotated[int | None, typer.Option(help="Without a model: the length of the codes given.")] = None,
    keys: Keys = None,
    metadata: Metadata = None,
    keep_features: Annotated[
        str | None, typer.Option(help="Keep the features too, as float16 or float32, for exact re-ranking.")
    ] = None,
) -> None:
    """Make an index of features with a model, or of packed codes without."""
    from isch.cli.progress import shown
    from isch.search.index import Index

    first = {"rows": features, "keys": _keys(keys), "metadata": _metadata(metadata)}
    with shown(), Index.create(output, model, n_bits=bits, keep_features=keep_features, **first) as index:
        count = len(index)
    typer.echo(f"{count} items indexed in {output}; next: isch search {quote(str(output))} QUERIES -k 10")


def add(
    index: IndexPath,
    features: Source,
    keys: Keys = None,
    metadata: Metadata = None,
    codes: Annotated[bool, typer.Option("--codes", help="These are codes that the index's model made.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the items whose keys exist.")] = False,
) -> None:
    """Add rows, all or none."""
    from isch.cli.progress import shown
    from isch.errors import ParameterError
    from isch.search.index import Index

    if codes and replace:
        raise ParameterError("--codes and --replace cannot be combined")
    with Index.open(index) as opened, shown():
        change = opened.add_codes if codes else opened.upsert if replace else opened.add
        change(features, _keys(keys), _metadata(metadata))
        typer.echo(f"{index} has {len(opened)} items")


def delete(
    index: IndexPath,
    keys: Annotated[list[str] | None, typer.Argument(help="Keys to delete.")] = None,
    file: Annotated[Path | None, typer.Option("--keys", help="A file of keys, one a line.")] = None,
    missing_ok: Annotated[bool, typer.Option("--missing-ok", help="Pass over keys that are not there.")] = False,
) -> None:
    """Delete items by key: as text, else as an integer."""
    from isch.errors import ParameterError
    from isch.search.index import Index

    wanted = [*(keys or []), *(_keys(file) or [])]
    if not wanted:
        raise ParameterError("give the keys to delete, or a file of them with --keys")
    with Index.open(index) as opened:
        count = opened.delete([_existing(opened, key) for key in wanted], missing_ok=missing_ok)
        typer.echo(f"{count} deleted; {index} has {len(opened)} items")


def compact(index: IndexPath) -> None:
    """Merge all segments and drop deleted rows; readers go on meanwhile."""
    from isch.cli.progress import shown
    from isch.search.index import Index

    with Index.open(index) as opened, shown():
        before = opened.info()["bytes"]
        opened.compact()
        typer.echo(f"{index}: {before} → {opened.info()['bytes']} bytes")


def verify(index: IndexPath) -> None:
    """Read everything and compare it with its checksums."""
    from isch.cli.progress import shown
    from isch.errors import FormatError
    from isch.search.verify import problems

    with shown():
        found = problems(index)
    for problem in found:
        typer.echo(problem)
    if found:
        raise FormatError(f"{index}: {len(found)} problem{'s' if len(found) > 1 else ''} found")
    typer.echo(f"{index}: all is well")


def info(index: IndexPath, json: AsJson = False) -> None:
    """Say what an index holds."""
    from json import dumps

    from isch.search.index import Index

    with Index.open(index) as opened:
        facts = opened.info()
    if json:
        typer.echo(dumps(facts, indent=2))
    else:
        for name, value in facts.items():
            typer.echo(f"{name:>13}  {'–' if value is None else value}")


def search(
    index: IndexPath,
    queries: Source,
    k: Annotated[int, typer.Option("-k", help="Hits a query.")] = 10,
    rerank: Annotated[
        str, typer.Option(help="asymmetric, exact, none, or auto: asymmetric where that is defined.")
    ] = "auto",
    oversample: Annotated[float | None, typer.Option(help="Candidates to re-rank, as a multiple of k.")] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="A condition on metadata: FIELD=VALUE, also < <= > >= !=; all must hold.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Find the nearest items of each query, nearest first; with --json, one line of JSON a query."""
    from isch.search.index import Index

    with Index.open(index) as opened:
        results = opened.search(queries, k, where=_where(where), rerank=rerank, oversample=oversample)
    if json:
        _echo_json(results)
    else:
        _echo_table(results)


def _echo_json(results: Any) -> None:
    from json import dumps

    for query, hits in enumerate(results):
        typer.echo(dumps({"query": query, "hits": [hit._asdict() for hit in hits]}, ensure_ascii=False))


def _echo_table(results: Any) -> None:
    typer.echo("query\trank\tdistance\tscore\tkey")
    for query, hits in enumerate(results):
        for rank, hit in enumerate(hits, 1):
            score = "" if hit.score is None else f"{hit.score:.6g}"
            typer.echo(f"{query}\t{rank}\t{hit.distance:g}\t{score}\t{hit.key}")


def _where(conditions: list[str] | None) -> list[dict[str, Any]] | None:
    """FIELD=VALUE means equal, to the text or to the JSON value it spells; the other operators make ranges."""
    where: list[dict[str, Any]] = []
    for text in conditions or []:
        match = _CONDITION.fullmatch(text)
        if match is None:
            from isch.errors import ParameterError

            raise ParameterError(f"--where expects FIELD=VALUE, or < <= > >= != between them; got {text!r}")
        field, operator, value = match["field"].strip(), match["operator"], match["value"].strip()
        where.append({field: [value, _spelt(value)] if operator == "=" else {operator: _spelt(value)}})
    return where or None


def _spelt(text: str) -> Any:
    """The number, true, false or null that a text spells, else the text."""
    from json import JSONDecodeError, loads

    try:
        value = loads(text)
    except JSONDecodeError:
        return text
    return text if isinstance(value, list | dict) else value


def _existing(index: Any, key: Any) -> Any:
    """The key as it is in the index: text, or the integer that the text spells."""
    if isinstance(key, str) and key not in index and re.fullmatch(r"-?\d{1,18}", key) and int(key) in index:
        return int(key)
    return key


def _keys(path: Path | None) -> list[Any] | None:
    if path is None:
        return None
    if path.suffix != ".npy":
        return _lines(path)
    from isch.features import npy

    return npy.load(path).ravel().tolist()


def _metadata(path: Path | None) -> list[Any] | None:
    from json import JSONDecodeError, loads

    from isch.errors import FormatError

    if path is None:
        return None
    rows = []
    for number, line in enumerate(_lines(path), 1):
        try:
            rows.append(loads(line))
        except JSONDecodeError as error:
            raise FormatError(f"{path}: line {number} is not JSON ({error})") from error
    return rows


def _lines(path: Path) -> list[str]:
    """The lines of a text file, without an empty one at its end."""
    from isch.errors import FileError, FormatError

    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: not a text file in UTF-8 ({error})") from error
    return text.removesuffix("\n").split("\n") if text else []
