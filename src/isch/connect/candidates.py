"""Search in an outside engine: it finds candidates by their codes; filters and re-ranking happen here.

An engine gives ``_nearest``; the rest of a search is written here once.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes
from isch.connect.base import Store
from isch.errors import InputError
from isch.scan.exact import CodeTable, asymmetric_distances, check_k
from isch.search import intake, rerank
from isch.search.catalog import Key
from isch.search.filters import Where, fits, tests
from isch.search.items import Metadata
from isch.search.results import Results

GROWTH = 8  # a filter that the engine does not know is tried on so many times as many candidates, until enough fit
AT_ONCE = 100_000  # candidates that an engine is asked for in one request


class Candidate(NamedTuple):
    """An item that an engine found."""

    key: Key
    code: Codes  # one code
    distance: int
    metadata: Metadata


class EngineStore(Store):
    """Codes in an outside engine."""

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
        wanted = min(stage.candidates(k, self.n_bits), total)
        found = self._candidates(asked.codes, wanted, total, where) if total else [[] for _ in asked.codes]
        rows = [_ordered(some, asked.values[i] if stage.method else None)[:k] for i, some in enumerate(found)]
        return _results(rows, stage.method is not None)

    @abstractmethod
    def _nearest(self, codes: Codes, k: int, where: Where | None) -> list[list[Candidate]]:
        """The k nearest items of each code, nearest first; ``where`` is None unless ``filters``."""

    def _stage(self, method: str | None, oversample: float | None) -> rerank.Stage:
        if method == "exact":
            raise InputError(f"{self.where}: exact re-ranking needs the features, which isch.Index can keep")
        return rerank.stage(method, oversample, None if self.encoder is None else self.encoder.distance, None)

    def _candidates(self, codes: Codes, k: int, total: int, where: Where | None) -> list[list[Candidate]]:
        if where is None or self.filters:
            return self._in_parts(codes, k, where)
        found: list[list[Candidate]] = [[] for _ in codes]
        pending, asked = list(range(len(codes))), k
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
