"""isch index build, add, delete, compact, verify, backup, repair, info."""

import re
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from isch.cli import arguments
from isch.cli.arguments import MAX_BITS, AsJson
from isch.cli.console import complain, done, facts, json_lines, say
from isch.cli.help import SEARCH, Commands
from isch.cli.outputs import claim
from isch.errors import FormatError, InputError, KeysExist, ParameterError

if TYPE_CHECKING:
    from isch.search.index import Index

group = typer.Typer(name="index", help="Make, change and check an index on disk.", cls=Commands)

IndexPath = Annotated[Path, typer.Argument(help="An index that isch index build made.")]
Source = Annotated[
    str,
    typer.Argument(
        help="A feature file, FILE::NAME for one matrix inside it, a folder of feature files, or pictures if the model "
        "describes pictures; packed codes if there is no model."
    ),
]
Keys = Annotated[
    Path | None,
    typer.Option(help="A file with one key per line, or a .npy array; default: the names of the rows, else 0, 1, 2, …"),
]
Metadata = Annotated[Path | None, typer.Option(help="A file with one JSON object per line, one for each row.")]


def attach(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (build, add, delete, compact, verify, backup, repair, info):
        group.command()(command)
    app.add_typer(group, rich_help_panel=SEARCH)


def build(
    features: Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="The index to make.")],
    model: Annotated[Path | None, typer.Option(help="A model that isch fit wrote.")] = None,
    bits: Annotated[
        int | None, typer.Option(help="Without a model: the bits per code of the codes given.", min=1, max=MAX_BITS)
    ] = None,
    keys: Keys = None,
    metadata: Metadata = None,
    keep_features: Annotated[
        Literal["float16", "float32", "factors"] | None,
        typer.Option(help="Keep the features, or factors of a model of method distance, to re-rank by."),
    ] = None,
) -> None:
    """Make an index: of features with a model, or of packed codes without."""
    from isch.cli.progress import shown
    from isch.search.index import Index

    if (model is None) == (bits is None):
        raise ParameterError("index build needs --model MODEL for features, or --bits N for packed codes; not both")
    if bits is not None and keep_features is not None:
        raise ParameterError("--keep-features needs --model: packed codes have no features")
    claim(output, [path for path in (features, model, keys, metadata) if path is not None], force=None)
    first = {"rows": features, "keys": arguments.keys(keys), "metadata": arguments.metadata(metadata)}
    with shown(), Index.create(output, model, n_bits=bits, keep_features=keep_features, **first) as index:
        count = len(index)
    done(f"{count} items indexed in {output}; next: isch search {quote(str(output))} QUERIES -k 10")


def add(
    index: IndexPath,
    features: Source,
    keys: Keys = None,
    metadata: Metadata = None,
    codes: Annotated[bool, typer.Option("--codes", help="These are codes that the index's model made.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the items whose keys exist.")] = False,
) -> None:
    """Add items, all or none."""
    from isch.cli.progress import shown
    from isch.search.index import Index

    if codes and replace:
        raise ParameterError("--codes and --replace cannot be combined")
    with Index.open(index) as opened, shown():
        change = opened.add_codes if codes else opened.upsert if replace else opened.add
        try:
            change(features, arguments.keys(keys), arguments.metadata(metadata))
        except KeysExist as error:
            raise InputError(f"{error.fact}; --replace replaces those items") from error
        count = len(opened)
    done(f"{index} has {count} items")


def delete(
    index: IndexPath,
    keys: Annotated[list[str] | None, typer.Argument(help="Keys to delete.")] = None,
    file: Annotated[Path | None, typer.Option("--keys", help="A file of keys, one per line.")] = None,
    missing_ok: Annotated[bool, typer.Option("--missing-ok", help="Skip keys that are not in the index.")] = False,
) -> None:
    """Delete items by key: as text, else as an integer."""
    from isch.search.index import Index

    wanted = [*(keys or []), *(arguments.keys(file) or [])]
    if not wanted:
        raise ParameterError("give the keys to delete, or a file of them with --keys")
    with Index.open(index) as opened:
        count = opened.delete([_existing(opened, key) for key in wanted], missing_ok=missing_ok)
        left = len(opened)
    done(f"{count} deleted; {index} has {left} items")


def compact(index: IndexPath) -> None:
    """Merge all segments and drop deleted items; searches may continue meanwhile."""
    from isch.cli.progress import shown
    from isch.search.index import Index

    with Index.open(index) as opened, shown():
        before = opened.info()
        opened.compact()
    with Index.open(index) as opened:  # as isch index info will see it
        after = opened.info()
    done(
        f"{index}: {before['segments']} → {after['segments']} segments, {before['deleted']} → {after['deleted']} "
        f"deleted, {before['bytes']} → {after['bytes']} bytes"
    )


def verify(index: IndexPath) -> None:
    """Read everything and compare it with its checksums."""
    from isch.cli.progress import shown
    from isch.search.verify import problems

    with shown():
        found = problems(index)
    for problem in found:
        say(problem)
    if found:
        raise FormatError(f"{index}: {len(found)} problem{'s' if len(found) > 1 else ''} found")
    done(f"{index}: all is well")


def backup(
    index: IndexPath,
    output: Annotated[Path, typer.Argument(help="The index to make.")],
    copy: Annotated[
        bool, typer.Option("--copy", help="Copy files even where links to them are possible and take no space.")
    ] = False,
) -> None:
    """Copy an index as it is now, whole or not at all, and verify the copy; writers may go on meanwhile."""
    from isch.cli.progress import shown
    from isch.search import backup as copies

    claim(output, [index], force=None)
    with shown():
        count = copies.backup(index, output, copy)
    done(f"{count} items in {output}, which is verified")


def repair(index: IndexPath) -> None:
    """Keep every undamaged segment of a damaged index, say what is lost, and move damaged files aside."""
    from isch.cli.progress import shown
    from isch.search.index import Index

    with shown():
        repaired = Index.repair(index)
    for problem in repaired.found:
        complain(problem)
    if repaired.aside is None:
        done(f"{index}: all is well")
    else:
        done(f"{index}: {repaired.items} items are kept; what was damaged is in {repaired.aside}")


def info(index: IndexPath, json: AsJson = False) -> None:
    """Say what an index holds."""
    from isch.search.index import Index

    with Index.open(index) as opened:
        found = opened.info()
    done(json_lines(found) if json else facts(found))


def _existing(index: "Index", key: Any) -> Any:
    """The key as it is in the index: text, or the integer that the text spells."""
    if isinstance(key, str) and key not in index and re.fullmatch(r"-?\d{1,18}", key) and int(key) in index:
        return int(key)
    return key
