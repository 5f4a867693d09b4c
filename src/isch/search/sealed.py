"""Sealed files: a page of header, then a body, with checksums over every byte. docs/formats.md gives them byte by byte.

All files of a segment are of this kind. They are written once and never changed, and the body is memory-mapped.
"""

import hashlib
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes, width
from isch.errors import FileError, FormatError
from isch.files import open_at_once, plain
from isch.scan.exact import tiles
from isch.scan.source import LANES

MAGIC = b"ISCHSEG\0"
VERSION = 2
HEADER_BYTES = 4096
DIGEST_BYTES = 32
CODES, FEATURES, DEAD, ITEMS = 1, 2, 3, 4  # kinds
_NAMES = {CODES: "codes", FEATURES: "features", DEAD: "deleted rows", ITEMS: "items"}
_FIELDS = struct.Struct("<8sIIQIIqQQ32s")
READ_BYTES = 4 << 20
WORD_BYTES = 8

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Header:
    """The first page of a segment file."""

    kind: int
    n_rows: int
    n_columns: int  # bits per code, or dimensions
    item_bytes: int  # bytes per value
    first_id: int  # version 1
    body_bytes: int
    ids_bytes: int  # version 1
    body_digest: bytes  # SHA-256 of what follows the header

    def encode(self) -> bytes:
        """The page, closed by the SHA-256 of its other bytes."""
        fields = _FIELDS.pack(
            MAGIC,
            VERSION,
            self.kind,
            self.n_rows,
            self.n_columns,
            self.item_bytes,
            self.first_id,
            self.body_bytes,
            self.ids_bytes,
            self.body_digest,
        )
        page = fields.ljust(HEADER_BYTES - DIGEST_BYTES, b"\0")
        return page + hashlib.sha256(page).digest()

    @property
    def file_bytes(self) -> int:
        """The size the file must have."""
        return HEADER_BYTES + self.body_bytes + self.ids_bytes


def read_header(path: Path) -> tuple[Header, str]:
    """(header, digest of the header) of a segment file whose size is what the header says."""
    with plain(path).open("rb") as file:
        return _header(path, file)


def _header(path: Path, file: BinaryIO) -> tuple[Header, str]:
    page = file.read(HEADER_BYTES)
    size = os.fstat(file.fileno()).st_size
    if page[: len(MAGIC)] != MAGIC or len(page) < HEADER_BYTES:
        raise FormatError(f"{path}: not an ISCH segment, or damaged in its first bytes")
    _, version, *fields = _FIELDS.unpack_from(page)
    digest = page[-DIGEST_BYTES:]
    if hashlib.sha256(page[:-DIGEST_BYTES]).digest() != digest:
        raise FormatError(f"{path}: the segment is damaged (its header does not match its checksum)")
    if version > VERSION:
        raise FormatError(f"{path}: the segment has format version {version}; this ISCH reads up to version {VERSION}")
    header = Header(*fields)
    if size != header.file_bytes:
        raise FormatError(f"{path}: the segment is damaged (expected {header.file_bytes} bytes; got {size})")
    return header, digest.hex()


