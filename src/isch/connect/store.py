"""The contract of a store: codes under keys, with metadata, in an engine of ours or of somebody else.

A store gives ``_upsert``, ``_delete``, ``search``, ``batches``, ``_others`` and ``__len__``; encoding, the check of the
model and what is said of a store that is not there are written here once. Opening never creates. Results are those of
``isch.Index``. A store is also a source: what it holds can be put elsewhere.

An outside engine gives ``_nearest``: it finds candidates by their codes, and filters and re-ranking happen here.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes
from isch.connect import Engine
from isch.connect.source import ModelTag, Source
from isch.distances import HAMMING, Distance, Hamming
from isch.encoder import Encoder
from isch.errors import FileError, InputError, unknown
from isch.scan.exact import CodeTable, asymmetric_distances, check_k
from isch.search import intake, rerank
from isch.search import keys as key_rules
from isch.search.catalog import Key
from isch.search.filters import Where, fits, tests
from isch.search.items import Metadata
from isch.search.results import Results

LISTED = 10  # stores that a message names
GROWTH = 8  # a filter that the engine does not know is tried on so many times as many candidates, until enough fit
AT_ONCE = 100_000  # candidates that an engine is asked for in one request


class Store(Source):
    """Codes in an engine.

    Parameters
    ----------
    encoder : Encoder, Hasher, path, ModelTag or None
        What turns features or pictures into codes. Without it the store takes codes: of ``n_bits`` bits, or of the
        model that a ``ModelTag`` names.
    n_bits : int, optional
        Without an encoder: the length of the codes.
    existing : ModelTag, optional
        What the store says of its codes, if it is there already and stays.
    create : bool
        Whether a store that does not exist is to be made. Otherwise it is an error: a mistyped name must not become
        an empty store.
    """

    where: str  # how messages call the store
    name: str  # what it is called among the stores of the same place
    only_hamming = True  # whether the engine knows no other distance

    def __init__(self, encoder: Any, n_bits: int | None, existing: ModelTag | None, create: bool) -> None:
        if existing is None and not create:
            raise self._missing(could_be_made=encoder is not None or n_bits is not None)
        given = encoder if isinstance(encoder, ModelTag) else None
        self.encoder = None if encoder is None or given else Encoder.of(encoder)
        if self.encoder is not None and self.only_hamming and not isinstance(self.encoder.distance, Hamming):
            raise InputError(f"engines compare codes by Hamming distance; {self.encoder.hasher.name} has its own")
        if existing is None and encoder is None and n_bits is None:
            raise InputError(f"{self.where} does not exist; making it needs n_bits, or an encoder")
        known = existing if encoder is None and n_bits is None else given
        self.tag = known or ModelTag.of(self.encoder, n_bits)
        if existing is not None:
            existing.check(self.tag, self.where)

    @property
    def n_bits(self) -> int:
        """Bits per code."""
        return self.tag.n_bits

    @property
    def distance(self) -> Distance:
        """How codes are compared."""
        return HAMMING

    def add(self, keys: Any, rows: Any, metadata: Any = None) -> None:
        """Add items, replacing those whose keys exist.

        Parameters
        ----------
        keys : sequence of str or int
            One key per row.
        rows : feature source, pictures, or codes
            Features or pictures where the store has an encoder, else codes.
        metadata : list of dict, or dict, optional
            One dictionary per row, or one for all.
        """
        source = (
            intake.code_rows(rows, self.n_bits)
            if self.encoder is None
            else intake.feature_rows(rows, self.encoder, None)
        )
        chosen = _distinct(key_rules.for_rows(keys, source.names, source.count, 0))
        notes = list(key_rules.metadata_rows(metadata, source.count))
        start = 0
        for codes, _ in source.parts:
            stop = start + len(codes)
            self._upsert(chosen[start:stop], codes, notes[start:stop])
            start = stop

    def add_codes(self, keys: Any, codes: Any, metadata: Any = None) -> None:
        """Add codes that this store's encoder made elsewhere, replacing those whose keys exist."""
        rows = intake.check_codes(codes, self.n_bits, "the codes")
        chosen = _distinct(key_rules.for_rows(keys, None, len(rows), 0))
        self._upsert(chosen, rows, list(key_rules.metadata_rows(metadata, len(rows))))

    def delete(self, keys: Any) -> None:
        """Delete items; keys that are not there are passed over."""
        chosen = key_rules.many(keys)
        if chosen:
            self._delete(chosen)

    @abstractmethod
    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        where: Where | None = None,
        rerank: str | None = "auto",
        oversample: float | None = None,
    ) -> Results:
        """The k nearest items of each query, nearest first, as ``isch.Index.search`` gives them."""

    def finish(self) -> None:  # most engines have everything in place
        """Build what is quicker to build when all items are there; to be called after many were added."""

    def _missing(self, could_be_made: bool) -> FileError:
        """Describe a store that does not exist by the stores that do."""
        there = f"{self.where} does not exist; {_listed(self._others(), self.name)}"
        return FileError(f"{there}; create=True makes it" if could_be_made else there)

    @abstractmethod
    def _others(self) -> list[str]:
        """List the names of the stores that exist in the same place."""

    @abstractmethod
    def _upsert(self, keys: Sequence[Key], codes: Codes, metadata: Sequence[str | None]) -> None:
        """Add items, replacing those whose keys exist; metadata as JSON."""

    @abstractmethod
    def _delete(self, keys: Sequence[Key]) -> None:
        """Delete those of the items that exist."""


