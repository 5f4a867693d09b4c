"""The contract of a store: codes under keys, with metadata, in an outside engine.

An engine gives ``_upsert``, ``_delete``, ``_nearest`` and ``__len__``; encoding, re-ranking, filters and the check of
the model are written here once. Results are those of ``isch.Index``.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes, width
from isch.connect.mark import Mark
from isch.distances import HAMMING, Distance, Hamming
from isch.encoder import Encoder
from isch.errors import FormatError, InputError
from isch.search import intake, rerank
from isch.search import keys as key_rules
from isch.search.catalog import Key
from isch.search.exact import CodeTable, asymmetric_distances
from isch.search.filters import Where, fits, tests
from isch.search.items import Metadata
from isch.search.results import Results

GROWTH = 8  # a filter that the engine does not know is tried on so many times as many candidates, until enough fit


class Candidate(NamedTuple):
    """An item that an engine found."""

    key: Key
    code: Codes  # one code
    distance: int
    metadata: Metadata


class Store(ABC):
    """Codes in an outside engine.

    Parameters
    ----------
    encoder : Encoder, Hasher, path or None
        What turns features or pictures into codes. Without it the store takes codes of ``n_bits`` bits.
    """

    where: str  # how messages call the store
    filters = False  # whether the engine itself applies ``where``

    def __init__(self, encoder: Any, n_bits: int | None, mark: Mark | None = None) -> None:
        self.encoder = None if encoder is None else Encoder.of(encoder)
        if self.encoder is not None and not isinstance(self.encoder.distance, Hamming):
            raise InputError(f"engines compare codes by Hamming distance; {self.encoder.hasher.name} has its own")
        self.mark = mark or Mark.of(self.encoder, n_bits)

    @property
    def n_bits(self) -> int:
        """Bits per code."""
        return self.mark.n_bits

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
        intake.check_k(k)
        stage = self._stage(rerank, oversample)
        asked = intake.queries(queries, self.encoder, self.n_bits)
        tests(where or {})  # refused here also where there is nothing to test
        total = len(self)
        wanted = min(stage.candidates(k, self.n_bits), total)
        found = [self._candidates(code, wanted, total, where) if total else [] for code in asked.codes]
        rows = [_ordered(some, asked.values[i] if stage.method else None)[:k] for i, some in enumerate(found)]
        return _results(rows, stage.method is not None)

    def finish(self) -> None:  # noqa: B027  # most engines have everything in place
        """Build what is quicker to build when all items are there; to be called after many were added."""

    def close(self) -> None:  # noqa: B027  # an engine without anything to close need not say so
        """Let go of the engine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    @abstractmethod
    def __len__(self) -> int:
        """How many items there are."""

    @abstractmethod
    def _upsert(self, keys: Sequence[Key], codes: Codes, metadata: Sequence[str | None]) -> None:
        """Add items, replacing those whose keys exist; metadata as JSON."""

    @abstractmethod
    def _delete(self, keys: Sequence[Key]) -> None:
        """Delete those of the items that exist."""

    @abstractmethod
    def _nearest(self, code: Codes, k: int, where: Where | None) -> list[Candidate]:
        """The k nearest items of one code, nearest first; ``where`` is None unless ``filters``."""

    def _stage(self, method: str | None, oversample: float | None) -> rerank.Stage:
        if method == "exact":
            raise InputError(f"{self.where}: exact re-ranking needs the features, which isch.Index can keep")
        return rerank.stage(method, oversample, None if self.encoder is None else self.encoder.distance, False)

    def _candidates(self, code: Codes, k: int, total: int, where: Where | None) -> list[Candidate]:
        if where is None or self.filters:
            return self._nearest(code, k, where)
        asked = k
        while True:
            asked = min(asked * GROWTH, total)
            found = [one for one in self._nearest(code, asked, None) if fits(one.metadata, where)]
            if len(found) >= k or asked >= total:
                return found[:k]


def _distinct(keys: Sequence[Key]) -> Sequence[Key]:
    if repeated := key_rules.repeated(keys):
        raise InputError(repeated)
    return keys


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


@contextmanager
def opening(store: Store) -> Iterator[None]:
    """Let go of the engine again if the store cannot be opened."""
    try:
        yield
    except BaseException:
        store.close()
        raise


def check_width(code: bytes, n_bits: int, where: str) -> Codes:
    """A code as an engine gives it back."""
    if len(code) != width(n_bits):
        raise InputError(f"{where}: expected codes of {width(n_bits)} bytes; got {len(code)}")
    return np.frombuffer(code, np.uint8)


def parsed(text: str | None, where: str) -> Metadata:
    """Metadata from the JSON that an engine gives back."""
    try:
        found = None if text is None else json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise FormatError(f"{where}: the metadata of an item are damaged ({error})") from error
    if not (found is None or isinstance(found, dict)):
        raise FormatError(f"{where}: the metadata of an item are damaged (expected a JSON object)")
    return found
