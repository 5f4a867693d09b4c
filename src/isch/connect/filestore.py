"""An engine that is one file, such as faiss and usearch: it holds numbers and codes, a sidecar the rest.

The sidecar is the truth, and the engine's file follows from it. With ``replace`` both are made under other names and
take the place of the old ones in ``finish``; until then, and after an error, the old ones are as they were.
"""

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes, width
from isch.connect.sidecar import Ids, Row, Sidecar, remove
from isch.connect.source import BATCH_ROWS, check_width, parsed
from isch.connect.store import Candidate, EngineStore
from isch.errors import FileError, FormatError
from isch.files import check_writable, replacing
from isch.locks import locked, note
from isch.search.catalog import Key
from isch.search.filters import Where
from isch.search.folder import digest
from isch.search.reading import Batch


class FileStore(EngineStore):
    """Codes in an engine's own file; ``PATH.items`` beside it holds keys, metadata and the model tag.

    Parameters
    ----------
    path : path
        The engine's file.
    encoder : Encoder, Hasher, path or None
        What turns features or pictures into codes.
    n_bits : int, optional
        Without an encoder: the length of the codes.
    kind : str
        Which index the engine builds.
    create : bool
        Make the file where there is none.
    replace : bool
        Make the file, in the place of one that exists.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        encoder: Any = None,
        *,
        n_bits: int | None = None,
        kind: str | None = None,
        create: bool = False,
        replace: bool = False,
    ) -> None:
        self.path = Path(path).absolute()
        self.where = str(path)
        self.name = self.path.name
        check_writable(self.path)
        self._check_kind(kind)
        self._beside = self.path.with_name(self.path.name + ".items")
        if not replace and self.path.exists() and not self._beside.exists():
            raise FormatError(
                f"{self.path}: exists, but {self._beside.name} does not; expected a file that isch exported; "
                "replace=True or --replace overwrites it"
            )
        existing = Sidecar.tag_of(self._beside) if self._beside.exists() and not replace else None
        super().__init__(encoder, n_bits, existing, create or replace)
        self._lock = ExitStack()
        self._sidecar = self._begun(replace) if existing is None else Sidecar(self._beside)
        recorded = self._sidecar.fact("kind")
        self.kind = kind or recorded or self.facts.kinds[0]
        self._changed = self.kind != recorded  # whether the engine's file is to be written
        if self._changed:
            self._sidecar.note("kind", self.kind)
        self._engine: Any = None
        self._stale = False  # whether the engine's index is to be built anew from the sidecar

    def __len__(self) -> int:
        return self._sidecar.count()

    def batches(self) -> Iterator[Batch]:
        """All items in the order they were added, some thousands at a time."""
        for rows in self._sidecar.items(BATCH_ROWS):
            codes = np.stack([check_width(row.code, self.n_bits, self.where) for row in rows])
            notes = [parsed(row.metadata, self.where) for row in rows]
            yield Batch([row.key for row in rows], codes, notes, None)

    def finish(self) -> None:
        """Write the engine's file."""
        engine = self._current()
        with replacing(self.path) as temporary:
            self._write(engine, temporary)
            self._sidecar.note("built", self._state(temporary))
            self._sidecar.move(self._beside)
        self._changed = False
        self._unlock()

    def close(self) -> None:
        """Write the engine's file if it has changed, and let go of it."""
        if self._changed or self._stale or not self.path.exists():
            self.finish()
        self._sidecar.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            return self.close()
        self._sidecar.close()  # what it holds is whole; the engine's file is built from it when it is needed
        if self._sidecar.path != self._beside:
            remove(self._sidecar.path)
        return self._unlock()

    def _others(self) -> list[str]:
        return [path.name.removesuffix(".items") for path in self.path.parent.glob("*.items")]

    def _upsert(self, keys: Sequence[Key], codes: Codes, metadata: Sequence[str | None]) -> None:
        engine = None if self._stale else self._current()
        before = self._sidecar.ids(keys)
        new = np.array([key not in before for key in keys], bool)
        self._touched()
        ids, changed = self._sidecar.upsert(keys, codes, metadata)
        self._stale = self._stale or changed or (self._learns and bool(new.any()))
        if not self._stale and new.any():
            self._add(engine, ids[new], np.ascontiguousarray(codes[new]))

    def _delete(self, keys: Sequence[Key]) -> None:
        self._touched()
        self._sidecar.delete(keys)
        self._stale = True

    def _nearest(self, codes: Codes, k: int, where: Where | None) -> list[list[Candidate]]:
        found = self._find(self._current(), np.ascontiguousarray(codes), k)
        rows = self._sidecar.rows(list({number for ids, _ in found for number in ids.tolist()}))
        return [
            [
                self._candidate(rows[number], distance)
                for number, distance in zip(ids.tolist(), distances.tolist(), strict=True)
                if number in rows
            ]
            for ids, distances in found
        ]

    def _candidate(self, row: Row, distance: int) -> Candidate:
        code = check_width(row.code, self.n_bits, self.where)
        return Candidate(row.key, code, int(distance), parsed(row.metadata, self.where))

    def _current(self) -> Any:
        """The engine's index, built from the sidecar where the file is not what was last written."""
        if (
            self._engine is None
            and not self._stale
            and self.path.is_file()
            and self._sidecar.fact("built") == self._state(self.path)
        ):
            with suppress(FileError):
                self._engine = self._read(self.path)
        if self._engine is None or self._stale:
            self._engine = self._empty(self._sample())
            self._stale = False
            self._changed = True
            for ids, codes in self._sidecar.batches(width(self.n_bits)):
                self._add(self._engine, ids, codes)
        return self._engine

    def _sample(self) -> Codes:
        """The first codes, for engines that learn from some."""
        first = next(self._sidecar.batches(width(self.n_bits)), None)
        return np.empty((0, width(self.n_bits)), np.uint8) if first is None else first[1]

    def _state(self, path: Path) -> str:
        """What tells whether the engine's file is the one that was written: engines crash on some damaged files."""
        return f"{self.kind} {digest(path)}"

    def _touched(self) -> None:
        """The engine's file is not up to date from now on."""
        if not self._changed:
            self._sidecar.note("built", "")
        self._changed = True

    def _begun(self, replace: bool) -> Sidecar:
        """A new sidecar; with ``replace`` under another name, which one process at a time may use."""
        path = self._beside
        if replace and (path.exists() or self.path.exists()):
            path = path.with_name(path.name + ".new")
            lock = path.with_name(f".{path.name}.lock")
            self._lock.enter_context(locked(lock, 0, f"is replacing {self.path.name}"))
            for file in (lock, note(lock)):
                self._lock.callback(file.unlink, missing_ok=True)
        remove(path)
        made = Sidecar(path)
        made.create(self.tag)
        return made

    def _unlock(self) -> None:
        self._lock.close()

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
    def _find(self, engine: Any, codes: Codes, k: int) -> list[tuple[Ids, NDArray[np.int32]]]:
        """(numbers, distances) of the k nearest of each code."""

    @abstractmethod
    def _write(self, engine: Any, path: Path) -> None:
        """Write the engine's file."""

    @abstractmethod
    def _read(self, path: Path) -> Any:
        """Read the engine's file; FileError if it cannot be read."""
