"""Fisher vectors: the gradient of a Gaussian mixture's likelihood at the local descriptors of a picture.

Perronnin, Sánchez and Mensink, *Improving the Fisher kernel for large-scale image classification* (2010).
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch import kmeans
from isch.describe import sift
from isch.describe.base import unit_rows
from isch.describe.codebook import LocalDescriber, Matrix, need
from isch.describe.images import Source
from isch.describe.sift import Local
from isch.learned import Array, Expected
from isch.parameters import POSITIVE, Interval

Doubles = NDArray[np.float64]

MIN_VARIANCE = 1e-6
MIN_SHARE = 1e-4  # of the variance of all descriptors: the smallest variance of a component at the start


class Mixture(NamedTuple):
    """Gaussians with diagonal covariances."""

    weights: Doubles  # w, (K,)
    means: Doubles  # μ, (K, D)
    deviations: Doubles  # σ, (K, D)


@dataclass(eq=False, repr=False, kw_only=True)
class Fisher(LocalDescriber):
    """Fisher vectors of 2 × ``n_words`` × ``n_dimensions`` values: gradients by the means, then by the deviations.

    Parameters
    ----------
    n_words : int
        Components of the mixture.
    n_dimensions : int
        Descriptors are first reduced to this dimension by PCA; 128 keeps them as they are.
    improved : bool
        Whether to take signed square roots and scale the vector to length one.
    n_iter : int
        Rounds of expectation maximisation.

    Notes
    -----
    The other parameters are those of ``LocalDescriber``.
    """

    n_words: int = 64
    n_dimensions: int = 64
    improved: bool = True
    n_iter: int = 30

    name: ClassVar[str] = "fisher"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LocalDescriber._parameter_constraints,
        "n_words": [POSITIVE],
        "n_dimensions": [Interval(Integral, 1, sift.LENGTH, closed="both")],
        "improved": ["boolean"],
        "n_iter": [POSITIVE],
    }

    _learns: ClassVar[Expected] = {
        "centre_": Array("float64", sift.LENGTH),
        "axes_": Array("float64", sift.LENGTH, "n_dimensions"),
        "weights_": Array("float64", "words"),
        "means_": Array("float64", "words", "n_dimensions"),
        "deviations_": Array("float64", "words", "n_dimensions"),
    }

    @property
    def n_features_out(self) -> int:
        return 2 * self.means_.size

    def _fit(self, pictures: Iterable[Source]) -> None:
        rng = self._rng()
        descriptors = self._sample(pictures, rng)
        need(len(descriptors), max(self.n_words, 2), "n_words")
        self.centre_ = descriptors.mean(axis=0, dtype=np.float64)
        self.axes_ = principal_axes(descriptors - self.centre_, self.n_dimensions)
        mixture = fit_mixture(self._reduced(descriptors), self.n_words, self.n_iter, rng)
        self.weights_, self.means_, self.deviations_ = mixture

    def _describe(self, batch: Sequence[Local]) -> Matrix:
        mixture = Mixture(self.weights_, self.means_, self.deviations_)
        rows = np.stack([fisher_vector(self._reduced(local.values), mixture) for local in batch])
        return improve(rows) if self.improved else rows.astype(np.float32)

    def _reduced(self, descriptors: Matrix) -> Matrix:
        reduced = descriptors @ self.axes_.astype(np.float32) - (self.centre_ @ self.axes_).astype(np.float32)
        return np.asarray(reduced)


def principal_axes(centred: NDArray[np.floating[Any]], n: int) -> Doubles:
    """The ``n`` directions (D, n) of largest variance; the unit vectors if n = D."""
    if n == centred.shape[1]:
        return np.eye(n)
    _, vectors = np.linalg.eigh(np.asarray(centred.T @ centred, np.float64))
    return np.ascontiguousarray(vectors[:, : -n - 1 : -1])


def fit_mixture(X: Matrix, n_words: int, n_iter: int, rng: np.random.Generator) -> Mixture:
    """Expectation maximisation, starting from k-means; components that k-means leaves empty are dropped."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    means, labels = kmeans.fit(X, n_words, n_iter, rng)
    spread = np.maximum(X.var(axis=0, dtype=np.float64), MIN_VARIANCE)
    variances = np.array([X[labels == k].var(axis=0, dtype=np.float64) for k in range(len(means))])
    model = GaussianMixture(
        len(means),
        covariance_type="diag",
        max_iter=n_iter,
        weights_init=np.bincount(labels) / len(labels),
        means_init=means.astype(np.float64),
        precisions_init=1 / np.maximum(variances, MIN_SHARE * spread),
        reg_covar=MIN_VARIANCE,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a mixture that still changes a little is just as good
        model.fit(X.astype(np.float64))
    return Mixture(model.weights_, model.means_, np.sqrt(model.covariances_))


def posteriors(X: NDArray[np.floating[Any]], mixture: Mixture) -> Doubles:
    """q_ik, the probability that descriptor i comes from component k."""
    precisions = mixture.deviations**-2
    constant = np.log(mixture.weights) - np.log(mixture.deviations).sum(axis=1)
    constant -= 0.5 * (mixture.means**2 * precisions).sum(axis=1)
    logs = constant + X @ (mixture.means * precisions).T - 0.5 * (X**2 @ precisions.T)
    likelihoods = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(likelihoods / likelihoods.sum(axis=1, keepdims=True))


def fisher_vector(X: NDArray[np.floating[Any]], mixture: Mixture) -> Doubles:
    """All u_k, then all v_k, with y_ik = (x_i − μ_k) / σ_k:

    u_k = 1 / (N √w_k) Σ_i q_ik y_ik,  v_k = 1 / (N √(2 w_k)) Σ_i q_ik (y_ik² − 1).
    """
    weights, means, deviations = mixture
    if not len(X):
        return np.zeros(2 * means.size)
    X = X.astype(np.float64)
    q = posteriors(X, mixture)
    total, first, second = q.mean(axis=0)[:, None], q.T @ X / len(X), q.T @ X**2 / len(X)
    u = (first - total * means) / deviations
    v = (second - 2 * first * means + total * means**2) / deviations**2 - total
    scale = np.sqrt(weights)[:, None]
    return np.concatenate([(u / scale).ravel(), (v / (np.sqrt(2) * scale)).ravel()])


def improve(rows: Doubles) -> Matrix:
    """Signed square roots, then length one."""
    return unit_rows(np.sign(rows) * np.sqrt(abs(rows)))
