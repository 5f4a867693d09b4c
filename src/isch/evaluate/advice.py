"""Which codes to use for some features: what each choice would find, cost and take, predicted before it is built.

Some rows are queries. Their true neighbours come from one pass over all rows. Each method learns from a sample and
encodes the rows that matter: the queries, the rows near them, and a sample that stands for all others. From these
follow the recall of exact re-ranking at any oversampling (quality/rank_model.py) and the precision by labels. The
method distance is judged as an index with factors searches: candidates by bits, in the order that factors say.
"""

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch import compute, progress
from isch import features as sources
from isch.errors import InputError, IschWarning, ParameterError
from isch.features import Features, Subset, dense
from isch.hashing import hasher as hasher_named
from isch.hashing.base import Hasher
from isch.quality import estimates, ground_truth, rank_model
from isch.quality.ground_truth import Neighbours
from isch.quality.rank_model import Competition, Far, Floats, Ranks
from isch.scan import exact
from isch.search.catalog import FACTORS
from isch.search.rerank import Stage

ESTIMATING = "distance"  # the method whose items have factors, by which an index sorts candidates
METHODS = ("diffusion", ESTIMATING, "itq", "lsh")
BYTES = (8, 16, 32, 64)  # per code
OVERSAMPLING = (1, 2, 3, 5, 10, 20, 50)
TARGET = 0.95
QUERIES, NEAR = 1000, 100
SAMPLE_ROWS = 100_000  # that stand for all rows
FIT_ROWS = 20_000  # that methods learn from
BUDGET = 2e12  # products of numbers spent on true neighbours: a minute or two
LEAST_ROWS = 100
TIMED_QUERIES, TIMED_ROWS = 64, 1000
NEGLIGIBLE = 0.005  # of precision
MORE_ROWS = 0.01  # of recall: what learning from all rows instead of FIT_ROWS may change (benchmarks/advise.py)


