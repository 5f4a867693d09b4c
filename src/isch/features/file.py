"""A feature matrix in a file or folder of any format: checked, reopened after pickling, with our own errors."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch.errors import FileError, FormatError, IschError
from isch.features import formats
from isch.features.base import Block, Features
from isch.files import check_regular, printable, regular
from isch.lazy import issparse

INFLATION = 10_000  # bytes of values per byte of file; real features compress far less, a bomb claims far more


class FileFeatures(Features):
    """The matrix of one file, read by its format (``formats.py``).

    It pickles as the path and facts about the file, so it can be sent to another process, which opens the file again
    at its first read. A file that has changed since it was opened is refused.
    """

    def __init__(self, path: Path, member: str | None = None) -> None:
        self._kind = formats.kind(path)
        self.where = printable(path)
        with in_our_words(self.where, self._kind):
            self._stamp = stamp(path)
            if not self._stamp.size:
                raise FileError(f"{self.where}: the file is empty")
            self._opened: Features | None = formats.opened(path, member)
            self.shape, self.dtype, self.where = self._opened.shape, self._opened.dtype, self._opened.where
            self._check_claim(self._opened)
        self._path, self._member = path.absolute(), member

    def read(self, start: int, stop: int) -> Block:
        with in_our_words(self.where, self._kind):
            return self._source().read(start, stop)

    def take(self, rows: NDArray[np.intp]) -> Block:
        with in_our_words(self.where, self._kind):
            return self._source().take(rows)

    def batches(self, rows: int) -> Iterator[tuple[int, Block]]:
        with in_our_words(self.where, self._kind):
            for batch in self._source().batches(rows):
                self._check_unchanged()
                yield batch

    def close(self) -> None:
        self._opened = None

    def check(self) -> None:
        self._check_unchanged()
        with in_our_words(self.where, self._kind):
            if self._stamp.files and os.path.exists(self._path) and stamp(self._path) != self._stamp:
                raise self._changed()

    def version(self) -> list[Any]:
        return [str(self._path), self._member, *super().version(), *self._stamp]

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_opened": None, "_names": None}

    def _load_names(self) -> Sequence[str] | None:
        with in_our_words(self.where, self._kind):
            names = self._source().names
        if names is not None and len(names) != len(self):
            raise FormatError(f"{self.where}: {len(names)} names for {len(self)} rows; expected one name per row")
        return names

    def _source(self) -> Features:
        """The open file. Two threads may both open it; that does no harm."""
        self._check_unchanged()
        source = self._opened
        if source is None:
            if stamp(self._path) != self._stamp:
                raise self._changed()
            source = self._opened = formats.opened(self._path, self._member)
            if (source.shape, source.dtype) != (self.shape, self.dtype):
                raise self._changed()
        return source

    def _check_unchanged(self) -> None:
        """Refuse a file that was written to while it is read; one that was removed can still be read."""
        try:
            now = os.stat(self._path)
        except OSError:
            return
        if self._stamp.files == 0 and (now.st_size, now.st_mtime_ns) != (self._stamp.size, self._stamp.changed):
            raise self._changed()

    def _changed(self) -> FileError:
        return FileError(f"{self.where}: has changed since it was opened; open it again")

    def _check_claim(self, source: Features) -> None:
        """Refuse a small file that claims to hold an enormous matrix."""
        rows, columns = self.shape
        claim = rows * columns * self.dtype.itemsize
        if claim > INFLATION * self._stamp.size and not issparse(source.read(0, 0)):
            raise FormatError(
                f"{self.where}: claims {rows:,} × {columns:,} values of {self.dtype} in {self._stamp.size:,} bytes; "
                f"expected at most {INFLATION:,} bytes of values per byte of file"
            )


class Stamp(NamedTuple):
    """What distinguishes versions of a file or folder."""

    size: int
    changed: int  # nanoseconds
    files: int  # in a folder; 0 for a file


def stamp(path: Path) -> Stamp:
    """The stamp of a regular file, or of all files of a folder, which must hold nothing but files and folders."""
    if not path.is_dir():
        status = os.stat(regular(path))
        return Stamp(status.st_size, status.st_mtime_ns, 0)
    found = [entry.stat(follow_symlinks=False) for entry in _entries(path)]
    return Stamp(sum(s.st_size for s in found), max((s.st_mtime_ns for s in found), default=0), len(found))


def _entries(folder: Path) -> Iterator["os.DirEntry[str]"]:
    """All files below a folder. Links and pipes are refused, because they lead out of the folder or never end."""
    waiting = [os.fspath(folder)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise FormatError(f"{printable(entry.path)}: is a link; expected a folder that holds its own files")
                if entry.is_dir():
                    waiting.append(entry.path)
                else:
                    check_regular(entry.path, entry.stat(follow_symlinks=False).st_mode)
                    yield entry


@contextmanager
def in_our_words(where: str, kind: str) -> Iterator[None]:
    """Turn any error inside into one of ours: one sentence that names the file.

    This is the only place that rewords errors of other packages about feature files, at opening and at every read.
    """
    try:
        yield
    except IschError:
        raise
    except MemoryError as error:
        raise FileError(f"{where}: does not fit into memory") from error
    except Exception as error:
        number = getattr(error, "errno", None)
        if isinstance(error, OSError) and number:
            raise FileError(f"{where}: {os.strerror(number)}") from error
        raise FormatError(f"{where}: not a readable {kind}, or a damaged one ({_detail(error)})") from error


def _detail(error: Exception) -> str:
    """The beginning of a foreign message, on one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 120 else f"{text[:117]}..."
