"""The index on disk: a folder with a catalog, a model, and segments of codes.

    index = Index.create("photos.isch", hasher)
    index.add(features, keys=paths, metadata=[{"album": "2019"}, ...])
    index.search(queries, k=20, where={"album": "2019"})[0][0].key

A change that returned is on disk; one that was interrupted at any instant never happened. An ``Index`` sees the moment
it was opened, or last wrote or refreshed. It may be used by many threads, and by processes that open it themselves.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes
from isch.distances import HAMMING, Distance
from isch.errors import FileError, InputError, ParameterError
from isch.search import intake
from isch.search import keys as key_rules
from isch.search import rerank as reranking
from isch.search.catalog import VERSION, Key
from isch.search.filters import Where
from isch.search.folder import building, checked, write_empty
from isch.search.results import Metadata, Results, collected, parsed
from isch.search.snapshot import Snapshot, take
from isch.search.verify import problems
from isch.search.writer import Rows, Writer, writing

if TYPE_CHECKING:
    from isch.hashing.base import Hasher

WAIT_SECONDS = 5.0


class Item(NamedTuple):
    """What the index holds of one item."""

    key: Key
    code: Codes
    metadata: Metadata
    features: NDArray[np.float32] | None


class Index:
    """An index on disk."""

    def __init__(self, path: str | os.PathLike[str], *, wait: float = WAIT_SECONDS) -> None:
        self.path = Path(path).absolute()
        self._wait = wait
        self._writing, self._refreshing = threading.Lock(), threading.Lock()
        self._snapshot: Snapshot | None = take(checked(self.path))

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, wait: float = WAIT_SECONDS) -> Self:
        """Open the index at ``path``; a change waits up to ``wait`` seconds for another process that is writing."""
        return cls(path, wait=wait)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        hasher: "Hasher | str | os.PathLike[str] | None" = None,
        *,
        n_bits: int | None = None,
        keep_features: str | None = None,
    ) -> Self:
        """Make an empty index: for features, with a fitted hasher or a model file; for codes of ``n_bits``, without.

        ``keep_features`` ("float16" or "float32") keeps the features too, for exact re-ranking.
        """
        with building(path) as folder:
            write_empty(folder, hasher, n_bits, keep_features)
        return cls(path)

    def add(self, rows: Any, keys: Any = None, metadata: Any = None) -> None:
        """Add features (anything ``isch.features.open`` takes), or codes where the index has no hasher; all or nothing.

        ``keys``: unique strings or integers, by default the names the source has, else the next integers.
        ``metadata``: a dictionary a row, or one for all.
        """
        self._add(self._rows(rows), keys, metadata, replace=False)

    def add_codes(self, codes: Any, keys: Any = None, metadata: Any = None) -> None:
        """Add codes that this index's hasher made elsewhere."""
        if self._keeps:
            raise InputError(f"{self.path}: the index keeps features; codes alone cannot be added")
        self._add(intake.code_rows(codes, self.n_bits), keys, metadata, replace=False)

    def upsert(self, rows: Any, keys: Any = None, metadata: Any = None) -> None:
        """Add rows, replacing the items whose keys exist."""
        source = self._rows(rows)
        if keys is None and source.names is None:
            raise InputError("upsert needs keys")
        self._add(source, keys, metadata, replace=True)

    def delete(self, keys: Any, *, missing_ok: bool = False) -> int:
        """Delete items; gives how many there were. A key that is not there is an error, unless ``missing_ok``."""
        chosen = key_rules.many(keys)
        with self._changing() as writer:
            return writer.delete(chosen, missing_ok)

    def compact(self) -> None:
        """Merge all segments and drop deleted rows, while readers go on."""
        with self._changing() as writer:
            writer.compact()

    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        where: Where | None = None,
        rerank: str | None = "auto",
        oversample: float | None = None,
    ) -> Results:
        """The k nearest items of each query, nearest first.

        ``queries`` are features, or codes where the index has no hasher. ``where`` filters by metadata
        (isch.search.filters). The best ``oversample`` × k codes are re-ranked: "asymmetric" (the default where codes
        are compared by Hamming distance) by the query's real projections, "exact" by the features kept, None not.
        """
        snapshot = self._now
        _check_k(k)
        method = reranking.choose(rerank, self.distance if self.has_model else None, self._keeps)
        asked = intake.queries(queries, self.hasher if self.has_model else None, self.n_bits)
        wanted = reranking.candidates(k, self.n_bits, oversample) if method else k
        distances: NDArray[Any]
        distances, rows = snapshot.nearest(asked.codes, wanted, self.distance, where)
        scores = None
        if method is not None:
            scores = reranking.scores(method, snapshot, asked, rows)
            best = reranking.best(scores, rows, k)
            distances, rows = np.take_along_axis(distances, best, axis=1), np.take_along_axis(rows, best, axis=1)
            scores = np.take_along_axis(scores, best, axis=1)
        ids = snapshot.ids(rows)
        return collected(ids, snapshot.items(np.unique(ids).tolist()), distances, scores)

    def get(self, key: Any) -> Item | None:
        """The item under a key, or None."""
        snapshot, wanted = self._now, key_rules.one(key)
        if (item := snapshot.find([wanted]).get(wanted)) is None:
            return None
        row = np.array([snapshot.row(item)])
        _, text = snapshot.items([item])[item]
        features = snapshot.features(row)[0] if self._keeps else None
        return Item(wanted, snapshot.codes(row)[0], parsed(text), features)

    def __contains__(self, key: Any) -> bool:
        wanted = key_rules.one(key)
        return wanted in self._now.find([wanted])

    def __len__(self) -> int:
        return len(self._now)

    def __iter__(self) -> Iterator[Key]:
        """All keys in the order they were added."""
        return self._now.keys()

    def refresh(self) -> bool:
        """See the latest state; says whether it is a new one."""
        with self._refreshing:  # else the slower of two threads could bring back an older moment
            before = self._now
            self._snapshot = after = take(self.path, before.segments)
        return after.generation != before.generation

    def verify(self) -> list[str]:
        """Read everything and compare it with its checksums: a sentence for each problem, none if all is well."""
        return problems(self.path)

    def info(self) -> dict[str, Any]:
        """What the index is and how large."""
        snapshot = self._now
        return {
            "path": str(self.path),
            "version": VERSION,
            "items": len(snapshot),
            "deleted": int(snapshot.offsets[-1]) - len(snapshot),
            "segments": len(snapshot.segments),
            "n_bits": snapshot.n_bits,
            "method": self.hasher.name if self.has_model else None,
            "n_features": snapshot.meta["n_features"],
            "keep_features": snapshot.meta["keep_features"],
            "generation": snapshot.generation,
            "bytes": snapshot.n_file_bytes,
        }

    @property
    def n_bits(self) -> int:
        """Bits a code."""
        return self._now.n_bits

    @property
    def has_model(self) -> bool:
        """Whether the index takes features; one without a model takes codes."""
        return self._now.meta["model_digest"] is not None

    @cached_property
    def hasher(self) -> "Hasher":
        """The model that makes codes from features."""
        from isch.hashing import load

        if not self.has_model:
            raise InputError(f"{self.path}: the index has no model; it takes codes")
        return load(self.path / "model.safetensors")

    @property
    def distance(self) -> Distance:
        """How its codes are compared."""
        return self.hasher.distance if self.has_model else HAMMING

    def close(self) -> None:
        """Let go of the files; searches that other threads have under way still end well."""
        self._snapshot = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return type(self), (self.path,)

    def __repr__(self) -> str:
        state = "closed" if self._snapshot is None else f"{len(self)} items of {self.n_bits} bits"
        return f"<isch.Index {str(self.path)!r}: {state}>"

    @property
    def _now(self) -> Snapshot:
        snapshot = self._snapshot
        if snapshot is None:
            raise FileError(f"{self.path}: the index was closed")
        if snapshot.pid != os.getpid():
            snapshot.abandon()
            snapshot = self._snapshot = take(self.path, snapshot.segments)
        return snapshot

    @property
    def _keeps(self) -> bool:
        return bool(self._now.meta["keep_features"])

    @contextmanager
    def _changing(self) -> Iterator[Writer]:
        _ = self._now
        with self._writing, writing(self.path, self._wait) as writer:
            yield writer
        self.refresh()

    def _add(self, rows: Rows, keys: Any, metadata: Any, replace: bool) -> None:
        with self._changing() as writer:
            writer.add(rows, keys, metadata, replace)

    def _rows(self, source: Any) -> Rows:
        if not self.has_model:
            return intake.code_rows(source, self.n_bits)
        return intake.feature_rows(source, self.hasher, self._now.meta["keep_features"])


def _check_k(k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ParameterError(f"k must be an integer of at least 1; got {k!r}")
