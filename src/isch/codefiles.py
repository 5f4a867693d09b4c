"""Codes on disk, written while they are made, so that interrupted work can resume.

Beside ``codes.npy`` a folder ``codes.npy.partial`` holds what is there so far. A recipe says of what it is the codes;
work of another recipe is refused. One .npy file is written row after row by the process that asked for it. A Zarr store
or a folder of .npy files consists of pieces, each written whole or not at all by the thread or worker that made it.
"""

import json
import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO, FileIO
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from isch import codes as packed
from isch import compute, progress
from isch.codes import Codes
from isch.encoder import Encoder
from isch.errors import FileError, require
from isch.features import Block, Features, Span
from isch.features.file import in_our_words
from isch.files import put, replacing, sync
from isch.fitting import NOMINAL, Size
from isch.hashing.projecting import Encoding, encoding_within
from isch.locks import locked

RECIPE, LOCK, STORE, DONE = "recipe.json", "lock", "store", "done"
BLOCKS = 4  # made at once of codes that go into one file: enough that a thread never waits for the disk
PRODUCT_BYTES = 24 << 20  # of rows that are multiplied at once, if they are more than a block
KEEP_SECONDS = 1.0  # after which rows of one file are forced to disk, so that a killed run loses no more


@dataclass(frozen=True)
class Form(ABC):
    """What codes are written to: ``n_rows`` codes of ``n_bytes``, made ``rows`` at a time."""

    folder: Path
    n_rows: int
    n_bytes: int
    rows: int

    @abstractmethod
    def prepare(self) -> None:
        """Make what codes are written into."""

    @abstractmethod
    def gaps(self) -> list[tuple[int, int]]:
        """(first row, row after the last) of each run of codes that are not there."""

    @abstractmethod
    def fill(self, encoding: Encoding, source: Features, first: int) -> None:
        """Write the codes of a gap that begins with row ``first``; ``source`` has the rows of the gap alone."""

    @abstractmethod
    def finish(self, target: Path) -> None:
        """Give the codes their final name."""

    def _store(self) -> Path:
        return self.folder / STORE


class OneFile(Form):
    """One .npy file; it replaces what is there. The number of rows that are safe on disk lies beside it."""

    def prepare(self) -> None:
        if not self._store().exists():
            with replacing(self._store()) as temporary:
                temporary.write_bytes(self._header())

    def gaps(self) -> list[tuple[int, int]]:
        done = self._done()
        return [(done, self.n_rows)] if done < self.n_rows else []

    def fill(self, encoding: Encoding, source: Features, first: int) -> None:
        with self._store().open("r+b", buffering=0) as file:
            file.truncate(self._end(first))
            file.seek(0, os.SEEK_END)
            kept = first
            try:
                last = time.monotonic()
                for codes in compute.iterate(Making(encoding, self.rows), source):
                    with in_our_words(str(self.folder), "folder of codes"):
                        _write_all(file, codes)
                    first += len(codes)
                    if time.monotonic() - last > KEEP_SECONDS:
                        kept, last = self._keep(file, first), time.monotonic()
            finally:
                if first > kept:
                    self._keep(file, first)

    def finish(self, target: Path) -> None:
        if self._store().stat().st_size != self._end(self.n_rows):
            raise self._damaged()
        put(self._store(), target)

    def _done(self) -> int:
        """Rows that are safe on disk."""
        file = self.folder / DONE
        if not file.exists():
            return 0
        text = file.read_text()
        done = int(text) if text.isdecimal() else -1
        if not 0 <= done <= self.n_rows or self._store().stat().st_size < self._end(done):
            raise self._damaged()
        return done

    def _keep(self, file: FileIO, done: int) -> int:
        """Force rows to disk and note how many there are."""
        os.fsync(file.fileno())
        with replacing(self.folder / DONE) as temporary:
            temporary.write_text(str(done))
        return done

    def _end(self, rows: int) -> int:
        """The size of the file with so many rows."""
        return len(self._header()) + rows * self.n_bytes

    def _header(self) -> bytes:
        header = BytesIO()
        fields = {"descr": "|u1", "fortran_order": False, "shape": (self.n_rows, self.n_bytes)}
        np.lib.format.write_array_header_1_0(header, fields)
        return header.getvalue()

    def _damaged(self) -> FileError:
        return FileError(f"{self._store()}: damaged; delete {self.folder} to begin anew")


