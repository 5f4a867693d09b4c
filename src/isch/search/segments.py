"""Segments: immutable, checksummed files of rows, memory-mapped. docs/formats.md gives them byte by byte.

A codes segment holds packed codes in the kernels' own layout, tiles of 8 rows as uint64 (tile, word, lane), and the id
of each row; ids rise with the rows. A features segment holds the original rows of the same items, row-major.
"""

import hashlib
import os
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes, width
from isch.errors import FileError, FormatError
from isch.files import sync
from isch.search.exact import tiles
from isch.search.kernels import LANES

MAGIC = b"ISCHSEG\0"
VERSION = 1
HEADER_BYTES = 4096
DIGEST_BYTES = 32
CODES, FEATURES = 1, 2  # kinds
_FIELDS = struct.Struct("<8sIIQIIqQQ32s")
_READ_BYTES = 4 << 20

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Header:
    """The first page of a segment file."""

    kind: int
    n_rows: int
    n_columns: int  # bits a code, or dimensions
    item_bytes: int  # bytes of one value
    first_id: int
    body_bytes: int
    ids_bytes: int  # 0 when the ids are consecutive
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


def read_header(path: Path) -> tuple[Header, bytes]:
    """(header, digest of the header) of a segment file whose size is what the header says."""
    with path.open("rb") as file:
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
    return header, digest


def check_body(path: Path) -> None:
    """Read a whole segment and compare it with its checksum."""
    header, _ = read_header(path)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(HEADER_BYTES)
        while chunk := file.read(_READ_BYTES):
            digest.update(chunk)
    if digest.digest() != header.body_digest:
        raise FormatError(f"{path}: the segment is damaged (its content does not match its checksum)")


def gather(table: NDArray[np.uint64], rows: NDArray[np.integer[Any]], n_bytes: int) -> Codes:
    """The packed codes of the given rows of tiles."""
    words = np.ascontiguousarray(table[rows // LANES, :, rows % LANES])
    return np.ascontiguousarray(words.view(np.uint8)[:, :n_bytes])


class SegmentWriter:
    """Writes one segment file block by block; the file is removed if the ``with`` block fails."""

    def __init__(self, path: Path, kind: int, n_columns: int, dtype: Any = np.uint64) -> None:
        self._path, self._kind, self._n_columns = path, kind, n_columns
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._rest = np.empty((0, width(n_columns)), np.uint8)  # rows that do not fill a tile yet
        self._digest = hashlib.sha256()
        self._bytes = self._n_rows = 0
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
        self._n_rows += len(codes)

    def append_rows(self, rows: NDArray[Any]) -> None:
        """Add rows of features."""
        self._write(np.ascontiguousarray(rows, dtype=self._dtype))
        self._n_rows += len(rows)

    def finish(self, ids: Ids) -> bytes:
        """Write what is left, the ids and the header, and force it all to disk; gives the header's digest."""
        if len(self._rest):
            self._write(tiles(self._rest))
        body_bytes = self._bytes
        if self._kind == CODES and not consecutive(ids):
            self._write(ids.astype("<i8"))
        header = Header(
            self._kind,
            self._n_rows,
            self._n_columns,
            self._dtype.itemsize,
            int(ids[0]),
            body_bytes,
            self._bytes - body_bytes,
            self._digest.digest(),
        )
        self._file.seek(0)
        page = header.encode()
        self._file.write(page)
        self._file.flush()
        os.fsync(self._file.fileno())
        sync(self._path.parent)
        return page[-DIGEST_BYTES:]

    def _write(self, array: NDArray[Any]) -> None:
        data = array.reshape(-1).view(np.uint8).data
        self._digest.update(data)
        self._file.write(data)
        self._bytes += array.nbytes


def consecutive(ids: Ids) -> bool:
    """Whether rising ids have no gap."""
    return int(ids[-1]) - int(ids[0]) == len(ids) - 1


class Segment:
    """An open codes segment, and the features of the same items if they are kept."""

    def __init__(self, folder: Path, name: str, with_features: bool = False) -> None:
        self.name = name
        self.path = codes_path(folder, name)
        self.header, self.digest = read_header(self.path)
        self.n_rows, self.n_bits, self.first_id = self.header.n_rows, self.header.n_columns, self.header.first_id
        words = width(width(self.n_bits))
        shape = (width(self.n_rows), words, LANES)
        if self.header.kind != CODES or self.header.body_bytes != np.prod(shape) * 8:
            raise FormatError(f"{self.path}: not a segment of codes")
        self.tiles: NDArray[np.uint64] = _mapped(self.path, "<u8", HEADER_BYTES, shape)
        self._ids: Ids | None = None
        if self.header.ids_bytes:
            self._ids = _mapped(self.path, "<i8", HEADER_BYTES + self.header.body_bytes, (self.n_rows,))
        self.features: NDArray[Any] | None = None
        self.features_digest: bytes | None = None
        self.n_file_bytes = self.header.file_bytes
        if with_features:
            self.features, self.features_digest = self._open_features(features_path(folder, name))

    def __len__(self) -> int:
        return self.n_rows

    @cached_property
    def last_id(self) -> int:
        """The id of the last row."""
        return self.first_id + self.n_rows - 1 if self._ids is None else int(self._ids[-1])

    def ids(self, rows: NDArray[np.integer[Any]] | slice = slice(None)) -> Ids:
        """The ids of rows."""
        if self._ids is not None:
            return self._ids[rows]
        if isinstance(rows, slice):
            return np.arange(*rows.indices(self.n_rows), dtype=np.int64) + self.first_id
        return rows + np.int64(self.first_id)

    def rows(self, ids: Ids) -> NDArray[np.int64]:
        """The rows of those of some rising ids that are here."""
        inside = ids[np.searchsorted(ids, self.first_id) : np.searchsorted(ids, self.last_id, side="right")]
        if self._ids is None:
            return inside - self.first_id
        rows = np.searchsorted(self._ids, inside).astype(np.int64, copy=False)
        here: NDArray[np.bool_] = self._ids[rows] == inside
        return rows[here]

    def codes(self, rows: NDArray[np.integer[Any]]) -> Codes:
        """The packed codes of rows."""
        return gather(self.tiles, rows, width(self.n_bits))

    def _open_features(self, path: Path) -> tuple[NDArray[Any], bytes]:
        header, digest = read_header(path)
        if header.kind != FEATURES or header.n_rows != self.n_rows or header.item_bytes not in (2, 4):
            raise FormatError(f"{path}: expected the features of the {self.n_rows} items of segment {self.name}")
        self.n_file_bytes += header.file_bytes
        return _mapped(path, f"<f{header.item_bytes}", HEADER_BYTES, (self.n_rows, header.n_columns)), digest


def codes_path(folder: Path, name: str) -> Path:
    """The codes file of a segment."""
    return folder / f"{name}.codes"


def features_path(folder: Path, name: str) -> Path:
    """The features file of a segment."""
    return folder / f"{name}.features"


def _mapped(path: Path, dtype: str, offset: int, shape: tuple[int, ...]) -> NDArray[Any]:
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape))
