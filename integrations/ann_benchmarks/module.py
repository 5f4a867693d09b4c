"""ISCH in ann-benchmarks: codes that find candidates for vectors, and exact search among bits."""

import numpy as np

import isch

from ..base.module import BaseANN

MAX_SAMPLES = 100_000  # rows that a method learns from


class Codes(BaseANN):
    """Float data: Hamming search among codes finds candidates, the vectors themselves order them.

    Parameters
    ----------
    metric : {"angular", "euclidean"}
        How the benchmark compares vectors.
    method : str
        A hashing method, by name.
    n_bits : int
        Bits per code.
    """

    def __init__(self, metric, method, n_bits):
        if metric not in ("angular", "euclidean"):
            raise NotImplementedError(f"ISCH does not know the metric {metric}")
        self._angular = metric == "angular"
        self._hasher = isch.hasher(method, n_bits=n_bits)
        self._candidates = 100
        self._method, self._n_bits = method, n_bits

    def fit(self, X):
        self._vectors = self._prepared(X)
        rows = np.random.default_rng(0).permutation(len(X))[:MAX_SAMPLES]
        self._hasher.fit(self._vectors[np.sort(rows)])
        self._table = isch.CodeTable(self._hasher.transform(self._vectors))
        self._norms = np.einsum("ij,ij->i", self._vectors, self._vectors)

    def set_query_arguments(self, candidates):
        self._candidates = candidates

    def query(self, q, n):
        return self._search(q[None], n)[0]

    def batch_query(self, X, n):
        self.res = self._search(X, n)

    def _search(self, X, n):
        queries = self._prepared(X)
        _, rows = isch.nearest(self._hasher.transform(queries), self._table, max(n, self._candidates))
        return [self._ordered(query, some)[:n] for query, some in zip(queries, rows, strict=True)]

    def _ordered(self, query, rows):
        """Candidates by the 2-norm, which orders unit vectors as the angle does."""
        return rows[np.argsort(self._norms[rows] - 2 * (self._vectors[rows] @ query), kind="stable")]

    def _prepared(self, X):
        rows = np.ascontiguousarray(X, np.float32)
        if not self._angular:
            return rows
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)

    def __str__(self):
        return f"ISCH(method={self._method}, n_bits={self._n_bits}, candidates={self._candidates})"


class Hamming(BaseANN):
    """Bits: exact search by Hamming distance."""

    def __init__(self, metric):
        if metric != "hamming":
            raise NotImplementedError(f"this is search by Hamming distance; got {metric}")

    def fit(self, X):
        self._table = isch.CodeTable(np.packbits(np.asarray(X, bool), axis=1))

    def query(self, q, n):
        return self._search(q[None], n)[0]

    def batch_query(self, X, n):
        self.res = self._search(X, n)

    def _search(self, X, n):
        return isch.nearest(np.packbits(np.asarray(X, bool), axis=1), self._table, n)[1]

    def __str__(self):
        return "isch.nearest"