class Pieces(Form):
    """Numbered pieces of ``rows`` codes each."""

    @property
    def numbers(self) -> range:
        """Of all pieces."""
        return range(-(-self.n_rows // self.rows))

    def prepare(self) -> None:
        self._store().mkdir(exist_ok=True)

    @abstractmethod
    def path(self, number: int) -> Path:
        """The file of a piece, which is there when the piece is whole."""

    @abstractmethod
    def write(self, number: int, codes: Codes) -> None:
        """Write a piece."""

    def gaps(self) -> list[tuple[int, int]]:
        found = []
        for missing, run in groupby(self.numbers, lambda number: not self.path(number).exists()):
            if missing:
                numbers = list(run)
                found.append((numbers[0] * self.rows, min((numbers[-1] + 1) * self.rows, self.n_rows)))
        return found

    def fill(self, encoding: Encoding, source: Features, first: int) -> None:
        for _ in compute.iterate(Writing(encoding, self.rows, self, first), source):
            pass  # the results are on disk

    def finish(self, target: Path) -> None:
        if os.path.lexists(target):
            raise FileError(f"{target} has appeared meanwhile and is kept; the codes are in {self._store()}")
        sync(self._store())
        os.replace(self._store(), target)


class Shards(Pieces):
    """A folder of .npy files, in the order of their names."""

    def path(self, number: int) -> Path:
        return self._store() / f"{number:08d}.npy"

    def write(self, number: int, codes: Codes) -> None:
        with replacing(self.path(number)) as temporary, temporary.open("wb") as file:
            np.save(file, codes)

    def finish(self, target: Path) -> None:
        for left in self._store().glob(".*"):  # by a process or worker that was killed while it wrote
            left.unlink(missing_ok=True)
        super().finish(target)


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
class Making(compute.Pass[Codes]):
    """Encodes ``n_rows`` at a time, in products of one block or, where rows are short, of several."""

    encoding: Encoding
    n_rows: int

    label = "encoding"

    @property
    def notices(self) -> bool:
        return self.encoding.notices

    def rows(self, _: int) -> int:
        return self.n_rows

    def block(self, block: Block, start: int) -> Codes:
        step = compute.block_rows(block.shape[1])
        step *= max(1, PRODUCT_BYTES // (4 * step * block.shape[1]))
        parts = [self.encoding.block(block[i : i + step], start + i) for i in range(0, block.shape[0], step)]
        return np.concatenate(parts)


@dataclass(frozen=True)
class Writing(Making):
    """Writes what it makes to a piece; nothing is left of it.

    ``first`` is the number of the first row of these features among all that are encoded.
    """

    pieces: Pieces
    first: int

    def block(self, block: Block, start: int) -> Codes:
        codes = super().block(block, start)
        with in_our_words(str(self.pieces.folder), "folder of codes"):
            self.pieces.write((self.first + start) // self.pieces.rows, codes)
        return codes[:0]


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
    step = compute.block_rows(source.shape[1])
    rows = min(BLOCKS * step, source.slab(step)) if kind is OneFile else source.slab(step)
    folder = path.absolute().with_name(path.name + ".partial")
    form = kind(folder, len(source), packed.width(encoder.n_bits), rows)
    recipe = {"model": encoder.checksum(), "features": source.version(), "form": [kind.__name__, rows, exact]}
    with encoding_within(encoder.hasher, source, memory, rows), _begun(form, recipe):
        encoding = Encoding(encoder.hasher._projecting(source, exact))
        with progress.planned(_stages(encoder, source, gaps := form.gaps())):
            for first, stop in gaps:
                form.fill(encoding, Span(source, first, stop), first)
        check()
        form.finish(path)


def _stages(encoder: Encoder, source: Features, gaps: list[tuple[int, int]]) -> Iterator[tuple[str, float]]:
    """What is there already, and each gap, as stages of one whole."""
    seconds = NOMINAL.seconds(encoder.hasher._encoding_work(Size.of(source))) / len(source)
    there = len(source) - sum(stop - first for first, stop in gaps)
    yield "there already", there * seconds
    for first, stop in gaps:
        yield Writing.label, (stop - first) * seconds


@contextmanager
def _begun(form: Form, recipe: dict[str, Any]) -> Iterator[None]:
    """The folder of what is there so far, held by this process; removed when all is done, or nothing was."""
    try:
        form.folder.mkdir(exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot write {form.folder}: {error.strerror}") from error
    with locked(form.folder / LOCK, 0, "is writing to it"):
        _check_recipe(form.folder / RECIPE, recipe)
        with in_our_words(str(form.folder), "folder of codes"):
            form.prepare()
        finished = False
        try:
            yield
            finished = True
        finally:
            if finished or form.gaps() == [(0, form.n_rows)]:
                shutil.rmtree(form.folder, ignore_errors=True)


def _write_all(file: FileIO, codes: Codes) -> None:
    """Write all of an array; a file without a buffer may take less at once."""
    left = codes.data.cast("B")
    while left:
        left = left[file.write(left) :]


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
