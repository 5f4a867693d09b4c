"""An engine that is one file, such as faiss and usearch: it holds numbers and codes, a sidecar the rest."""

import os
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes, width
from isch.connect.base import Candidate, Store, check_width, parsed
from isch.connect.sidecar import Ids, Row, Sidecar
from isch.errors import FileError, FormatError, unknown
from isch.files import check_writable, replacing
from isch.search.catalog import Key
from isch.search.filters import Where


class FileStore(Store):
    """Codes in an engine's own file; ``PATH.items`` beside it holds keys, metadata and the mark.

    Parameters
    ----------
    path : path
        The engine's file; made when there is none.
    encoder : Encoder, Hasher, path or None
        What turns features or pictures into codes.
    n_bits : int, optional
        Without an encoder: the length of the codes.
    kind : str
        Which index the engine builds.
    replace : bool
        Begin anew where the file exists.
    """

    kinds: tuple[str, ...]

    def __init__(
        self,
        path: str | os.PathLike[str],
        encoder: Any = None,
        *,
        n_bits: int | None = None,
        kind: str | None = None,
        replace: bool = False,
    ) -> None:
        self.path = Path(path).absolute()
        self.where = str(path)
        check_writable(self.path)
        if kind is not None and kind not in self.kinds:
            raise unknown("kind", kind, self.kinds)
        beside = self.path.with_name(self.path.name + ".items")
        if not replace and self.path.exists() and not beside.exists():
            raise FormatError(
                f"{self.path}: exists, but {beside.name} does not; expected a file that isch exported; replace=True or "
                "--replace overwrites it"
            )
        existing = Sidecar.mark_of(beside) if beside.exists() and not replace else None
        super().__init__(encoder, n_bits, existing if encoder is None and n_bits is None else None)
        if existing is not None:
            existing.check(self.mark, self.where)
        self._sidecar = self._begun(beside) if existing is None else Sidecar(beside)
        self.kind = kind or self._sidecar.fact("kind") or self.kinds[0]
        self._sidecar.note("kind", self.kind)
        self._engine: Any = None
        self._stale = False

    def __len__(self) -> int:
        return self._sidecar.count()

    def finish(self) -> None:
        """Write the engine's file."""
        engine = self._current()
        with replacing(self.path) as temporary:
            self._write(engine, temporary)
        self._sidecar.note("built", self._state())

    def close(self) -> None:
        """Write the engine's file if it has changed, and let go of it."""
        if self._engine is not None or self._stale or not self.path.exists():
            self.finish()
        self._sidecar.close()

    def _upsert(self, keys: Sequence[Key], codes: Codes, metadata: Sequence[str | None]) -> None:
        engine = None if self._stale else self._current()
        before = self._sidecar.ids(keys)
        new = np.array([key not in before for key in keys], bool)
        self._sidecar.note("built", "")
        ids, changed = self._sidecar.upsert(keys, codes, metadata)
        self._stale = self._stale or changed or (self._learns and bool(new.any()))
        if not self._stale and new.any():
            self._add(engine, ids[new], np.ascontiguousarray(codes[new]))

    def _delete(self, keys: Sequence[Key]) -> None:
        self._sidecar.note("built", "")
        self._sidecar.delete(keys)
        self._stale = True

    def _nearest(self, code: Codes, k: int, where: Where | None) -> list[Candidate]:
        ids, distances = self._find(self._current(), code, k)
        rows = self._sidecar.rows(ids.tolist())
        hits = zip(ids.tolist(), distances.tolist(), strict=True)
        return [self._candidate(rows[number], distance) for number, distance in hits if number in rows]

    def _candidate(self, row: Row, distance: int) -> Candidate:
        code = check_width(row.code, self.n_bits, self.where)
        return Candidate(row.key, code, int(distance), parsed(row.metadata, self.where))

    def _current(self) -> Any:
        """The engine's index, built from the sidecar where the file is not what was last written."""
        if (
            self._engine is None
            and not self._stale
            and self._sidecar.fact("built") == self._state()
            and self.path.exists()
        ):
            with suppress(FileError):
                self._engine = self._read(self.path)
        if self._engine is None or self._stale:
            self._engine, self._stale = self._empty(self._sample()), False
            for ids, codes in self._sidecar.batches(width(self.n_bits)):
                self._add(self._engine, ids, codes)
        return self._engine

    def _sample(self) -> Codes:
        """The first codes, for engines that learn from some."""
        first = next(self._sidecar.batches(width(self.n_bits)), None)
        return np.empty((0, width(self.n_bits)), np.uint8) if first is None else first[1]

    def _state(self) -> str:
        """What tells whether the engine's file is the one that was written."""
        try:
            info = self.path.stat()
        except OSError:
            return "none"
        return f"{self.kind} {info.st_size} {info.st_mtime_ns}"

    def _begun(self, beside: Path) -> Sidecar:
        """A new sidecar, in the place of all that was there."""
        _remove(self.path, beside)
        made = Sidecar(beside)
        made.create(self.mark)
        return made

    @property
    def _learns(self) -> bool:
        """Whether the engine learns from the codes, so that it is built when they are all there."""
        return False

    @abstractmethod
    def _empty(self, sample: Codes) -> Any:
        """An index of the engine without items."""

    @abstractmethod
    def _add(self, engine: Any, ids: Ids, codes: Codes) -> None:
        """Add codes under numbers that are not there."""

    @abstractmethod
    def _find(self, engine: Any, code: Codes, k: int) -> tuple[Ids, NDArray[np.int32]]:
        """(numbers, distances) of the k nearest."""

    @abstractmethod
    def _write(self, engine: Any, path: Path) -> None:
        """Write the engine's file."""

    @abstractmethod
    def _read(self, path: Path) -> Any:
        """Read the engine's file; FileError if it cannot be read."""


def _remove(*paths: Path) -> None:
    for path in paths:
        for file in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
            file.unlink(missing_ok=True)
