"""Multi-threshold quantisation: with more bits than directions, bits count levels.

Coordinate i of y = Gᵀ z, with G (r × r) a rotation, gets k_i of the m bits: bit j says whether y_i reaches the j-th of
k_i thresholds. As ±1 their sum s_i takes k_i + 1 values, so bits say the level of y_i, and the Hamming distance of two
codes is the sum of the differences of their levels. Levels are β s_i / √k_i, thresholds lie midway between them, and

    Σ ‖y − β E b‖²,   E (r × m) with E_ib = 1/√k_i for the bits b of direction i,

is made small as in rotation.py: for given G and β, bits say the nearest levels; for given bits, G is the Procrustes
solution and β that of least squares. The error never increases. Of normally distributed values it becomes .363, .190,
.119, .082 of the variance with 1, 2, 3, 4 thresholds. As many signs along a random frame leave .363, .222, .160, .125.

E Eᵀ = I, so R = G E is a tight frame as in rotation.py. Bits are signs of Rᵀ z − t, with t one of k_i numbers around
zero that are 2 β / k_i apart. Bit b belongs to direction b mod r, and thresholds near zero come first: the first bits
of a code vary most.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch import progress
from isch.compute import Arrays, Sum, run, single_threaded_blas
from isch.fitting import Sized, step
from isch.hashing import rotation
from isch.hashing.rotation import Matrix, Rotation

REACH = 2.0  # standard deviations that the levels reach at first
LEAST = 1e-30  # β of rows that do not vary


def _sizes(Z: Matrix, n_iter: int, n_bits: int) -> Rotation:
    matrix = rotation.sizes(Z, n_iter, n_bits).matrix
    return Rotation(matrix, [], Sized((n_bits,), np.float64))  # type: ignore[arg-type]


@step(
    "rotation",
    cost=lambda Z, n_iter, n_bits: rotation.cost(Z, n_iter, min(Z.shape[1], n_bits), min(Z.shape[1], n_bits)),
    gives=_sizes,
    kept=rotation.KEPT,
    random=True,
)
def learn(Z: Matrix, n_iter: int, rng: np.random.Generator, n_bits: int, tolerance: float = 1e-6) -> Rotation:
    """R (r, ``n_bits``) and the thresholds of its bits, for coordinates Z (n, r); errors are shares per bit."""
    r = Z.shape[1]
    counts = n_bits // r + (np.arange(r) < n_bits % r)
    G, errors = rotation.random(r, rng), list[float]()
    squares, usual = float(np.einsum("ij,ij->", Z, Z, dtype=np.float64)), n_bits / r
    beta = max(LEAST, REACH * math.sqrt(squares / Z.size * usual) / (usual + 1))
    with single_threaded_blas(), progress.task("", n_iter, "iterations") as advance:
        for _ in range(n_iter):
            StZ, sums = run(Counting(G.astype(Z.dtype), counts, beta), Z)
            errors.append((squares - 2 * beta * float(np.sum(StZ.T * G)) + beta**2 * float(sums)) / (len(Z) * n_bits))
            G = rotation.procrustes(StZ)
            beta = max(LEAST, float(np.sum(StZ.T * G)) / max(LEAST, float(sums)))
            advance(1)
            if len(errors) > 1 and errors[-2] - errors[-1] < tolerance * errors[-2]:
                break
    direction = np.arange(n_bits) % r
    matrix = G[:, direction] / np.sqrt(counts[direction])
    return Rotation(matrix, errors, 2 * beta * places(counts, n_bits) / counts[direction])


def places(counts: NDArray[np.intp], n_bits: int) -> NDArray[np.float64]:
    """Where the threshold of each bit is among those of its direction: −1, 0, 1 for three, nearest to zero first."""
    bits = np.arange(n_bits)
    k, j = counts[bits % len(counts)], bits // len(counts)
    middle = (k + 1) % 2 / 2  # 0 or ½: the place nearest to zero
    steps = (j + k % 2) // 2
    return np.asarray((middle + steps) * np.where((j + k) % 2, -1.0, 1.0))


@dataclass(frozen=True)
class Counting(Sum):
    """(Sᵀ Z, Σ S²) of S = E b."""

    G: Matrix
    counts: NDArray[np.intp]
    beta: float

    def zero(self) -> Arrays:
        return np.zeros(self.G.shape), np.zeros(())

    def block(self, block: Any, _: int) -> Arrays:
        k, root = self.counts.astype(block.dtype), np.sqrt(self.counts).astype(block.dtype)
        reached = np.clip(np.floor(block @ self.G * (root / (2 * self.beta)) + (k + 1) / 2), 0, k)
        S = ((2 * reached - k) / root).astype(block.dtype)
        return np.asarray(S.T @ block), np.einsum("ij,ij->", S, S, dtype=np.float64)