@dataclass(frozen=True)
class Cell:
    """One choice, and what it would give on all rows: times in seconds on this machine, memory in bytes."""

    method: str
    n_bits: int
    oversample: int
    recall: float
    low: float  # of the 99 % interval of the recall over queries, and what learning from more rows may change
    high: float
    precision: float | None
    fit_seconds: float
    encode_seconds: float
    search_seconds: float  # per query, among many
    bytes_read: int  # per query: all codes, and the vectors or factors of candidates
    memory: int  # codes, and vectors where candidates are re-ranked, or factors

    @property
    def n_bytes(self) -> int:
        """Bytes per code."""
        return -(-self.n_bits // 8)


@dataclass(frozen=True)
class Advice:
    """All cells, the one to take, and whether it reaches what was asked for."""

    shape: tuple[int, int]
    k: int
    cells: list[Cell]
    best: Cell
    reached: bool
    exact_precision: float | None  # of the true neighbours


def advise(
    source: Any,
    labels: Any = None,
    *,
    n_bytes: int | None = None,
    target: float | None = None,
    methods: Sequence[str] = METHODS,
    k: int = 10,
    seed: int = 0,
) -> Advice:
    """What codes of some features would find, and which to take.

    Parameters
    ----------
    source : feature source
        At least 100 rows.
    labels : array of shape (rows,), optional
        Whether results with the label of the query are wanted: then precision is predicted too.
    n_bytes : int, optional
        At most so many bytes per code; default: 8, 16, 32 and 64 are compared.
    target : float, optional
        The recall of the ``k`` true neighbours to reach, .95 by default. With labels and no target, the choice with the
        best precision is advised.
    methods : sequence of str
        Methods whose codes are compared by Hamming distance, or "distance".
    k : int
        How many true neighbours, or results, count.
    seed : int
        Of all samples.

    Returns
    -------
    Advice
    """
    features = sources.open(source)
    _check(features, n_bytes, target, k)
    known = None if labels is None else _labels(labels, len(features))
    ground = Ground.of(features, known, k, np.random.default_rng(seed))
    lengths = BYTES if n_bytes is None else sorted({max(1, n_bytes // 4), max(1, n_bytes // 2), n_bytes})
    cells: list[Cell] = []
    with progress.task("methods", len(methods) * len(lengths), "models") as advance:
        for method in methods:
            for length in lengths:
                cells += ground.judge(method, 8 * length, seed)
                advance(1)
    best, reached = choose(cells, target, by_precision=known is not None and target is None)
    return Advice(features.shape, k, cells, best, reached, ground.exact_precision())


def choose(cells: Sequence[Cell], target: float | None, by_precision: bool) -> tuple[Cell, bool]:
    """(the cell to take, whether it reaches the target).

    For neighbours: of those whose whole interval reaches the recall, the one that reads least per query, which unlike
    its time is the same on every run. For labels: of those about as precise as the best, the one that takes the least
    memory.
    """
    if by_precision:
        most = max(cell.precision or 0 for cell in cells)
        good = [cell for cell in cells if (cell.precision or 0) >= most - NEGLIGIBLE]
        return min(good, key=lambda cell: (cell.memory, -(cell.precision or 0))), True
    reaching = [cell for cell in cells if cell.low >= (TARGET if target is None else target)]
    if reaching:
        return min(reaching, key=lambda cell: (cell.bytes_read, -cell.recall)), True
    return max(cells, key=lambda cell: cell.recall), False


@dataclass(frozen=True)
class Ground:
    """What all methods are judged on."""

    features: Features
    labels: NDArray[Any] | None
    k: int
    near: Neighbours
    sample: NDArray[np.int64]  # rows that stand for all
    rows: NDArray[np.int64]  # all rows that are encoded
    fit_rows: NDArray[np.int64]
    drawn: Floats  # queries drawn again, for intervals
    seconds_per_candidate: float  # of exact re-ranking

    @classmethod
    def of(cls, features: Features, labels: NDArray[Any] | None, k: int, rng: np.random.Generator) -> "Ground":
        near = ground_truth.find(features, QUERIES, max(NEAR, k), BUDGET, rng)
        sample = compute.sample(features, SAMPLE_ROWS, rng)
        rows = np.unique(np.concatenate([near.queries, near.near.ravel(), sample]))
        fit_rows = compute.sample(features, FIT_ROWS, rng)
        drawn = rank_model.resampling(len(near.queries), rng)
        return cls(features, labels, k, near, sample, rows, fit_rows, drawn, _seconds_per_candidate(features))

    def judge(self, method: str, n_bits: int, seed: int) -> Iterator[Cell]:
        """The cells of one model, for every oversampling."""
        model = hasher_named(method, n_bits=n_bits, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IschWarning)
            model, fit_seconds = _timed(lambda: model.fit(Subset(self.features, self.fit_rows)))
        codes, encode_seconds = _timed(lambda: model.transform(Subset(self.features, self.rows)))
        queries, near, sample = (codes[np.searchsorted(self.rows, some)] for some in self._encoded())
        met = Competition(queries, near, sample, self.sample, len(self.features))
        others = rank_model.far(self.near, met, self._relevant())
        ranks = rank_model.ranks(self.near, met, others, self.k)
        costs = self._costs(model, fit_seconds, encode_seconds)
        if method == ESTIMATING:
            yield self._by_factors(model, met, others, ranks, Cell(method, n_bits, 1, 0, 0, 0, None, *costs))
            return
        for oversample in OVERSAMPLING:
            candidates = min(met.n_rows - 1, oversample * self.k)
            vectors = 4 * self.features.shape[1] if oversample > 1 else 0
            yield replace(
                self._found(Cell(method, n_bits, oversample, 0, 0, 0, None, *costs), ranks, others, candidates),
                search_seconds=self._search(met, candidates) + bool(vectors) * candidates * self.seconds_per_candidate,
                bytes_read=met.n_rows * codes.shape[1] + vectors * candidates,
                memory=met.n_rows * (codes.shape[1] + vectors),
            )

    def _costs(self, model: Hasher, fit_seconds: float, encode_seconds: float) -> tuple[float, float, float, int, int]:
        """Of learning from all rows and encoding them; those of searching are not known yet."""
        n = len(self.features)
        more = min(n, _learns_from(model)) / len(self.fit_rows)
        return fit_seconds * more, encode_seconds * n / len(self.rows), 0.0, 0, 0

    def _found(self, cell: Cell, ranks: Ranks, others: Far, candidates: int) -> Cell:
        """With what is found among so many candidates."""
        values = ranks.recall(candidates)
        low, high = rank_model.interval(values, self.drawn)
        more = MORE_ROWS if len(self.features) > len(self.fit_rows) else 0.0
        return replace(
            cell,
            recall=float(values.mean()),
            low=max(0.0, low - more),
            high=min(1.0, high + more),
            precision=self._precision(ranks, others, candidates),
        )

    def _by_factors(self, model: Hasher, met: Competition, others: Far, ranks: Ranks, cell: Cell) -> Cell:
        """The cell of an index with factors."""
        candidates = min(met.n_rows - 1, Stage(FACTORS, None).candidates(self.k, cell.n_bits))
        staged = estimates.ranks(model, self.features, self.near, met, ranks.found(candidates), ranks.weights)
        each = met.queries.shape[1] + estimates.FACTOR_BYTES
        return replace(
            self._found(cell, staged, others, self.k),
            search_seconds=self._search(met, candidates),
            bytes_read=met.n_rows * met.queries.shape[1] + each * candidates,
            memory=met.n_rows * each,
        )

    def _search(self, met: Competition, candidates: int) -> float:
        """Seconds of finding candidates among all rows."""
        return _search_seconds(met, candidates) * met.n_rows / len(self.sample)

    def _encoded(self) -> tuple[NDArray[np.int64], ...]:
        return self.near.queries, self.near.near, self.sample

    def _relevant(self) -> NDArray[np.bool_] | None:
        """(queries, sample) which of the sampled rows have the query's label."""
        return None if self.labels is None else self.labels[self.sample] == self.labels[self.near.queries][:, None]

    def _precision(self, ranks: Ranks, others: Far, candidates: int) -> float | None:
        """The share of the k results with their query's label: first near rows among the candidates, then others."""
        if self.labels is None:
            return None
        found = ranks.found(candidates)
        before = np.cumsum(found, axis=1) - found
        taken = found * np.clip(self.k - before, 0, 1)
        rest = np.maximum(self.k - taken.sum(axis=1), 0)
        hits = (taken * (self.labels[self.near.near] == self.labels[self.near.queries][:, None])).sum(axis=1)
        share = others.share(np.maximum(candidates - found.sum(axis=1), rest))
        return float((hits + rest * share).mean() / self.k)

    def exact_precision(self) -> float | None:
        """That of the true neighbours."""
        if self.labels is None:
            return None
        found = self.labels[self.near.near[:, : self.k]] == self.labels[self.near.queries][:, None]
        return float(found.mean())


def _check(features: Features, n_bytes: int | None, target: float | None, k: int) -> None:
    if len(features) < max(LEAST_ROWS, k + 2):
        raise InputError(f"{features.where}: advice needs at least {max(LEAST_ROWS, k + 2)} rows; got {len(features)}")
    if n_bytes is not None and n_bytes < 1:
        raise ParameterError(f"bytes per code must be at least 1; got {n_bytes}")
    if target is not None and not 0 < target <= 1:
        raise ParameterError(f"recall must be above 0 and at most 1; got {target}")
    compute.refuse_constant(features)


def _labels(labels: Any, n: int) -> NDArray[Any]:
    array = np.asarray(labels)
    if array.shape != (n,):
        raise InputError(f"labels must be one per row, shape ({n},); got shape {array.shape}")
    return array


def _learns_from(model: Hasher) -> int:
    """Rows that a method learns from at most, as far as time depends on them."""
    return int(getattr(model, "max_samples", FIT_ROWS))


def _timed(work: Any) -> tuple[Any, float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def _search_seconds(met: Competition, candidates: int) -> float:
    """Of finding candidates for one of many queries in the sample."""
    table, some = exact.CodeTable(met.sample), met.queries[:TIMED_QUERIES]
    wanted = min(candidates, len(met.sample))
    return float(_timed(lambda: exact.nearest(some, table, wanted))[1] / len(some))


def _seconds_per_candidate(features: Features) -> float:
    """Of an exact distance to a row of a file that memory holds."""
    rows = dense(features.read(0, min(TIMED_ROWS, len(features))))
    with np.errstate(over="ignore"):
        return float(_timed(lambda: np.linalg.norm(rows - rows[0], axis=1))[1] / len(rows))
