"""Rounding the weights of a linear map so that the values it gives change least.

The values of centred rows x change by x (W − Ŵ), on average by the square root of tr (W − Ŵ)ᵀ H (W − Ŵ) with H the
covariance of the rows. Features are rounded one after the other, those of largest variance first, and what rounding
one of them changes is made up for by those that follow it, as far as they go together with it (error feedback: Hassibi
and Stork 1993, *Second order derivatives for network pruning*; Frantar et al. 2022, *GPTQ*). With U the upper Cholesky
factor of H⁻¹, an error e at feature i is followed by the change −e U_ij / U_ii at every later feature j, and costs
(e / U_ii)². Each column has the scale that costs least.
"""

import numpy as np
from numpy.typing import NDArray

from isch.lazy import linalg
from isch.rounded import Rounded

DAMPING = 0.01  # of the mean variance, added to every variance: features that never vary must not divide by zero
SHRINKAGES = np.linspace(1.0, 0.4, 13)  # scales tried, as shares of the one that reaches the largest weight
ROWS_AT_ONCE = 64

Matrix = NDArray[np.float64]
Scales = NDArray[np.float64]


def rounded(weights: NDArray[np.float32], bits: int, covariance: Matrix | None = None) -> Rounded:
    """The weights (d, m) rounded to ``bits`` bits each; without a covariance as if features did not go together."""
    W = weights.astype(np.float64)
    widest = np.maximum(np.abs(W).max(axis=0), np.finfo(np.float32).tiny * 2**bits) / (2 ** (bits - 1) - 1)
    feedback = None if covariance is None else Feedback(covariance)
    best, scales = np.full(W.shape[1], np.inf), widest
    for share in SHRINKAGES:
        candidate = (widest * share).astype(np.float32).astype(np.float64)
        cost = _cost(W, candidate, bits, feedback)
        scales = np.where(cost < best, candidate, scales)
        best = np.minimum(cost, best)
    integers = nearest(W, scales, bits) if feedback is None else feedback.round(W, scales, bits)[0]
    return Rounded(integers.astype(np.int8), scales.astype(np.float32), bits)


def nearest(W: Matrix, scales: Scales, bits: int) -> Matrix:
    """The nearest whole multiples of the scales that ``bits`` bits can say."""
    return np.asarray(np.rint(W / scales).clip(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))


def _cost(W: Matrix, scales: Scales, bits: int, feedback: "Feedback | None") -> NDArray[np.float64]:
    """The error of each column."""
    if feedback is not None:
        return feedback.round(W, scales, bits)[1]
    return np.asarray(np.square(W - nearest(W, scales, bits) * scales).sum(axis=0))


class Feedback:
    """Rounding with error feedback for one covariance."""

    def __init__(self, covariance: Matrix) -> None:
        variances = np.diag(covariance)
        self._order = np.argsort(-variances, kind="stable")
        damped = covariance + np.eye(len(covariance)) * (DAMPING * variances.mean())
        inverse = linalg.inv(damped[np.ix_(self._order, self._order)])
        self._upper = linalg.cholesky((inverse + inverse.T) / 2)

    def round(self, W: Matrix, scales: Scales, bits: int) -> tuple[Matrix, NDArray[np.float64]]:
        """(integers, error of each column)."""
        left, U = W[self._order], self._upper
        integers, cost = np.empty_like(W), np.zeros(W.shape[1])
        for start in range(0, len(W), ROWS_AT_ONCE):
            stop = min(start + ROWS_AT_ONCE, len(W))
            errors = np.empty((stop - start, W.shape[1]))
            for i in range(start, stop):
                integers[i] = nearest(left[i], scales, bits)
                errors[i - start] = (left[i] - integers[i] * scales) / U[i, i]
                left[i + 1 : stop] -= U[i, i + 1 : stop, None] * errors[i - start]
            left[stop:] -= U[start:stop, stop:].T @ errors
            cost += np.square(errors).sum(axis=0)
        return integers[np.argsort(self._order)], cost