class Candidate(NamedTuple):
    """An item that an engine found."""

    key: Key
    code: Codes  # one code
    distance: int
    metadata: Metadata


class EngineStore(Store):
    """Codes in an outside engine."""

    facts: Engine
    filters = False  # whether the engine itself applies ``where``

    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        where: Where | None = None,
        rerank: str | None = "auto",
        oversample: float | None = None,
    ) -> Results:
        """The k nearest items of each query, nearest first, as ``isch.Index.search`` gives them.

        Candidates come from the engine with their codes; re-ranking happens here.
        """
        check_k(k)
        stage = self._stage(rerank, oversample)
        asked = intake.queries(queries, self.encoder, self.n_bits)
        tests(where or {})  # refused here also where there is nothing to test
        total = len(self)
        requested = min(stage.candidates(k, self.n_bits), total)
        found = self._candidates(asked.codes, requested, total, where) if total else [[] for _ in asked.codes]
        rows = [_ordered(some, asked.values[i] if stage.method else None)[:k] for i, some in enumerate(found)]
        return _results(rows, stage.method is not None)

    @abstractmethod
    def _nearest(self, codes: Codes, k: int, where: Where | None) -> list[list[Candidate]]:
        """The k nearest items of each code, nearest first; ``where`` is None unless ``filters``."""

    def _check_kind(self, kind: str | None) -> None:
        """Refuse a kind of index that the engine does not have; None leaves the choice to the store."""
        if kind is not None and kind not in self.facts.kinds:
            raise unknown("kind", kind, self.facts.kinds)

    def _stage(self, method: str | None, oversample: float | None) -> rerank.Stage:
        if method == "exact":
            raise InputError(f"{self.where}: exact re-ranking needs the features, which isch.Index can keep")
        return rerank.stage(method, oversample, None if self.encoder is None else self.encoder.distance, None)

    def _candidates(self, codes: Codes, k: int, total: int, where: Where | None) -> list[list[Candidate]]:
        if where is None or self.filters:
            return self._in_parts(codes, k, where)
        found: list[list[Candidate]] = [[] for _ in codes]
        pending = list(range(len(codes)))
        asked = k
        while pending:
            asked = min(asked * GROWTH, total)
            for i, some in zip(pending, self._in_parts(codes[pending], asked, None), strict=True):
                found[i] = [one for one in some if fits(one.metadata, where)][:k]
            pending = [i for i in pending if len(found[i]) < k] if asked < total else []
        return found

    def _in_parts(self, codes: Codes, k: int, where: Where | None) -> list[list[Candidate]]:
        """Some queries at a time, so that candidates do not fill the memory."""
        step = max(1, AT_ONCE // k)
        parts = (self._nearest(codes[start : start + step], k, where) for start in range(0, len(codes), step))
        return [some for part in parts for some in part]


@contextmanager
def opening(store: Store) -> Iterator[None]:
    """Let go of the engine again if the store cannot be opened."""
    try:
        yield
    except BaseException:
        store.close()
        raise


def _distinct(keys: Sequence[Key]) -> Sequence[Key]:
    if repeated := key_rules.repeated(keys):
        raise InputError(repeated)
    return keys


def _listed(names: Sequence[str], asked: str) -> str:
    """List names in words; of many, those that are most like the one that was asked for."""
    if not names:
        return "no stores are there"
    from difflib import get_close_matches

    nearest = get_close_matches(asked, names, LISTED, cutoff=0)
    more = f" and {len(names) - len(nearest)} more" if len(names) > len(nearest) else ""
    return f"stores there: {', '.join(nearest)}{more}"


def _ordered(found: list[Candidate], values: NDArray[np.float32] | None) -> list[tuple[Candidate, float | None]]:
    """Candidates in the order of their asymmetric distances, or as they are."""
    if values is None or not found:
        return [(one, None) for one in found]
    codes = np.stack([one.code for one in found])
    scores = asymmetric_distances(values, CodeTable(codes))[0]
    return [(found[i], float(scores[i])) for i in np.lexsort((np.arange(len(found)), scores))]


def _results(rows: list[list[tuple[Candidate, float | None]]], scored: bool) -> Results:
    """As many hits for each query as the one with the fewest has."""
    n = min(map(len, rows), default=0)
    rows = [row[:n] for row in rows]
    return Results(
        [[one.key for one, _ in row] for row in rows],
        np.array([[one.distance for one, _ in row] for row in rows], np.int32).reshape(len(rows), n),
        np.array([[score for _, score in row] for row in rows], np.float32).reshape(len(rows), n) if scored else None,
        [[one.metadata for one, _ in row] for row in rows],
    )
