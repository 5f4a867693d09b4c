"""Re-ranking: codes find candidates, then a finer measure sorts them.

asymmetric  the query keeps its real values z; only the stored side is bits: Σ |z_i| [sign z_i ≠ b_i]. Only codes are
            stored.
exact       the 2-norm between the original features, if the index keeps them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isch import compute
from isch.distances import Distance, Hamming
from isch.errors import ParameterError, unknown
from isch.lazy import Lazy
from isch.scan.exact import CodeTable, Ranked, asymmetric_distances
from isch.search.catalog import FACTORS
from isch.search.intake import Queries
from isch.search.snapshot import Rows, Snapshot

if TYPE_CHECKING:
    from isch.hashing import distance as estimator
else:
    estimator = Lazy("isch.hashing.distance")

WITH_FACTORS = 4  # as many candidates
METHODS = ("asymmetric", "factors", "exact")


@dataclass(frozen=True)
class Stage:
    """The second stage of a search: which method orders the candidates (None: the codes alone), and how many."""

    method: str | None
    oversample: float | None

    def candidates(self, k: int, n_bits: int) -> int:
        """How many candidates the first stage finds for k results.

        The default was chosen on MNIST and CIFAR-10 GIST: precision is at most .003 below that of scoring every row,
        and a scan of a million 256-bit codes takes less than 30 % longer (docs/benchmarks.md). Short codes have more
        ties, so they need more candidates. Factors need more too, because the bits alone know nothing of lengths: on
        GIST, four times as many find .97 of what scoring every row does.
        """
        if self.method is None:
            return k
        if self.oversample is None:
            more = WITH_FACTORS if self.method == FACTORS else 1
            return int(np.ceil(more * (6 * k + 24) * (1 + 32 / n_bits)))
        return int(np.ceil(self.oversample * k))

    def order(
        self, snapshot: Snapshot, queries: Queries, found: Ranked, k: int
    ) -> tuple[NDArray[Any], Rows, NDArray[np.float32] | None]:
        """(distances, rows, scores) of the k best candidates of each query, sorted by (score, row)."""
        distances, rows = found
        if self.method is None:
            return distances, rows, None
        scores = self._scores(snapshot, queries, rows)
        best = np.lexsort((rows, scores), axis=1)[:, :k]
        return (
            np.take_along_axis(distances, best, axis=1),
            np.take_along_axis(rows, best, axis=1),
            np.take_along_axis(scores, best, axis=1),
        )

    def _scores(self, snapshot: Snapshot, queries: Queries, rows: Rows) -> NDArray[np.float32]:
        if not rows.size:
            return np.empty(rows.shape, np.float32)
        if self.method == "exact":
            return exact(snapshot, queries.features, rows)
        if self.method == "factors":
            return estimated(snapshot, queries, rows)
        return asymmetric(snapshot, queries.values, rows)


def stage(rerank: str | None, oversample: float | None, distance: Distance | None, keeps: str | None) -> Stage:
    """The second stage that a search asks for; "auto" takes factors where they are kept, else asymmetric."""
    if oversample is not None and not 1 <= oversample < np.inf:
        raise ParameterError(f"oversample must be at least 1 and finite; got {oversample}")
    return Stage(_method(rerank, isinstance(distance, Hamming), keeps), oversample)


def _method(rerank: str | None, signs: bool, keeps: str | None) -> str | None:
    if rerank is None or rerank == "none":
        return None
    if rerank not in ("auto", *METHODS):
        raise unknown("rerank", rerank, ("auto", "none", *METHODS))
    if rerank == "auto":
        return FACTORS if keeps == FACTORS else "asymmetric" if signs else None
    if rerank == "asymmetric" and not signs:
        raise ParameterError(
            "rerank='asymmetric' needs an index with a model whose codes are compared by Hamming distance"
        )
    if rerank == FACTORS and keeps != FACTORS:
        raise ParameterError("rerank='factors' needs an index made with keep_features='factors'")
    if rerank == "exact" and keeps in (None, FACTORS):
        raise ParameterError("rerank='exact' needs an index made with keep_features='float16' or 'float32'")
    return rerank


def asymmetric(snapshot: Snapshot, projections: NDArray[np.float32], rows: Rows) -> NDArray[np.float32]:
    """Asymmetric distances of queries' real values (queries, bits) to their candidate rows (queries, candidates)."""
    if len(snapshot.segments) == 1:
        return asymmetric_distances(projections, snapshot.table(0), rows)
    table = CodeTable(snapshot.codes(rows.ravel()))
    return asymmetric_distances(projections, table, np.arange(rows.size).reshape(rows.shape))


def estimated(snapshot: Snapshot, queries: Queries, rows: Rows) -> NDArray[np.float32]:
    """Squared 2-norms between queries and their candidate rows (queries, candidates), from codes and factors."""
    hasher = queries.hasher
    if hasher is None:
        raise ParameterError("factors need an index with a model")
    values = queries.values + estimator.thresholds_of(hasher)
    inner = np.abs(values).sum(axis=1, keepdims=True) - 2 * asymmetric(snapshot, values, rows)
    factors = snapshot.features(rows.ravel()).reshape(*rows.shape, -1)
    return estimator.squared_distances(hasher, estimator.Lengths.of(hasher)(queries.features), inner, factors)


def exact(snapshot: Snapshot, queries: NDArray[np.float32], rows: Rows) -> NDArray[np.float32]:
    """2-norms between queries (queries, dimensions) and their candidate rows (queries, candidates)."""

    def norms(i: int) -> NDArray[np.float32]:
        return np.asarray(np.linalg.norm(snapshot.features(rows[i]) - queries[i], axis=1), np.float32)

    return np.stack(list(compute.parallel(norms, range(len(queries)))))
