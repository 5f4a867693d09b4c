"""Neighbour graphs of codes for scikit-learn, and a scorer of hashing methods by what they retrieve.

    make_pipeline(ISCH(n_bits=64), HammingKNeighborsTransformer(n_neighbors=30), Isomap(metric="precomputed"))
    GridSearchCV(ISCH(), {"n_bits": [32, 64, 128]}, scoring=retrieval_scorer(k=10))

Everything is exact. Like scikit-learn itself, this module takes a moment to import.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from isch import features
from isch.codes import Codes
from isch.errors import InputError, ParameterError
from isch.hashing.base import Hasher
from isch.scan.exact import CodeTable, check_k, nearest

MODES = ("distance", "connectivity")

Scorer = Callable[..., float]


class HammingKNeighborsTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The graph of nearest codes, in the form of scikit-learn's ``KNeighborsTransformer``.

    Parameters
    ----------
    mode : {"distance", "connectivity"}
        What an edge holds: the Hamming distance, or 1.
    n_neighbors : int
        Neighbours per code. As in scikit-learn, "distance" gives one more, because a code that was fitted is its own
        neighbour at distance 0.

    Attributes
    ----------
    n_samples_fit_ : int
        How many codes were fitted.
    """

    def __init__(self, *, mode: str = "distance", n_neighbors: int = 5) -> None:
        self.mode = mode
        self.n_neighbors = n_neighbors

    def fit(self, X: Any, y: None = None) -> Self:
        """Keep the codes whose graph is wanted.

        Parameters
        ----------
        X : array of uint8 (rows, bytes)
            Packed codes, as a hasher's ``transform`` gives them.
        y : None
            There for pipelines.
        """
        if self.mode not in MODES:
            raise ParameterError(f"mode must be one of {', '.join(MODES)}; got {self.mode!r}")
        check_k(self.n_neighbors)
        self._table = CodeTable(self._codes(X, reset=True))
        self.n_samples_fit_ = self._n_features_out = len(self._table)
        return self

    def transform(self, X: Any) -> csr_matrix:
        """The graph from codes to the codes that were fitted.

        Parameters
        ----------
        X : array of uint8 (queries, bytes)
            Packed codes.

        Returns
        -------
        csr_matrix (queries, n_samples_fit_)
            Each row has its neighbours, sorted by (distance, row).
        """
        check_is_fitted(self)
        codes = self._codes(X, reset=False)
        k = self.n_neighbors + (self.mode == "distance")
        if k > self.n_samples_fit_:
            raise InputError(
                f"expected n_neighbors {'<' if k > self.n_neighbors else '<='} n_samples_fit; got n_neighbors = "
                f"{self.n_neighbors}, n_samples_fit = {self.n_samples_fit_}"
            )
        distances, rows = nearest(codes, self._table, k)
        values = distances.astype(np.float64) if self.mode == "distance" else np.ones(rows.shape)
        ends = np.arange(0, rows.size + 1, k)
        return csr_matrix((values.ravel(), rows.ravel(), ends), shape=(len(codes), self.n_samples_fit_))

    def fit_transform(self, X: Any, y: None = None) -> csr_matrix:
        """The graph of codes among themselves."""
        return self.fit(X).transform(X)

    def _codes(self, X: Any, reset: bool) -> Codes:
        return self._packed(validate_data(self, X, reset=reset, dtype="numeric"))

    def _packed(self, array: NDArray[Any]) -> Codes:
        if array.dtype != np.uint8:
            raise InputError(f"expected packed codes (uint8), as a hasher gives them; got {array.dtype}")
        return np.ascontiguousarray(array)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.requires_fit = True
        return tags


def retrieval_scorer(k: int = 10, max_reference: int = 10_000) -> Scorer:
    """A scorer for ``GridSearchCV``: how well codes retrieve, by labels or, without them, by the features themselves.

    Parameters
    ----------
    k : int
        How many neighbours are looked at.
    max_reference : int
        At most so many rows of a fold are compared with each other, the first ones.

    Returns
    -------
    callable
        ``scorer(hasher, X, y=None)``: each row of X looks for its ``k`` nearest others by their codes. With labels the
        score is the share of neighbours with the same label (precision at k), else the share of the ``k`` nearest rows
        by the 2-norm that are found (recall at k).
    """
    check_k(k)
    check_k(max_reference)

    def score(hasher: Any, X: Any, y: Any = None) -> float:
        opened = features.open(X)
        n = min(len(opened), max_reference)
        if n < 2:
            raise InputError(f"a score needs at least 2 rows; got {n}")
        rows = opened.read(0, n)
        found = _others(np.asarray(hasher.transform(rows)), min(k, n - 1), _distance(hasher))
        if y is not None:
            labels = np.asarray(y)[:n]
            return float(np.mean(labels[found] == labels[:, None]))
        return _recall(features.dense(rows), found)

    return score


def _others(codes: Codes, k: int, distance: Any) -> NDArray[np.int64]:
    """The k nearest rows of each row, without itself."""
    table = CodeTable(codes)
    _, rows = nearest(codes, table, k + 1, distance)
    itself = rows == np.arange(len(rows))[:, None]
    itself[~itself.any(axis=1), -1] = True  # it stands behind k + 1 others with the same code
    others: NDArray[np.int64] = rows[~itself].reshape(len(rows), k)
    return others


def _distance(hasher: Any) -> Any:
    last = hasher[-1] if hasattr(hasher, "steps") else hasher
    if not isinstance(last, Hasher):
        raise InputError(f"retrieval_scorer scores hashing methods; got {type(last).__name__}")
    return last.distance


def _recall(rows: NDArray[np.float32], found: NDArray[np.int64]) -> float:
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=found.shape[1], algorithm="brute").fit(rows)
    expected = search.kneighbors(return_distance=False)
    return float(np.mean([np.isin(a, b).mean() for a, b in zip(expected, found, strict=True)]))
