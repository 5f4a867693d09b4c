"""SKLSH (Raginsky, Lazebnik 2009, *Locality-sensitive binary codes from shift-invariant kernels*).

Bits are signs of randomly thresholded random Fourier features of the kernel K(u) = exp(−γ‖u‖²/2). The expected share
of bits in which x and y differ depends only on K(x − y).
"""

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isch import compute, fitting
from isch.errors import warn
from isch.features import Block, Features, dense
from isch.fitting import Run, Size, Sized, Stage, step
from isch.hashing.base import LinearHasher
from isch.hashing.projecting import Projector
from isch.learned import Array, Expected
from isch.parameters import BITS, Interval

NEIGHBOUR = 50
ROUNDING = 1e-3  # of the length of a row; smaller distances are rounding errors of single precision
PROBES = 100


class SKLSH(LinearHasher):
    """Random Fourier features of a Gaussian kernel, thresholded at random.

    Parameters
    ----------
    n_bits : int
        Bits per code.
    gamma : float, optional
        γ of the kernel; by default 1/r², where r is the mean distance from 100 random rows to their 50th neighbour.
    random_state : int, RandomState or None
        Seed of the random features.
    """

    name = "sklsh"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [BITS],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "random_state": ["random_state"],
    }
    _learns: ClassVar[Expected] = {
        "gamma_": float,
        "phases_": Array("float32", "m"),
        "thresholds_": Array("float32", "m"),
    }
    gamma_: float
    phases_: NDArray[np.float32]  # b, uniform in [0, 2π)
    thresholds_: NDArray[np.float32]  # t, uniform in [−1, 1)

    def __init__(self, n_bits: int = 128, gamma: float | None = None, random_state: Any = 0) -> None:
        self.n_bits = n_bits
        self.gamma = gamma
        self.random_state = random_state

    def _fit(self, features: Features, run: Run) -> dict[str, Any]:
        mean = run(fitting.mean, features)
        gamma = self._bandwidth(features, mean, run) if self.gamma is None else float(self.gamma)
        projection, phases, thresholds = run(random_features, features.shape[1], self.n_bits, gamma)
        return {
            "mean_": mean,
            "gamma_": gamma,
            "projection_": projection,
            "phases_": phases,
            "thresholds_": thresholds,
        }

    def _bandwidth(self, features: Features, mean: NDArray[np.float64], run: Run) -> float:
        probes = run(fitting.load, run(fitting.draw, features, PROBES), mean)
        return run(bandwidth, features, mean, probes, self._label)

    def _projector(self) -> Projector:
        return Waves(super()._projector(), self.phases_, self.thresholds_)


@step(gives=lambda d, m, gamma: (Sized((d, m)), Sized((m,)), Sized((m,))), random=True)
def random_features(
    d: int, m: int, gamma: float, *, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Draw (directions w, phases b, thresholds t) of random Fourier features."""
    directions = rng.standard_normal((d, m), dtype=np.float32)
    phases = rng.uniform(0, 2 * np.pi, m).astype(np.float32)
    thresholds = rng.uniform(-1, 1, m).astype(np.float32)
    return directions * np.float32(np.sqrt(gamma)), phases, thresholds


def _bandwidth_cost(features: Features, mean: NDArray[np.float64], probes: NDArray[np.float32], label: str) -> Stage:
    size = Size.of(features)
    return Stage(products=2.0 * size.rows * size.columns * PROBES, read=size.bytes())


@step("bandwidth", cost=_bandwidth_cost, gives=lambda features, mean, probes, label: 1.0)
def bandwidth(features: Features, mean: NDArray[np.float64], probes: NDArray[np.float32], label: str) -> float:
    """Return γ = 1/r² for the mean distance r from probes to their neighbours."""
    radius = float(neighbour_distances(features, mean, probes, NEIGHBOUR).mean())
    if radius > ROUNDING * float(np.sqrt(np.einsum("ij,ij->i", probes, probes).mean())):
        return radius**-2
    warn(f"{label}: rows coincide with their neighbours, so the data gives no bandwidth; gamma = 1 is used")
    return 1.0


@dataclass(frozen=True)
class Waves:
    """cos(z + b) + t."""

    linear: Projector
    phases: NDArray[np.float32]
    thresholds: NDArray[np.float32]

    def __call__(self, block: Block) -> NDArray[np.floating[Any]]:
        return np.asarray(np.cos(self.linear(block) + self.phases) + self.thresholds)


def neighbour_distances(
    features: Features, mean: NDArray[np.float64], probes: NDArray[np.float32], neighbour: int
) -> NDArray[np.float32]:
    """The distance from each (centred) probe, a row of ``features``, to its n-th neighbour, not counting itself."""
    squares = compute.run(NearestSquares(probes, mean, min(neighbour + 1, len(features))), features)
    return np.asarray(np.sqrt(np.maximum(squares.max(axis=1), 0)))


@dataclass(frozen=True)
class NearestSquares(compute.Reduction[NDArray[np.float32]]):
    """The ``keep`` smallest squared distances of each probe to the rows, (probes, keep), in any order."""

    probes: NDArray[np.float32]
    mean: NDArray[np.float64]
    keep: int

    def zero(self) -> NDArray[np.float32]:
        return np.empty((len(self.probes), 0), np.float32)

    def block(self, block: Block, _: int) -> NDArray[np.float32]:
        rows = (dense(block, np.float64) - self.mean).astype(np.float32)
        lengths = np.einsum("ij,ij->i", self.probes, self.probes)[:, None]
        return self._smallest(lengths - 2 * (self.probes @ rows.T) + np.einsum("ij,ij->i", rows, rows))

    def combine(self, total: NDArray[np.float32], part: NDArray[np.float32]) -> NDArray[np.float32]:
        return self._smallest(np.concatenate([total, part], axis=1))

    def _smallest(self, squares: NDArray[np.float32]) -> NDArray[np.float32]:
        if squares.shape[1] <= self.keep:
            return squares
        return np.asarray(np.partition(squares, self.keep - 1, axis=1)[:, : self.keep])