class SegmentFile:
    """An open segment file: its header is right, the rest is mapped and not read yet.

    Parameters
    ----------
    path : Path
        The file.
    kind : int
        CODES, FEATURES, DEAD or ITEMS.
    shape : (int, int)
        Its rows, and its columns: bits per code, dimensions, or 1.
    digest : str
        The digest of its header, as the catalog has it.
    """

    def __init__(self, path: Path, kind: int, shape: tuple[int, int], digest: str) -> None:
        self.path = path
        self.proved = False  # whether its body was compared with its checksum since it was opened
        self.damage: FileError | None = None
        self.queued = False
        with plain(path).open("rb") as file:
            self.header, found = _header(path, file)
            self._identity = _identity(file)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        there = (self.header.kind, self.header.n_rows, self.header.n_columns)
        if there != (kind, *shape):
            got = f"{_NAMES.get(there[0], 'something else')} of {there[1]} × {there[2]}"
            raise FormatError(f"{path}: expected {_NAMES[kind]} of {shape[0]} × {shape[1]}; got {got}")
        if found != digest:
            raise FormatError(f"{path}: not the segment that the catalog lists under this name")
        self._bytes = np.frombuffer(self._map, np.uint8, offset=HEADER_BYTES)

    def array(self, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """The body as an array."""
        item_bytes = np.dtype(dtype).itemsize
        n_bytes = prod(shape) * item_bytes
        if (n_bytes, item_bytes) != (self.header.body_bytes, self.header.item_bytes):
            raise FormatError(
                f"{self.path}: expected {n_bytes} bytes, {item_bytes} per value; "
                f"got {self.header.body_bytes}, {self.header.item_bytes} per value"
            )
        return self._bytes[:n_bytes].view(dtype).reshape(shape)

    def ids(self) -> Rows:
        """The ids of the rows, which version 1 has."""
        if self.header.ids_bytes not in (0, 8 * self.header.n_rows):
            raise FormatError(f"{self.path}: expected an id for each of {self.header.n_rows} rows")
        if self.header.ids_bytes:
            return self._bytes[self.header.body_bytes :].view("<i8")
        return np.arange(self.header.n_rows, dtype=np.int64) + self.header.first_id

    def check_size(self) -> None:
        """Refuse a file that was cut since it was opened: to read behind its end would end the process."""
        size = self._map.size()
        if size != self.header.file_bytes:
            raise FormatError(
                f"{self.path}: the segment was changed while it was open "
                f"(expected {self.header.file_bytes} bytes; got {size})"
            )

    def check(self) -> None:
        """Read everything and compare it with its checksum."""
        self.check_size()
        digest = hashlib.sha256()
        for block in self._blocks():
            digest.update(block)
        if digest.digest() != self.header.body_digest:
            raise FormatError(f"{self.path}: the segment is damaged (its content does not match its checksum)")
        self.proved = True

    def _blocks(self) -> Iterator[memoryview]:
        """The body, read and not mapped where that is possible.

        Where the disk fails, reading is an error, but touching mapped bytes ends the process. A file that lost its
        name to a compaction is only mapped.
        """
        with suppress(FileNotFoundError), open(self.path, "rb", buffering=0, opener=open_at_once) as file:
            if _identity(file) == self._identity:
                file.seek(HEADER_BYTES)
                block = memoryview(bytearray(min(READ_BYTES, len(self._bytes))))
                while size := file.readinto(block):
                    yield block[:size]
                return
        for start in range(0, len(self._bytes), READ_BYTES):
            yield self._bytes[start : start + READ_BYTES].data


def _identity(file: Any) -> tuple[int, int]:
    """What makes an open file the same whatever its name."""
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino


class SegmentWriter:
    """Writes one segment file block by block; the file is removed if the ``with`` block fails."""

    def __init__(self, path: Path, kind: int, n_columns: int, dtype: Any = np.uint64) -> None:
        self._path, self._kind, self._n_columns = path, kind, n_columns
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._rest = np.empty((0, width(n_columns)), np.uint8)  # rows that do not fill a tile yet
        self._digest = hashlib.sha256()
        self._bytes = self.n_rows = 0
        self._file: BinaryIO

    def __enter__(self) -> Self:
        self._file = self._path.open("xb")
        self._file.seek(HEADER_BYTES)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self._file.close()
        finally:
            if kind is not None:
                self._path.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, FileError):
            raise FileError(f"cannot write {self._path}: {error.strerror or error}") from error

    def append_codes(self, codes: Codes) -> None:
        """Add packed codes."""
        rows = np.concatenate([self._rest, codes]) if len(self._rest) else codes
        full = len(rows) // LANES * LANES
        self._write(tiles(rows[:full]))
        self._rest = rows[full:].copy()
        self.n_rows += len(codes)

    def append_rows(self, rows: NDArray[Any]) -> None:
        """Add rows of features."""
        self._write(np.ascontiguousarray(rows, dtype=self._dtype))
        self.n_rows += len(rows)

    def append_marks(self, marks: NDArray[np.bool_]) -> None:
        """Add a mark for each row, in one go."""
        self._write(np.packbits(marks))
        self.n_rows += len(marks)

    def append_bytes(self, array: NDArray[Any]) -> None:
        """Add an array as it is."""
        self._write(np.ascontiguousarray(array))

    def align(self) -> int:
        """Fill up to a whole word; gives where in the body the next byte comes to lie."""
        self._write(np.zeros(-self._bytes % WORD_BYTES, np.uint8))
        return self._bytes

    def finish(self) -> str:
        """Write what is left and the header, and force it all to disk; gives the header's digest."""
        if len(self._rest):
            self._write(tiles(self._rest))
        header = Header(
            self._kind,
            self.n_rows,
            self._n_columns,
            self._dtype.itemsize,
            0,
            self._bytes,
            0,
            self._digest.digest(),
        )
        self._file.seek(0)
        page = header.encode()
        self._file.write(page)
        self._file.flush()
        os.fsync(self._file.fileno())
        return page[-DIGEST_BYTES:].hex()

    def _write(self, array: NDArray[Any]) -> None:
        data = array.reshape(-1).view(np.uint8).data
        self._digest.update(data)
        self._file.write(data)
        self._bytes += array.nbytes
