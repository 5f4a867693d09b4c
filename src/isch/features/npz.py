"""The .npz files of NumPy: one array of several, or the sparse matrix of ``scipy.sparse.save_npz``."""

import os
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as layout
from numpy.typing import NDArray

from isch import lazy
from isch.errors import FormatError
from isch.features import sparse
from isch.features.arrays import ArrayFeatures
from isch.features.base import Block, Features, stack
from isch.features.checks import check_memory
from isch.features.content import Content, write_beside
from isch.features.formats import choose
from isch.features.npy import Header, header, strings
from isch.files import reading, replacing

KIND = ".npz file"
END = struct.Struct("<4sHHHHIIH")  # of a zip archive without a comment
MEMBERS = 1000  # more are a crafted archive
DEFLATE = 1032  # bytes that one byte of deflated data can become at most


def open_features(path: Path, member: str | None) -> Features:
    """The matrix that is wanted; only the headers of the other arrays are read."""
    with opened(path) as members:
        if member is None and _is_text(members.headers.get("format")):
            matrix: Block = members.sparse()
            where = str(path)
        else:
            name = choose(member, [n for n, head in members.headers.items() if len(head.shape) == 2], path)
            matrix, where = members.load(name), f"{path}::{name}"
        return ArrayFeatures(matrix, where, _names(members, matrix.shape[0], path))


def write(path: Path, content: Content) -> None:
    """``features``, or what ``scipy.sparse.load_npz`` expects; ``names``, ``labels``; attachments beside it."""
    matrix = stack(list(content.blocks()))
    arrays: dict[str, Any] = sparse.parts(matrix) if lazy.issparse(matrix) else {"features": matrix}
    write_beside(path, content)
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays, names=np.array(content.names, np.str_), labels=np.array(content.labels, np.str_))


@contextmanager
def opened(path: Path) -> Iterator["Members"]:
    """The arrays of a .npz file."""
    with reading(path) as file, zipfile.ZipFile(file) as archive:
        file.seek(-END.size, os.SEEK_END)
        signature, _, _, _, count, *_ = END.unpack(file.read(END.size))
        if signature != b"PK\5\6" or count != len(archive.infolist()):  # which zipfile does not compare
            raise FormatError(f"{path}: {len(archive.infolist())} arrays; expected as many as the end of the file says")
        yield Members(archive, path)


class Members:
    """The arrays of an open archive."""

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        entries = archive.infolist()
        if len(entries) > MEMBERS:
            raise FormatError(f"{path}: {len(entries):,} arrays; expected at most {MEMBERS:,}")
        odd = [info.filename for info in entries if not info.filename.endswith(".npy")]
        if odd:
            raise FormatError(f"{path}: holds {odd[0]!r}; expected .npy arrays only")
        self._archive = archive
        self._path = path
        self._entries = {info.filename.removesuffix(".npy"): info for info in entries}
        self.headers: dict[str, Header] = {name: self._header(name) for name in self._entries}

    def load(self, name: str) -> NDArray[Any]:
        """An array, decompressed and checked against the archive's checksum."""
        check_memory(self.headers[name].size, f"{self._path}::{name}")
        with self._archive.open(self._entries[name]) as file:
            return np.asarray(layout.read_array(file, allow_pickle=False))

    def sparse(self) -> "lazy.sparse.csr_array":
        """The sparse matrix that ``scipy.sparse.save_npz`` has written, checked."""
        kind = self.load("format").item()
        kind = kind.decode() if isinstance(kind, bytes) else kind
        if kind not in sparse.PARTS:
            raise FormatError(f"{self._path}: a sparse matrix of format {kind!r}; expected {', '.join(sparse.PARTS)}")
        lacking = [part for part in ("shape", *sparse.PARTS[kind]) if part not in self.headers]
        if lacking:
            raise FormatError(f"{self._path}: a sparse {kind} matrix without {', '.join(lacking)}")
        shape = self.load("shape")
        if shape.shape != (2,) or shape.dtype.kind not in "iu":
            raise FormatError(f"{self._path}: expected a shape of two integers; got {shape.dtype} {shape.shape}")
        parts = {part: self.load(part) for part in sparse.PARTS[kind]}
        return sparse.assembled(kind, parts, (int(shape[0]), int(shape[1])), str(self._path))

    def _header(self, name: str) -> Header:
        entry, where = self._entries[name], f"{self._path}::{name}"
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FormatError(f"{where}: compressed by method {entry.compress_type}; expected deflate or none")
        if entry.file_size > DEFLATE * (entry.compress_size + 1):
            raise FormatError(f"{where}: {entry.file_size:,} bytes cannot come from {entry.compress_size:,}")
        with self._archive.open(entry) as file:
            head = header(file, where)
        if head.size != entry.file_size:
            raise FormatError(f"{where}: {entry.file_size:,} bytes; expected {head.size:,} for shape {head.shape}")
        return head


def _is_text(head: Header | None) -> bool:
    """Whether an array is one string; ``format`` of a sparse matrix is."""
    return head is not None and head.shape == () and head.dtype.kind in "US"


def _names(members: Members, rows: int, path: Path) -> list[str] | None:
    """The array ``names``, if it has one string per row."""
    head = members.headers.get("names")
    if head is None or head.shape != (rows,) or head.dtype.kind not in "US":
        return None
    return strings(members.load("names"), f"{path}::names")
