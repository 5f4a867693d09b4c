"""How many of the true neighbours a search by codes finds, known before it is built.

A search takes the c nearest codes as candidates and puts them in order by the exact distance. So it finds a true
neighbour if fewer than c codes come before the neighbour's. That number is counted for some queries: exactly among the
rows nearest to the query, which compete most, and by a sample among all others. Ties count as half before, half after,
in the sense of the mean over all orders.

Where the neighbours themselves come from a share p of the rows, the j-th nearest of them is among the k nearest of all
rows with the probability that at most k − j of the rows not looked at are nearer: a negative binomial distribution.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes
from isch.quality.ground_truth import Neighbours, Rows
from isch.scan import exact
from isch.scan.exact import CodeTable

QUERIES_AT_ONCE = 64
RESAMPLES = 1000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Competition:
    """Codes that compete: those of the queries, of the rows near each of them, and of a sample of all rows."""

    queries: Codes  # (q, bytes)
    near: Codes  # (q, K, bytes)
    sample: Codes  # (s, bytes)
    sample_rows: Rows  # (s,) sorted
    n_rows: int  # of the whole

    @property
    def n_values(self) -> int:
        """How many distances there are between codes."""
        return 8 * int(self.queries.shape[1]) + 1


@dataclass(frozen=True)
class Ranks:
    """Where the codes put the rows nearest to each query.

    before, ties : (q, K) how many rows the codes put before the j-th nearest row, and at the same distance, itself
        included
    weights : (K,) the probability that the j-th nearest of the rows looked at is a true neighbour that counts
    """

    before: Floats
    ties: Floats
    weights: Floats

    def found(self, candidates: float) -> Floats:
        """(q, K) the probability that each near row is among so many candidates."""
        return np.asarray(np.clip((candidates - self.before) / self.ties, 0, 1))

    def recall(self, candidates: float) -> Floats:
        """(q,) the share of the true neighbours of each query among so many candidates."""
        return np.asarray(np.minimum(self.found(candidates) @ (self.weights / self.weights.sum()), 1.0))

    def candidates_for(self, recall: float, least: int, most: int) -> int:
        """The fewest candidates whose mean recall reaches ``recall``; ``most`` if none does."""
        low, high = least, most
        while low < high:
            middle = (low + high) // 2
            if self.recall(middle).mean() >= recall:
                high = middle
            else:
                low = middle + 1
        return low


@dataclass(frozen=True)
class Staged(Ranks):
    """The same where another order says which rows are candidates at all.

    first : (q, K) the probability that each near row is a candidate
    """

    first: Floats

    def found(self, candidates: float) -> Floats:
        """(q, K) the probability that each near row is a candidate and among so many."""
        return np.asarray(self.first * super().found(candidates))


@dataclass(frozen=True)
class Far:
    """How the codes of sampled rows that are not near lie around each query.

    counts, relevant : (q, distances) how many lie at each distance, and how many of those are relevant
    scale : how many rows each stands for
    """

    counts: NDArray[np.int64]
    relevant: NDArray[np.int64]
    scale: float

    def share(self, depth: Floats) -> Floats:
        """(q,) of so many rows that the codes put first, the share that is relevant."""
        counts, hits = (np.pad(np.cumsum(part, axis=1) * self.scale, ((0, 0), (1, 0))) for part in self._parts)
        depth = np.minimum(depth, counts[:, -1])
        found = [np.interp(*one) for one in zip(depth, counts, hits, strict=True)]
        return np.divide(found, depth, out=np.zeros(len(depth)), where=depth > 0)

    @property
    def _parts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self.counts, self.relevant


def far(neighbours: Neighbours, codes: Competition, relevant: NDArray[np.bool_] | None = None) -> Far:
    """What a sample says of all rows that are not near; ``relevant`` (q, s) tells which of the sampled rows are."""
    table, values = CodeTable(codes.sample), codes.n_values
    counts, hits = (np.zeros((len(codes.queries), values), np.int64) for _ in range(2))
    rest = 0
    for start in range(0, len(counts), QUERIES_AT_ONCE):
        some = slice(start, start + QUERIES_AT_ONCE)
        distances = exact.distances(codes.queries[some], table)
        counted = _not_near(neighbours, codes.sample_rows, some)
        rest += int(counted.sum())
        counts[some] = _histograms(distances, counted, values)
        if relevant is not None:
            hits[some] = _histograms(distances, counted & relevant[some], values)
    missing = codes.n_rows - 1 - neighbours.near.shape[1]
    return Far(counts, hits, missing * len(counts) / max(1, rest))


def _not_near(neighbours: Neighbours, sample_rows: Rows, some: slice) -> NDArray[np.bool_]:
    """(queries, s) which of the sampled rows are neither the query nor near it."""
    left_out = np.concatenate([neighbours.queries[some, None], neighbours.near[some]], axis=1)
    places = np.searchsorted(sample_rows, left_out).clip(0, len(sample_rows) - 1)
    row, column = np.nonzero(sample_rows[places] == left_out)
    counted = np.ones((len(left_out), len(sample_rows)), np.bool_)
    counted[row, places[row, column]] = False
    return counted


def _histograms(distances: NDArray[Any], counted: NDArray[np.bool_], values: int) -> NDArray[np.int64]:
    """(queries, values) how often each distance occurs among those counted."""
    shifted = distances + np.arange(len(distances))[:, None] * values
    return np.bincount(shifted[counted], minlength=len(distances) * values).reshape(-1, values)


def ranks(neighbours: Neighbours, codes: Competition, others: Far, k: int) -> Ranks:
    """Where codes put the rows near each query, counting ``k`` true neighbours."""
    distances = np.bitwise_count(codes.near ^ codes.queries[:, None]).sum(axis=2, dtype=np.int64)
    ordered = np.sort(distances, axis=1)
    nearer, up_to_equal = (
        np.array([np.searchsorted(*one, side=side) for one in zip(ordered, distances, strict=True)])
        for side in ("left", "right")
    )
    equal = up_to_equal - nearer
    up_to, here = (np.take_along_axis(a, distances, axis=1) for a in (np.cumsum(others.counts, axis=1), others.counts))
    before, ties = nearer + others.scale * (up_to - here), equal + others.scale * here
    return Ranks(before, ties, counting(k, distances.shape[1], neighbours.share))


def counting(k: int, n_near: int, share: float) -> Floats:
    """(n_near,) the probability that the j-th nearest of a share of the rows is among the k nearest of all."""
    places = np.arange(1, n_near + 1)
    if share >= 1:
        return (places <= k).astype(np.float64)
    from scipy.stats import nbinom

    return np.asarray(nbinom.cdf(k - places, places, share), np.float64)


def resampling(n: int, rng: np.random.Generator) -> Floats:
    """(RESAMPLES, n) how much each of n queries counts when as many are drawn from them again and again."""
    return np.asarray(rng.multinomial(n, np.full(n, 1 / n), RESAMPLES) / n)


def interval(values: Floats, drawn: Floats, level: float = 0.99) -> tuple[float, float]:
    """The bootstrap interval of the mean of one value per query, for what ``resampling`` has drawn."""
    low, high = np.quantile(drawn @ values, [(1 - level) / 2, (1 + level) / 2])
    mean = float(values.mean())  # where all values are the same, rounding may leave it outside
    return max(min(float(low), mean), float(values.min())), min(max(float(high), mean), float(values.max()))
