"""The index on disk: a folder with a catalog, a model, and segments of codes.

    index = Index.create("photos.isch", hasher)
    index.add(features, keys=paths, metadata=[{"album": "2019"}, ...])
    index.search(queries, k=20, where={"album": "2019"})[0][0].key

A change that has returned is on disk; a change that was interrupted never happened. An ``Index`` shows the state when
it was opened, or last wrote or refreshed. Many threads may use it, and other processes may open the same index.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes
from isch.distances import HAMMING, Distance
from isch.encoder import Encoder
from isch.errors import FileError, FormatError, InputError
from isch.forks import Lock
from isch.lazy import Lazy
from isch.search import intake
from isch.search import keys as key_rules
from isch.search import rerank as reranking
from isch.search.catalog import VERSION, Key
from isch.search.filters import Where
from isch.search.folder import building, checked, model_file, write_empty
from isch.search.items import Metadata
from isch.search.results import Results, collected
from isch.search.snapshot import Snapshot, take
from isch.search.verify import problems
from isch.search.writer import Rows, Writer, writing

if TYPE_CHECKING:
    from isch.hashing.base import Hasher
    from isch.search import calibration
    from isch.search import duplicates as near_duplicates
    from isch.search.exact import Ranked
    from isch.search.workers import Workers
else:
    calibration = Lazy("isch.search.calibration")
    near_duplicates = Lazy("isch.search.duplicates")

WAIT_SECONDS = 5.0
BATCH_ROWS = 16_384


class Item(NamedTuple):
    """One item of an index."""

    key: Key
    code: Codes
    metadata: Metadata
    features: NDArray[np.float32] | None


class Batch(NamedTuple):
    """Some items of an index, in columns."""

    keys: list[Key]
    codes: Codes
    metadata: list[Metadata]
    features: NDArray[np.float32] | None


class Index:
    """An index on disk.

    Parameters
    ----------
    path : path-like
        The folder of the index. ``Index.create`` makes one.
    wait : float
        Seconds that a change waits for another process that is writing.
    """

    def __init__(self, path: str | os.PathLike[str], *, wait: float = WAIT_SECONDS, client: Any = None) -> None:
        self.path = Path(path).absolute()
        self._workers = None if client is None else _workers(client)
        self._wait = wait
        self._writing, self._refreshing = Lock(), Lock()
        self._model: tuple[str, Encoder] | None = None  # its checksum, and the model
        self._snapshot: Snapshot | None = take(checked(self.path))

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, wait: float = WAIT_SECONDS, client: Any = None) -> Self:
        """Open an index.

        Parameters
        ----------
        path : path
            The folder.
        wait : float
            How many seconds a change waits for another process that is writing.
        client : distributed.Client, optional
            A Dask cluster whose workers see the folder under the same path: they search it. The answers are the same.

        Returns
        -------
        Index
        """
        return cls(path, wait=wait, client=client)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        encoder: Any = None,
        rows: Any = None,
        *,
        keys: Any = None,
        metadata: Any = None,
        n_bits: int | None = None,
        keep_features: str | None = None,
    ) -> Self:
        """Make an index, whole or not at all.

        Parameters
        ----------
        path : path
            The folder to make.
        encoder : Encoder, Hasher or path of a model file, optional
            What turns features, or pictures, into codes. Without it, codes are added directly.
        rows, keys, metadata : optional
            The first items, as in ``add``.
        n_bits : int, optional
            Without an encoder: the length of the codes.
        keep_features : {"float16", "float32"}, optional
            Keep the features too, for exact re-ranking.
        """
        with building(path) as folder:
            write_empty(folder, None if encoder is None else Encoder.of(encoder), n_bits, keep_features)
            if rows is not None:
                with cls(folder) as index:
                    index.add(rows, keys, metadata)
        return cls(path)

    def add(self, rows: Any, keys: Any = None, metadata: Any = None) -> None:
        """Add items, all or none.

        Parameters
        ----------
        rows : feature source, pictures, or codes
            Anything ``isch.features.open`` takes; pictures, if the index knows how they are described; codes, if it has
            no model.
        keys : sequence of str or int, optional
            One key per row, each new. By default the names of the rows if they have any, otherwise the next integers.
        metadata : list of dict, or dict, optional
            One dictionary per row, or one for all.
        """
        self._add(self._rows(rows), keys, metadata, replace=False)

    def add_codes(self, codes: Any, keys: Any = None, metadata: Any = None, *, replace: bool = False) -> None:
        """Add codes that this index's hasher made elsewhere; ``replace`` replaces the items whose keys exist."""
        if self._keeps:
            raise InputError(f"{self.path}: the index keeps features; codes alone cannot be added")
        self._add(intake.code_rows(codes, self.n_bits), keys, metadata, replace)

    def upsert(self, rows: Any, keys: Any = None, metadata: Any = None) -> None:
        """Add rows, replacing the items whose keys exist."""
        source = self._rows(rows)
        if keys is None and source.names is None:
            raise InputError("replacing items needs their keys, and the rows have no names; give keys")
        self._add(source, keys, metadata, replace=True)

    def delete(self, keys: Any, *, missing_ok: bool = False) -> int:
        """Delete items.

        Parameters
        ----------
        keys : key or sequence of keys
            The items to delete.
        missing_ok : bool
            Whether to skip keys that are not in the index; otherwise they are an error.

        Returns
        -------
        int
            How many items were deleted.
        """
        chosen = key_rules.many(keys)
        with self._changing() as writer:
            return writer.delete(chosen, missing_ok)

    def compact(self) -> None:
        """Merge all segments and drop deleted rows; readers may continue meanwhile."""
        with self._changing() as writer:
            writer.compact()

    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        where: Where | None = None,
        among: Any = None,
        rerank: str | None = "auto",
        oversample: float | None = None,
        recall: float | None = None,
    ) -> Results:
        """The k nearest items of each query, nearest first.

        Parameters
        ----------
        queries : feature source, pictures, or codes
            As in ``add``; ``index.search("cat.jpg")`` works if the index knows how pictures are described.
        k : int
            Hits per query.
        where : dict or list of dict, optional
            Only items whose metadata fits (isch.search.filters).
        among : sequence of keys, optional
            Only these items; unknown keys are skipped.
        rerank : {"auto", "asymmetric", "exact", "none"} or None
            How the best candidates are sorted: by the real values of the query ("asymmetric", the default if codes are
            compared by Hamming distance), by the stored features ("exact"), or by the codes alone.
        oversample : float, optional
            How many candidates are re-ranked, as a multiple of k.
        recall : float, optional
            The share of the k true neighbours to find on average, such as .95. It needs an index that keeps features:
            candidates are put in order exactly, and how many it takes is measured on the index when it is first asked.

        Returns
        -------
        Results
            ``results[i]`` is the list of hits of query i: key, distance, score, metadata.
        """
        intake.check_k(k)
        snapshot = self._now
        encoder, keeps = self._encoder(snapshot), snapshot.catalog.keep_features is not None
        distance = HAMMING if encoder is None else encoder.distance
        compared = None if encoder is None else distance
        if recall is None:
            stage = reranking.stage(rerank, oversample, compared, keeps)
        else:
            stage = calibration.stage(snapshot, compared, rerank, oversample, k, recall)
        asked = intake.queries(queries, encoder, snapshot.n_bits)
        allowed = snapshot.allowed(where, None if among is None else key_rules.many(among))
        found = self._nearest(snapshot, asked.codes, stage.candidates(k, snapshot.n_bits), distance, allowed)
        distances, rows, scores = stage.order(snapshot, asked, found, k)
        return collected(rows, snapshot.items(rows), distances, scores)

    def search_codes(self, codes: Any, k: int = 10, *, where: Where | None = None) -> Results:
        """The k items whose codes are nearest to each of some codes that this index's hasher made elsewhere."""
        intake.check_k(k)
        snapshot = self._now
        asked = intake.queries(codes, None, snapshot.n_bits).codes
        distances, rows = snapshot.nearest(asked, k, self.distance, snapshot.allowed(where, None))
        return collected(rows, snapshot.items(rows), distances, None)

    def duplicates(self, radius: int) -> "near_duplicates.Duplicates":
        """Find groups of near-duplicates: the codes of any two items of a group differ in at most ``radius`` bits.

        Parameters
        ----------
        radius : int
            The largest number of bits that may differ.

        Returns
        -------
        Duplicates
            The groups, each with the largest distance inside it. No item is in two groups. ``pairs()`` lists all pairs.
        """
        return near_duplicates.duplicates(self._now, radius)

    def similar(self, key: Any, k: int = 10, *, where: Where | None = None) -> Results:
        """The k items whose codes are nearest to that of an item, without itself."""
        snapshot, wanted = self._now, key_rules.one(key)
        if (row := snapshot.find([wanted]).get(wanted)) is None:
            raise InputError(f"the key {wanted!r} is not in the index")
        intake.check_k(k)
        code = snapshot.codes(np.array([row]))
        distances, rows = self._nearest(snapshot, code, k + 1, self.distance, snapshot.allowed(where, None))
        others = (rows[0] != row).nonzero()[0][:k]
        return collected(rows[:, others], snapshot.items(rows), distances[:, others], None)

    def get(self, key: Any) -> Item | None:
        """The item under a key, or None."""
        snapshot, wanted = self._now, key_rules.one(key)
        if (row := snapshot.find([wanted]).get(wanted)) is None:
            return None
        rows = np.array([row])
        features = snapshot.features(rows)[0] if snapshot.catalog.keep_features else None
        return Item(wanted, snapshot.codes(rows)[0], snapshot.items(rows)[row][1], features)

    def __contains__(self, key: Any) -> bool:
        wanted = key_rules.one(key)
        return wanted in self._now.find([wanted])

    def __len__(self) -> int:
        return len(self._now)

    def __iter__(self) -> Iterator[Key]:
        """All keys in the order they were added."""
        return self._now.keys()

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """All items in the order they were added, at most ``rows`` at a time."""
        snapshot = self._now
        for chosen in snapshot.live_rows(rows):
            items = snapshot.items(chosen)
            keys, notes = (list(column) for column in zip(*(items[row] for row in chosen.tolist()), strict=True))
            features = snapshot.features(chosen) if snapshot.catalog.keep_features else None
            yield Batch(keys, snapshot.codes(chosen), notes, features)

    def fields(self) -> list[str]:
        """The names of all fields that the metadata of any item has."""
        return self._now.fields()

    def refresh(self) -> bool:
        """Show the latest state of the index; returns whether it changed."""
        with self._refreshing:  # else the slower of two threads could bring back an older moment
            before = self._now
            self._snapshot = after = take(self.path, before.segments)
        return after.catalog.moment != before.catalog.moment

    def verify(self) -> list[str]:
        """Read everything and compare it with its checksums; returns one sentence per problem."""
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
            "describer": self.encoder.describer.name if self.has_model and self.encoder.describer else None,
            "n_features": snapshot.catalog.n_features,
            "keep_features": snapshot.catalog.keep_features,
            "generation": snapshot.catalog.generation,
            "bytes": snapshot.n_file_bytes,
        }

    @property
    def n_bits(self) -> int:
        """Bits per code."""
        return self._now.n_bits

    @property
    def has_model(self) -> bool:
        """Whether the index takes features; one without a model takes codes."""
        return self._now.catalog.model is not None

    @property
    def encoder(self) -> Encoder:
        """What makes codes from features, or from pictures."""
        encoder = self._encoder(self._now)
        if encoder is None:
            raise InputError(f"{self.path}: the index has no model; it takes codes")
        return encoder

    def _encoder(self, snapshot: Snapshot) -> Encoder | None:
        """The model of a state; another index may have replaced the first one meanwhile."""
        wanted, loaded = snapshot.catalog, self._model
        if wanted.model is None or (loaded is not None and loaded[0] == wanted.model):
            return None if wanted.model is None or loaded is None else loaded[1]
        path = model_file(self.path, wanted)
        encoder = Encoder.load(path)
        if (encoder.n_bits, encoder.n_features) != (wanted.n_bits, wanted.n_features):
            raise FormatError(f"{path}: expected a model from {wanted.n_features} features to {wanted.n_bits} bits")
        self._model = wanted.model, encoder
        return encoder

    @property
    def hasher(self) -> "Hasher":
        """The model that makes codes from features."""
        return self.encoder.hasher

    @property
    def distance(self) -> Distance:
        """How its codes are compared."""
        return self.encoder.distance if self.has_model else HAMMING

    def close(self) -> None:
        """Close the files. Searches that run in other threads still finish."""
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
        return snapshot

    @property
    def _keeps(self) -> bool:
        return self._now.catalog.keep_features is not None

    def _nearest(self, snapshot: Snapshot, *asked: Any) -> "Ranked":
        """As ``Snapshot.nearest``, done here or by workers."""
        return snapshot.nearest(*asked) if self._workers is None else self._workers.nearest(snapshot, *asked)

    @contextmanager
    def _changing(self) -> Iterator[Writer]:
        known = self._now.segments
        with self._writing, writing(self.path, self._wait, known) as writer:
            yield writer
        self.refresh()

    def _add(self, rows: Rows, keys: Any, metadata: Any, replace: bool) -> None:
        with self._changing() as writer:
            writer.add(rows, keys, metadata, replace)

    def _rows(self, source: Any) -> Rows:
        if not self.has_model:
            return intake.code_rows(source, self.n_bits)
        return intake.feature_rows(source, self.encoder, self._now.catalog.keep_features)


def _workers(client: Any) -> "Workers":
    from isch.search.workers import Workers

    return Workers(client)
