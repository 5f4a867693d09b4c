"""Reading an index: searches, single items, and facts about it."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from isch import progress
from isch.codes import Codes
from isch.distances import HAMMING, Distance
from isch.encoder import Encoder
from isch.errors import FileError, FormatError, InputError
from isch.forks import Lock
from isch.lazy import Lazy
from isch.scan.exact import check_k, check_radius
from isch.search import first_use, intake
from isch.search import keys as key_rules
from isch.search import rerank as reranking
from isch.search.catalog import Key
from isch.search.filters import Where
from isch.search.first_use import FIRST_USE
from isch.search.folder import checked, model_file
from isch.search.items import Metadata
from isch.search.results import Hit, Results, collected, listed
from isch.search.sealed import CODES
from isch.search.snapshot import Snapshot, take
from isch.search.verify import problems

if TYPE_CHECKING:
    from isch.hashing.base import Hasher
    from isch.scan.exact import Ranked
    from isch.search import backup, calibration
    from isch.search import duplicates as near_duplicates
    from isch.search.workers import Workers
else:
    backup = Lazy("isch.search.backup")
    calibration = Lazy("isch.search.calibration")
    near_duplicates = Lazy("isch.search.duplicates")

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


class Reader:
    """What can be read from an index on disk; it shows the state when it was opened, or last refreshed."""

    def __init__(self, path: str | os.PathLike[str], client: Any = None, verify: str = FIRST_USE) -> None:
        folder = Path(path).absolute()
        self._verify = first_use.checked(verify)
        self._read(folder, take(checked(folder), verify=verify), client)

    def _read(self, path: Path, snapshot: Snapshot, client: Any) -> None:
        """Read a snapshot; the model lies in the folder ``path``."""
        self.path = path
        self._workers = None if client is None else _workers(client)
        self._refreshing = Lock()
        self._model: tuple[str, Encoder] | None = None  # its checksum, and the model
        self._snapshot: Snapshot | None = snapshot

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
        rerank : {"auto", "asymmetric", "factors", "exact", "none"} or None
            How the best candidates are sorted: by the real values of the query ("asymmetric", the default if codes are
            compared by Hamming distance), by the 2-norms that these and the stored factors estimate ("factors", the
            default where the index keeps them; scores are squared), by the stored features ("exact"), or by the codes
            alone.
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
        check_k(k)
        snapshot = self._now
        with snapshot.reading():  # begun before the model is loaded, so that both take place at once
            encoder, keeps = self._encoder(snapshot), snapshot.catalog.keep_features
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
        """Find the k items nearest to codes that this index's hasher made elsewhere.

        Parameters
        ----------
        codes : array of uint8 (queries, bytes)
            Packed codes.
        k : int
            Hits per query.
        where : dict or list of dict, optional
            Only items whose metadata fits.

        Returns
        -------
        Results
        """
        check_k(k)
        snapshot = self._now
        asked = intake.queries(codes, None, snapshot.n_bits).codes
        with snapshot.reading():
            distances, rows = snapshot.nearest(asked, k, self.distance, snapshot.allowed(where, None))
            return collected(rows, snapshot.items(rows), distances, None)

    def within(self, queries: Any, radius: int, *, where: Where | None = None) -> list[list[Hit]]:
        """Find every item whose code differs from that of a query in at most ``radius`` bits.

        Parameters
        ----------
        queries : feature source, pictures, or codes
            As in ``search``.
        radius : int
            The largest number of bits that may differ.
        where : dict or list of dict, optional
            Only items whose metadata fits.

        Returns
        -------
        list of list of Hit
            For each query its hits, nearest first.
        """
        check_radius(radius)
        snapshot, workers = self._now, self._workers
        with snapshot.reading():
            codes = intake.queries(queries, self._encoder(snapshot), snapshot.n_bits).codes
            asked = codes, radius, snapshot.allowed(where, None)
            hits = snapshot.within(*asked) if workers is None else workers.within(snapshot, *asked)
            return listed(hits, snapshot.items(hits.rows))

    def explain(self, queries: Any, k: int = 10, *, radius: int | None = None) -> list[str]:
        """Say how a search would be done, by reading all codes or by lookups in tables, and why.

        Tables are there after ``accelerate``, and are used where they are expected to be quicker.

        Parameters
        ----------
        queries, k
            As in ``search``; or just the number of queries.
        radius : int, optional
            As in ``within``, instead of the k nearest.

        Returns
        -------
        list of str
            A sentence per segment.
        """
        check_k(k)
        check_radius(radius or 0)
        snapshot = self._now
        encoder, keeps = self._encoder(snapshot), snapshot.catalog.keep_features
        if self._workers is not None:
            return ["the workers of the cluster read all codes"]
        stage = reranking.stage("auto", None, None if encoder is None else encoder.distance, keeps)
        n, candidates = intake.count(queries, encoder), stage.candidates(k, snapshot.n_bits)
        return [segment.lookup.explain(n, radius, candidates) for segment in snapshot.segments]

    def accelerate(self, radius: int | None) -> None:
        """Build tables of multi-index hashing, so that searches within small radii need not read all codes.

        The tables take up to four times the memory of the codes, and serve the items that are there now. Searches
        beside it go on with a scan. The results are the same.

        Parameters
        ----------
        radius : int or None
            The radius that the tables are built for. None drops them.

        Raises
        ------
        ParameterError
            The tables do not fit into a quarter of the memory that is free.
        """
        snapshot = self._now
        segments = snapshot.segments
        if radius is None:
            for segment in segments:
                segment.lookup.drop()
            return
        check_radius(radius)
        snapshot.begin(CODES)
        with progress.task("building tables", len(segments), "segments") as advance:
            for segment in segments:
                segment.lookup.build(radius)
                advance(1)

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
        """Find the k items whose codes are nearest to that of an item, without the item itself.

        Parameters
        ----------
        key : str or int
            The item.
        k : int
            Hits.
        where : dict or list of dict, optional
            Only items whose metadata fits.

        Returns
        -------
        Results
        """
        snapshot, wanted = self._now, key_rules.one(key)
        if (row := snapshot.find([wanted]).get(wanted)) is None:
            raise InputError(f"the key {wanted!r} is not in the index")
        check_k(k)
        code = snapshot.codes(np.array([row]))
        distances, rows = self._nearest(snapshot, code, k + 1, self.distance, snapshot.allowed(where, None))
        others = (rows[0] != row).nonzero()[0][:k]
        return collected(rows[:, others], snapshot.items(rows), distances[:, others], None)

    def get(self, key: Any) -> Item | None:
        """Get one item.

        Parameters
        ----------
        key : str or int
            Its key.

        Returns
        -------
        Item or None
            Key, code, metadata and features; None if there is no such item.
        """
        snapshot, wanted = self._now, key_rules.one(key)
        if (row := snapshot.find([wanted]).get(wanted)) is None:
            return None
        rows = np.array([row])
        features = snapshot.features(rows)[0] if snapshot.catalog.keeps_vectors else None
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
        """All items in the order they were added.

        Parameters
        ----------
        rows : int
            The largest number of items per batch.

        Yields
        ------
        Batch
            Keys, codes, metadata and features of the next items.
        """
        snapshot = self._now
        for chosen in snapshot.live_rows(rows):
            items = snapshot.items(chosen)
            keys, notes = (list(column) for column in zip(*(items[row] for row in chosen.tolist()), strict=True))
            features = snapshot.features(chosen) if snapshot.catalog.keeps_vectors else None
            yield Batch(keys, snapshot.codes(chosen), notes, features)

    def fields(self) -> list[str]:
        """The names of all fields that the metadata of any item has."""
        return self._now.fields()

    def refresh(self) -> bool:
        """Show the latest state of the index; returns whether it changed."""
        with self._refreshing:  # else the slower of two threads could bring back an older moment
            before = self._now
            self._snapshot = after = take(self.path, before.segments, before.verify)
        return after.catalog.moment != before.catalog.moment

    def backup(self, path: str | os.PathLike[str], *, copy: bool = False) -> None:
        """Copy the latest state of the index to a new folder and compare the copy with its checksums.

        Writers may go on meanwhile.

        Parameters
        ----------
        path : path
            The folder to make, whole or not at all.
        copy : bool
            Whether files are copied even where links are possible. Linked files take no space, but damage to one of
            them on disk is damage to both.
        """
        backup.backup(self.path, path, copy)

    def verify(self) -> list[str]:
        """Read everything and compare it with its checksums; returns one sentence per problem."""
        return problems(self.path)

    def info(self) -> dict[str, Any]:
        """What the index is and how large."""
        snapshot = self._now
        return {
            "path": str(self.path),
            "version": snapshot.catalog.version,
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

    def _nearest(self, snapshot: Snapshot, *asked: Any) -> "Ranked":
        """As ``Snapshot.nearest``, done here or by workers."""
        return snapshot.nearest(*asked) if self._workers is None else self._workers.nearest(snapshot, *asked)


def _workers(client: Any) -> "Workers":
    from isch.search.workers import Workers

    return Workers(client)
