"""Re-ranking: codes find candidates, something finer orders them.

asymmetric  the query keeps its real values z, only the stored side is bits: Σ |z_i| [sign z_i ≠ b_i], which orders
            as −Σ z_i b_i does. Nothing but the codes is stored.
exact       the 2-norm between the original features, where the index keeps them.
"""

import numpy as np
from numpy.typing import NDArray

from isch import compute
from isch.distances import Distance, Hamming
from isch.errors import ParameterError, unknown
from isch.search.exact import CodeTable, asymmetric_scores
from isch.search.intake import Queries
from isch.search.snapshot import Rows, Snapshot

METHODS = ("asymmetric", "exact")


def choose(rerank: str | None, distance: Distance | None, keeps_features: bool) -> str | None:
    """The method to use; "auto" is asymmetric wherever that is defined."""
    if rerank is None or rerank == "none":
        return None
    if rerank not in ("auto", *METHODS):
        raise unknown("rerank", rerank, ("auto", "none", *METHODS))
    possible = isinstance(distance, Hamming)
    if rerank == "auto":
        return "asymmetric" if possible else None
    if rerank == "asymmetric" and not possible:
        raise ParameterError(
            "rerank='asymmetric' needs an index with a model whose codes are compared by Hamming distance"
        )
    if rerank == "exact" and not keeps_features:
        raise ParameterError("rerank='exact' needs an index made with keep_features='float16' or 'float32'")
    return rerank


def candidates(k: int, n_bits: int, oversample: float | None) -> int:
    """How many candidates the first stage finds for k results.

    The default was chosen on MNIST and CIFAR-10 GIST: at most .003 of the precision of scoring every row is lost, and
    a scan of a million 256-bit codes takes less than 30 % longer (docs/benchmarks.md). Short codes have more ties.
    """
    if oversample is None:
        return int(np.ceil((6 * k + 24) * (1 + 32 / n_bits)))
    if not 1 <= oversample < np.inf:
        raise ParameterError(f"oversample must be at least 1 and finite; got {oversample}")
    return int(np.ceil(oversample * k))


def asymmetric(snapshot: Snapshot, projections: NDArray[np.float32], rows: Rows) -> NDArray[np.float32]:
    """Asymmetric distances of queries' real values (queries, bits) to their candidate rows (queries, candidates)."""
    if len(snapshot.segments) == 1:
        table, places = snapshot.table(0), rows
    else:
        table = CodeTable(snapshot.codes(rows.ravel()))
        places = np.arange(rows.size).reshape(rows.shape)
    scores = asymmetric_scores(projections, table, places)
    return np.asarray((np.abs(projections).sum(axis=1, keepdims=True) - scores) / 2, np.float32)


def exact(snapshot: Snapshot, queries: NDArray[np.float32], rows: Rows) -> NDArray[np.float32]:
    """2-norms between queries (queries, dimensions) and their candidate rows (queries, candidates)."""

    def norms(i: int) -> NDArray[np.float32]:
        return np.asarray(np.linalg.norm(snapshot.features(rows[i]) - queries[i], axis=1), np.float32)

    return np.stack(list(compute.parallel(norms, range(len(queries)))))


def scores(method: str, snapshot: Snapshot, queries: Queries, rows: Rows) -> NDArray[np.float32]:
    """What a method sorts by, for the candidate rows (queries, candidates)."""
    if not rows.size:
        return np.empty(rows.shape, np.float32)
    return (
        exact(snapshot, queries.features(), rows) if method == "exact" else asymmetric(snapshot, queries.values, rows)
    )


def best(scores: NDArray[np.float32], rows: Rows, k: int) -> NDArray[np.intp]:
    """The places (queries, k) of the best candidates, sorted by (score, row)."""
    return np.lexsort((rows, scores), axis=1)[:, :k]
