"""Codes on disk, written piece by piece by the threads or workers that make them, so that interrupted work can resume.

Beside ``codes.npy`` a folder ``codes.npy.partial`` holds pieces, each written whole or not at all by the thread or
worker that made it. A recipe says of what they are the codes; pieces of another recipe are refused. At the end the
pieces become a .npy file, a Zarr store or a folder of .npy files.
"""

import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from isch import codes as packed
from isch import compute, progress
from isch.codes import Codes
from isch.compute import Size
from isch.compute.work import NOMINAL
from isch.encoder import Encoder
from isch.errors import FileError, require
from isch.features import Block, Features, Span, npy
from isch.features.file import in_our_words
from isch.files import replacing, sync
from isch.hashing.plan import encoding_within
from isch.hashing.projecting import Encoding
from isch.locks import locked

RECIPE, LOCK, STORE = "recipe.json", "lock", "store"


@dataclass(frozen=True)
class Pieces(ABC):
    """Where pieces of codes are written: ``n_rows`` codes of ``n_bytes``, ``rows`` of them per piece."""

    folder: Path
    n_rows: int
    n_bytes: int
    rows: int

    @property
    def numbers(self) -> range:
        """Of all pieces."""
        return range(-(-self.n_rows // self.rows))

    def prepare(self) -> None:
        """Make what pieces are written into."""
        self._store().mkdir(exist_ok=True)

    @abstractmethod
    def path(self, number: int) -> Path:
        """The file of a piece, which is there when the piece is whole."""

    @abstractmethod
    def write(self, number: int, codes: Codes) -> None:
        """Write a piece."""

    def finish(self, target: Path) -> None:
        """Give the pieces their final name."""
        self._refuse_existing(target)
        sync(self._store())
        os.replace(self._store(), target)

    def gaps(self) -> Iterator[tuple[int, int]]:
        """(first row, row after the last) of each run of pieces that are not there."""
        for missing, run in groupby(self.numbers, lambda number: not self.path(number).exists()):
            if missing:
                numbers = list(run)
                yield numbers[0] * self.rows, min((numbers[-1] + 1) * self.rows, self.n_rows)

    def _store(self) -> Path:
        return self.folder / STORE

    def _refuse_existing(self, target: Path) -> None:
        if os.path.lexists(target):
            raise FileError(f"{target} has appeared meanwhile and is kept; the codes are in {self._store()}")


class Shards(Pieces):
    """A folder of .npy files, in the order of their names."""

    def path(self, number: int) -> Path:
        return self._store() / f"{number:08d}.npy"

    def write(self, number: int, codes: Codes) -> None:
        with replacing(self.path(number)) as temporary, temporary.open("wb") as file:
            np.save(file, codes)


class OneFile(Shards):
    """One .npy file, put together from pieces at the end; it replaces what is there."""

    def finish(self, target: Path) -> None:
        with replacing(target) as temporary, temporary.open("wb") as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": (self.n_rows, self.n_bytes)}
            np.lib.format.write_array_header_1_0(file, header)
            for number in self.numbers:
                file.write(np.ascontiguousarray(npy.load(self.path(number))).data)


class ZarrStore(Pieces):
    """A Zarr store with one chunk per piece."""

    def prepare(self) -> None:
        if self._store().exists():
            for left in self._store().rglob("*.partial"):  # by a killed process
                left.unlink(missing_ok=True)
            return
        zarr = require("zarr", "formats")
        shape, chunks = (self.n_rows, self.n_bytes), (self.rows, self.n_bytes)
        zarr.create_array(self._store(), shape=shape, chunks=chunks, dtype="u1", compressors=None, **WHOLE)

    def path(self, number: int) -> Path:
        return self._store() / "c" / str(number) / "0"

    def write(self, number: int, codes: Codes) -> None:
        array = require("zarr", "formats").open_array(self._store(), mode="r+", **WHOLE)
        first = number * self.rows
        array[first : first + len(codes)] = codes


WHOLE: dict[str, Any] = {"config": {"write_empty_chunks": True}}  # a chunk of zeros is a piece, too


@dataclass(frozen=True)
class Writing(compute.Pass[int]):
    """Encodes and writes a piece at a time; the result is the number of its rows.

    ``first`` is the number of the first row of these features among all that are encoded.
    """

    encoding: Encoding
    pieces: Pieces
    first: int

    label = "encoding"

    def rows(self, _: int) -> int:
        return self.pieces.rows

    def block(self, block: Block, start: int) -> int:
        n: int = block.shape[0]
        step = compute.block_rows(block.shape[1])
        parts = [self.encoding.block(block[i : i + step], start + i) for i in range(0, n, step)]
        with in_our_words(str(self.pieces.folder), "folder of codes"):
            self.pieces.write((self.first + start) // self.pieces.rows, np.concatenate(parts))
        return n


def write(
    encoder: Encoder,
    source: Features,
    path: Path,
    check: Callable[[], None],
    *,
    shards: bool = False,
    exact: bool = True,
    memory: str | int | None = None,
) -> None:
    """Write the codes of features, going on with what an earlier call with the same arguments began.

    Parameters
    ----------
    encoder : Encoder
        Makes the codes.
    source : Features
        What ``encoder.features`` gives.
    path : Path
        What to write: a Zarr store if its suffix is .zarr, else a .npy file.
    check : callable
        Is called when all codes are there, before they get their name; what it raises leaves them where they are.
    shards : bool
        Write a folder of .npy files instead of one.
    exact, memory
        As in ``Hasher.transform``.
    """
    kind = Shards if shards else ZarrStore if path.suffix == ".zarr" else OneFile
    rows = source.slab(compute.block_rows(source.shape[1]))
    folder = path.absolute().with_name(path.name + ".partial")
    pieces = kind(folder, len(source), packed.width(encoder.n_bits), rows)
    recipe = {"model": encoder.checksum(), "features": source.version(), "form": [kind.__name__, rows, exact]}
    with encoding_within(encoder.hasher, source, memory, rows), _begun(pieces, recipe):
        encoding = Encoding(encoder.hasher._projecting(source, exact))
        with progress.planned(_stages(encoder, source, gaps := list(pieces.gaps()))):
            for first, stop in gaps:
                for _ in compute.iterate(Writing(encoding, pieces, first), Span(source, first, stop)):
                    pass  # the results are on disk
        check()
        pieces.finish(path)


def _stages(encoder: Encoder, source: Features, gaps: list[tuple[int, int]]) -> Iterator[tuple[str, float]]:
    """What is there already, and each gap, as stages of one whole."""
    seconds = NOMINAL.seconds(encoder.hasher._encoding_work(Size.of(source))) / len(source)
    there = len(source) - sum(stop - first for first, stop in gaps)
    yield "there already", there * seconds
    for first, stop in gaps:
        yield Writing.label, (stop - first) * seconds


@contextmanager
def _begun(pieces: Pieces, recipe: dict[str, Any]) -> Iterator[None]:
    """The folder of pieces, held by this process; removed when all is done, or nothing was."""
    try:
        pieces.folder.mkdir(exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot write {pieces.folder}: {error.strerror}") from error
    with locked(pieces.folder / LOCK, 0, "is writing to it"):
        _check_recipe(pieces.folder / RECIPE, recipe)
        with in_our_words(str(pieces.folder), "folder of codes"):
            pieces.prepare()
        finished = False
        try:
            yield
            finished = True
        finally:
            if finished or not any(pieces.path(number).exists() for number in pieces.numbers):
                shutil.rmtree(pieces.folder, ignore_errors=True)


def _check_recipe(file: Path, recipe: dict[str, Any]) -> None:
    wanted = json.loads(json.dumps(recipe, sort_keys=True))
    if not file.exists():
        with replacing(file) as temporary:
            temporary.write_text(json.dumps(wanted))
        return
    try:
        there = json.loads(file.read_text())
    except ValueError:
        there = None
    if there != wanted:
        raise FileError(
            f"{file.parent} holds codes begun with another model, or of features that have changed since; "
            "delete it to begin anew"
        )
