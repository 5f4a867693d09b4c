"""Where a command writes: never over its input, and over existing files only with ``--force``.

Every command claims its outputs before it begins. An output that appears while the command works is not overwritten
either: results that took long go to a free name beside it (``Output.path``), other work is refused (``Output.check``).
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from isch.errors import FileError
from isch.files import check_writable

SIDES = {  # by the suffix of a feature file, what lies beside it and belongs to it
    ".npy": (".names.npy", ".labels.npy", ".describer"),
    **dict.fromkeys((".npz", ".parquet", ".feather", ".zarr", ".fvecs", ".bvecs", ".ivecs"), (".describer",)),
}

Force = Annotated[bool, typer.Option("--force", help="Replace outputs that exist.")]


@dataclass(frozen=True)
class Output:
    """A file that a command may write."""

    wanted: Path
    force: bool

    @property
    def path(self) -> Path:
        """The file to write now: the one wanted, or a free name like it if that has appeared meanwhile."""
        if self.force or not os.path.lexists(self.wanted):
            return self.wanted
        stem, suffix = self.wanted.stem, self.wanted.suffix
        names = (self.wanted.with_name(f"{stem}-{number}{suffix}") for number in range(2, 10_000))
        return next(path for path in names if not os.path.lexists(path))

    def check(self) -> None:
        """Refuse to go on if the output has appeared meanwhile."""
        if not self.force and os.path.lexists(self.wanted):
            raise FileError(f"{self.wanted} has appeared meanwhile and is kept; --force replaces it")


def claim(output: Path, inputs: Iterable[str | os.PathLike[str]], force: bool | None) -> Output:
    """The output, if it may be written.

    Parameters
    ----------
    output
        A file, or a folder that the command makes.
    inputs
        Everything the command reads: files, ``FILE::NAME``, folders of feature files.
    force
        Whether a file that exists may be replaced; None if the command never does.

    Raises
    ------
    FileError
        The output is an input or belongs to one, lies in an input folder, exists, or cannot be written.
    """
    known, target = _identity(output), output.resolve()
    for source in inputs:
        _refuse_input(output, target, known, Path(os.fspath(source).partition("::")[0]))
    if os.path.lexists(output) and not force:
        raise FileError(f"{output} exists already; {'choose another name' if force is None else '--force replaces it'}")
    check_writable(output)
    return Output(output, bool(force))


@contextmanager
def staged(folder: Path, force: bool) -> Iterator[Path]:
    """A hidden folder to write files into; at the end they move to ``folder`` together, if none is in the way."""
    created = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".isch-", dir=folder) as stage:
            yield Path(stage)
            moves = {path: folder / path.relative_to(stage) for path in Path(stage).rglob("*") if path.is_file()}
            for target in moves.values():
                target.parent.mkdir(exist_ok=True)
                claim(target, [], force)
            for path, target in moves.items():
                os.replace(path, target)
    except OSError as error:
        ours = isinstance(error, FileError)
        raise error if ours else FileError(f"cannot write {folder}: {error.strerror}") from error
    finally:
        if created:
            with suppress(OSError):
                folder.rmdir()  # unless something was written


def beside(path: Path) -> list[Path]:
    """The files that belong to a feature file: names and labels of its rows, and its describer."""
    return [path.with_name(path.stem + side) for side in SIDES.get(path.suffix, ())]


def _refuse_input(output: Path, target: Path, known: tuple[int, int] | None, source: Path) -> None:
    if source.is_dir() and source.resolve() in target.parents:
        raise FileError(f"cannot write {output}: it would lie in the input folder {source}")
    if known is not None and known in map(_identity, _read(source)):
        raise FileError(f"cannot write {output}: it is also the input {source}")
    if known is None and target in [path.resolve() for path in (source, *beside(source)) if path.name == target.name]:
        raise FileError(f"cannot write {output}: it is also {source}, or is read together with it")


def _read(source: Path) -> Iterator[Path]:
    """The files that reading an input reads."""
    yield source
    yield from beside(source)
    if source.is_dir():
        yield from source.iterdir()


def _identity(path: Path) -> tuple[int, int] | None:
    """What makes a file the same by all its names, links and spellings; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
