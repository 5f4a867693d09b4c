"""isch describe: from pictures to a feature file."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isch.cli.arguments import settings
from isch.cli.console import complain, done, safe
from isch.cli.help import PICTURES
from isch.cli.outputs import Force, beside, claim
from isch.errors import FileError, InputError

if TYPE_CHECKING:
    from isch.describe.base import Describer
    from isch.describe.images import Failure
    from isch.features.write import Writer

KEPT = "describer.safetensors"  # the describer beside the parts of interrupted work
LISTED = 20  # failures named on the screen; all are in the file that --failures asks for


def attach(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=PICTURES)(describe)


def describe(
    pictures: Annotated[list[Path], typer.Argument(help="Pictures, and folders, searched with all their subfolders.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Feature file: .h5, .npy, .parquet, .feather, or .npz for sparse.")
    ],
    descriptor: Annotated[
        str,
        typer.Option(
            help="gist, cnn, lbp, le, bow, vlad, fisher, llc, several joined by +, or a feature file to describe like."
        ),
    ] = "cnn",
    model: Annotated[Path | None, typer.Option(help="ONNX model of the cnn descriptor.")] = None,
    layer: Annotated[str | None, typer.Option(help="Layer of that model: an output, tensor or node.")] = None,
    words: Annotated[int | None, typer.Option(help="Codebook size of bow, vlad, fisher, llc.", min=1)] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the descriptor, as NAME=VALUE.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first picture that cannot be used.")] = False,
    failures: Annotated[Path | None, typer.Option(help="List all unusable files and their reasons here.")] = None,
    force: Force = False,
) -> None:
    """Describe pictures; their paths and labels (folder names) are stored with the vectors.

    After an interruption, the same command resumes where it stopped.
    """
    from isch.cli.progress import shown
    from isch.describe.files import ATTACHMENT
    from isch.features.write import Writer

    given = {"model": model and os.path.abspath(model), "layer": layer, "n_words": words}
    parameters = settings(option) | {name: value for name, value in given.items() if value is not None}
    labels, unusable = _found(pictures)
    if unusable and (strict or not labels):
        raise FileError(f"{unusable[0].name}: {unusable[0].reason}")
    if not labels:
        raise InputError(f"{', '.join(map(str, pictures))}: there are no pictures in this folder")
    inputs = [*labels, *(str(path) for path in (model, descriptor) if path is not None and os.path.isfile(path))]
    targets = [claim(path, inputs, force) for path in (output, *beside(output))]
    report = None if failures is None else claim(failures, [*inputs, output, *beside(output)], force)
    recipe = {"descriptor": descriptor, "parameters": parameters, "folder": _absolute(pictures)}
    with shown(), Writer(output, recipe) as writer:
        resumed = len(writer.names)
        describer = _describer(descriptor, parameters, list(labels), writer)
        unusable += _run(describer, labels, writer, strict)
        if not writer.names:
            raise InputError(f"no picture could be used; the first is {unusable[0].name}: {unusable[0].reason}")
        for target in targets:
            target.check()
        writer.finish({ATTACHMENT: (writer.folder / KEPT).read_bytes()})
    _say_unusable(unusable, None if report is None else report.path)
    before = f" ({resumed} of them before the interruption)" if resumed else ""
    width = describer.n_features_out
    done(f"{len(writer.names)} pictures{before} described by {width} values each, written to {output}")


def _found(things: list[Path]) -> "tuple[dict[str, str], list[Failure]]":
    """(label of each picture by its path, folders that cannot be read); the label is the folder below the one given."""
    from isch.describe.images import find

    labels: dict[str, str] = {}
    failures: list[Failure] = []
    for thing in things:
        if not thing.exists():
            raise FileError(f"{thing}: no such file or folder")
        if not thing.is_dir():
            labels.setdefault(str(thing), "")
            continue
        listing = find(thing)
        failures += listing.failures
        for path in listing.paths:
            labels.setdefault(path, _label(path, thing))
    return labels, failures


def _label(path: str, top: Path) -> str:
    """The folder of a picture below the top folder; empty at the top."""
    from isch.files import printable

    folder = os.path.relpath(os.path.dirname(path), top)
    return "" if folder == os.curdir else printable(folder)


def _absolute(things: list[Path]) -> str | list[str]:
    paths = [os.path.abspath(thing) for thing in things]
    return paths[0] if len(paths) == 1 else paths


def _describer(name: str, parameters: dict[str, Any], paths: list[str], writer: "Writer") -> "Describer":
    """The describer: of the interrupted work, of a feature file, or new and fitted on these pictures."""
    from isch.describe import describer, load
    from isch.describe.files import kept

    def make() -> "Describer":
        return load(name) if os.path.isfile(name) else describer(name, **parameters).fit(paths)

    return kept(writer.folder / KEPT, make)


def _run(describer: "Describer", labels: dict[str, str], writer: "Writer", strict: bool) -> "list[Failure]":
    """Describe the pictures that have no row yet; gives those that cannot be used."""
    from isch.files import printable

    done, failures = set(writer.names), []
    todo = [path for path in labels if printable(path) not in done]
    for batch in describer.batches(todo, strict=strict) if todo else ():
        failures += batch.failures
        described = [todo[position] for position in batch.positions]
        if batch.vectors is not None:
            names = [printable(path) for path in described]
            writer.add(batch.vectors, names, [labels[path] for path in described])
    return failures


def _say_unusable(unusable: "list[Failure]", file: Path | None) -> None:
    """What was left out and why: some on the screen, all in the file."""
    from isch.files import replacing

    lines = [f"{failure.name}: {failure.reason}" for failure in unusable]
    if file is not None:
        with replacing(file) as temporary:
            temporary.write_text("".join(f"{safe(line)}\n" for line in lines), "utf-8")
    if not lines:
        return
    complain(f"{len(lines)} could not be used:")
    more = len(lines) - LISTED
    rest = [f"and {more} more{'' if file else '; --failures FILE lists all'}"] if more > 0 else []
    for line in [*lines[:LISTED], *rest]:
        complain(line, mark="  ")
