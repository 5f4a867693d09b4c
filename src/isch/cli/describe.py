"""isch describe: from a folder of pictures to a feature file."""

import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isch.cli.models import _setting

if TYPE_CHECKING:
    from isch.describe.base import Describer
    from isch.describe.images import Failure
    from isch.features.write import Writer

KEPT = "describer.safetensors"  # the describer beside the parts of interrupted work
LISTED = 20  # failures named on the screen; all are in the file that --failures asks for


def attach(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(describe)


def describe(
    pictures: Annotated[Path, typer.Argument(help="A folder of pictures, searched with all its subfolders.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Feature file: .h5, .npy, .parquet, .feather, or .npz for sparse.")
    ],
    descriptor: Annotated[
        str,
        typer.Option(
            help="gist, cnn, lbp, le, bow, vlad, fisher, llc, several joined by +, or a feature file to be like."
        ),
    ] = "cnn",
    model: Annotated[Path | None, typer.Option(help="ONNX model of the cnn descriptor.")] = None,
    layer: Annotated[str | None, typer.Option(help="Layer of that model: an output, tensor or node.")] = None,
    words: Annotated[int | None, typer.Option(help="Codebook size of bow, vlad, fisher, llc.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the descriptor, as NAME=VALUE.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first picture that cannot be used.")] = False,
    failures: Annotated[Path | None, typer.Option(help="Write all unusable files and their reasons here.")] = None,
) -> None:
    """Describe all pictures of a folder; paths and labels (folder names) are stored beside the vectors.

    Interrupted work goes on where it stopped when the same command is given again.
    """
    from isch.cli.progress import shown
    from isch.describe.files import ATTACHMENT
    from isch.describe.images import find
    from isch.errors import FileError, InputError
    from isch.features.write import Writer

    warnings.filterwarnings("ignore", module=r"PIL\.")  # of odd files; what matters is said at the end
    parameters = dict(map(_setting, option or []))
    given = {"model": model and os.path.abspath(model), "layer": layer, "n_words": words}
    parameters |= {name: value for name, value in given.items() if value is not None}
    listing = find(pictures)
    if strict and listing.failures:
        raise FileError(f"{listing.failures[0].name}: {listing.failures[0].reason}")
    if not listing.paths:
        raise InputError(f"{pictures}: there are no pictures in this folder")
    recipe = {"descriptor": descriptor, "parameters": parameters, "folder": os.path.abspath(pictures)}
    with shown(), Writer(output, recipe) as writer:
        resumed = len(writer.names)
        describer = _describer(descriptor, parameters, listing.paths, writer)
        unusable = [*listing.failures, *_run(describer, listing.paths, pictures, writer, strict)]
        saved = (writer.folder / KEPT).read_bytes()
        writer.finish({ATTACHMENT: saved})
    _report(writer, describer.n_features_out, resumed, unusable, failures)


def _describer(name: str, parameters: dict[str, Any], paths: list[str], writer: "Writer") -> "Describer":
    """The describer: of the interrupted work, of a feature file, or new and fitted on these pictures."""
    from isch.describe import describer, load
    from isch.describe.files import kept

    def make() -> "Describer":
        return load(name) if os.path.isfile(name) else describer(name, **parameters).fit(paths)

    return kept(writer.folder / KEPT, make)


def _run(describer: "Describer", paths: list[str], top: Path, writer: "Writer", strict: bool) -> "list[Failure]":
    """Describe the pictures that have no row yet; gives those that cannot be used."""
    from isch.files import printable

    done, failures = set(writer.names), []
    todo = [path for path in paths if printable(path) not in done]
    for batch in describer.batches(todo, strict=strict) if todo else ():
        failures += batch.failures
        described = [todo[position] for position in batch.positions]
        if batch.vectors is not None:
            names = [printable(path) for path in described]
            writer.add(batch.vectors, names, [_label(path, top) for path in described])
    return failures


def _label(path: str, top: Path) -> str:
    """The folder of a picture below the top folder; empty at the top."""
    from isch.files import printable

    folder = os.path.relpath(os.path.dirname(path), top)
    return "" if folder == os.curdir else printable(folder)


def _report(writer: "Writer", width: int, resumed: int, unusable: list[Any], file: Path | None) -> None:
    """What was written; what was left out and why, at most some on the screen."""
    lines = [f"{failure.name}: {failure.reason}" for failure in unusable]
    if lines:
        sys.stderr.write(f"isch: {len(lines)} could not be used:\n")
        sys.stderr.writelines(f"  {line}\n" for line in lines[:LISTED])
        if len(lines) > LISTED:
            sys.stderr.write(f"  and {len(lines) - LISTED} more{'' if file else '; --failures FILE lists all'}\n")
    if file is not None:
        file.write_text("".join(f"{line}\n" for line in lines))
    went_on = f" ({resumed} of them before the interruption)" if resumed else ""
    typer.echo(f"{len(writer.names)} pictures{went_on} described by {width} values each, written to {writer.path}")
