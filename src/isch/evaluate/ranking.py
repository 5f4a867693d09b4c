"""From a method's distances to its measures, a few queries at a time, so the whole matrix is never in memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from isch import compute, progress
from isch.evaluate.metrics import TIES, FloatRanking, Measure, Profile, Ties, curve_ranks, expected_hits, from_integers

BLOCK_BYTES = 64 << 20  # of distances held at a time


class Ranker(Protocol):
    """Distances from the queries to the database, by rows of queries."""

    n_queries: int
    n_items: int

    @property
    def n_groups(self) -> int | None:
        """Integer distances are 0 … n_groups − 1; None: real distances."""

    def distances(self, start: int, stop: int) -> NDArray[Any]:
        """(stop − start, n_items), smaller is nearer."""


def block_queries(ranker: Ranker) -> int:
    """Queries whose distances are held at a time."""
    return max(1, min(256, BLOCK_BYTES // (4 * ranker.n_items)))


@dataclass(frozen=True)
class Truth:
    """What is relevant to each query: the items of its label, and its true nearest neighbours where they are needed."""

    query_labels: NDArray[np.integer[Any]] | None
    labels: NDArray[np.integer[Any]] | None
    neighbours: NDArray[np.integer[Any]] | None = None  # (q, r) rows of the database, nearest first

    def relevant(self, query: int, n_items: int, n_neighbours: int) -> NDArray[np.bool_]:
        """Which items are relevant to a query: of its label, or its first ``n_neighbours`` neighbours."""
        if n_neighbours or self.labels is None or self.query_labels is None:
            out = np.zeros(n_items, np.bool_)
            if self.neighbours is not None:
                out[self.neighbours[query, : n_neighbours or None]] = True
            return out
        return np.asarray(self.labels == self.query_labels[query])


@dataclass(frozen=True)
class Scores:
    """Measures of a ranking: for each name and treatment of ties one value per query; mean curves over ranks."""

    values: dict[str, dict[Ties, NDArray[np.float64]]]
    ranks: NDArray[np.int64]
    precision: NDArray[np.float64]
    recall: NDArray[np.float64]

    def mean(self, name: str, ties: Ties = "expected") -> float:
        """The mean over the queries for which the measure is defined; NaN if there are none."""
        values = self.values[name][ties]
        return float(np.nanmean(values)) if not np.isnan(values).all() else float("nan")

    def means(self) -> dict[str, dict[str, float]]:
        """The means of every measure that is defined, for each treatment of ties."""
        defined = [name for name in self.values if not np.isnan(self.mean(name))]
        return {name: {ties: self.mean(name, ties) for ties in self.values[name]} for name in defined}

    def curves(self) -> dict[str, list[float]]:
        """Precision and recall over ranks."""
        every = {"ranks": self.ranks, "precision": self.precision, "recall": self.recall}
        return {name: values.astype(np.float64).tolist() for name, values in every.items()}


def score(ranker: Ranker, truth: Truth, measures: list[Measure]) -> Scores:
    """Measure a ranking, streaming over the queries."""
    ranks = curve_ranks(ranker.n_items)
    step = block_queries(ranker)
    rows: list[tuple[list[list[float]], NDArray[np.float64], int]] = []
    with progress.task("measuring", ranker.n_queries, "queries") as advance:
        for start in range(0, ranker.n_queries, step):
            block = ranker.distances(start, min(start + step, ranker.n_queries))

            def one(i: int, block: NDArray[Any] = block, start: int = start) -> Any:
                return _score_query(ranker, truth, measures, ranks, start + i, block[i])

            rows.extend(compute.parallel(one, range(len(block))))
            advance(len(block))
    table = np.array([values for values, _, _ in rows]).reshape(len(rows), len(measures), len(TIES))
    hits, totals = np.array([h for _, h, _ in rows]), np.array([t for _, _, t in rows])
    return Scores(
        {m.name: {t: table[:, i, j] for j, t in enumerate(TIES)} for i, m in enumerate(measures)},
        ranks,
        (hits / ranks).mean(axis=0),
        (hits[totals > 0] / totals[totals > 0, None]).mean(axis=0) if totals.any() else np.full(len(ranks), np.nan),
    )


def _score_query(
    ranker: Ranker,
    truth: Truth,
    measures: list[Measure],
    ranks: NDArray[np.int64],
    query: int,
    distances: NDArray[Any],
) -> tuple[list[list[float]], NDArray[np.float64], int]:
    profile = profiler(distances, ranker.n_groups)
    wanted = {0, *(m.neighbours for m in measures)}
    profiles = {n: profile(truth.relevant(query, ranker.n_items, n)) for n in wanted}
    values = [[m.of(profiles[m.neighbours], ties) for ties in TIES] for m in measures]
    main = profiles[0]
    return values, expected_hits(main.sizes, main.hits, ranks), int(main.hits.sum())


def profiler(distances: NDArray[Any], n_groups: int | None) -> Callable[[NDArray[np.bool_]], Profile]:
    """The profile of one query's distances as a function of which items are relevant."""
    if n_groups is None:
        return FloatRanking(distances).profile
    return lambda relevant: from_integers(distances, relevant, n_groups)
