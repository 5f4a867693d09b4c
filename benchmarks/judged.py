"""Features with labels, split into queries and database, for benchmarks that judge codes.

A file X.npy has its labels beside it as X.labels.npy, as ``isch describe`` writes them.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes
from isch.evaluate.metrics import measure
from isch.evaluate.rankers import CodeRanker
from isch.evaluate.ranking import Truth, score

N_QUERIES = 2000


@dataclass
class Judged:
    """Queries and a database, with labels."""

    name: str
    queries: NDArray[np.float32]
    base: NDArray[np.float32]
    truth: Truth
    k: int  # results that count: a fifth of a class, at most 500

    @classmethod
    def read(cls, path: Path, rows: int, seed: int = 0) -> "Judged":
        """A random split of a file of features."""
        features, labels = np.load(path, mmap_mode="r"), np.load(path.with_suffix(".labels.npy"))
        order = np.random.default_rng(seed).permutation(len(features))[: rows + N_QUERIES]
        some, known = np.asarray(features[np.sort(order)], np.float32), labels[np.sort(order)]
        mixed = np.random.default_rng(seed).permutation(len(some))
        some, known = some[mixed], known[mixed]
        truth = Truth(known[:N_QUERIES], known[N_QUERIES:], None)
        k = max(5, min(500, (len(some) - N_QUERIES) // len(np.unique(known)) // 5))
        return cls(path.stem, some[:N_QUERIES], some[N_QUERIES:], truth, k)

    def precision(self, queries: Codes, base: Codes, n_bits: int) -> float:
        """The share of the first k results with the query's label, in expectation over ties."""
        ranker = CodeRanker(np.ascontiguousarray(queries), np.ascontiguousarray(base), n_bits)
        return float(score(ranker, self.truth, [measure(f"precision@{self.k}")]).mean(f"precision@{self.k}"))

    def of(self, hasher: Any) -> float:
        """The precision of a hasher's codes."""
        return self.precision(hasher.transform(self.queries), hasher.transform(self.base), hasher.n_bits)


def arguments(description: str) -> argparse.Namespace:
    """Files of features, and how many rows of each."""
    return parser(description).parse_args()


def parser(description: str) -> argparse.ArgumentParser:
    """The same, to which a benchmark may add more."""
    found = argparse.ArgumentParser(description=description)
    found.add_argument("files", nargs="+", type=Path, help="X.npy with X.labels.npy beside it")
    found.add_argument("--rows", type=int, default=15_000, help="rows of the database, at most")
    return found
