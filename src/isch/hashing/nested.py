"""Nested codes: a rotation whose first 64, 128, 256, … bits are each a good code.

The bits come in levels that double. The first level is a rotation A of the first 64 coordinates. If a further level
were a rotation D of the coordinates that come next, its bits would count as much as those before them, although they
say less: signs forget how much a direction varies. So old and new coordinates are turned towards each other. With C a
matrix of orthonormal rows that gives each new coordinate a direction among the old ones,

    old bits   z_old (A − (1 − c₁) Cᵀ C A) + z_new s₁ C A,     c₁² + s₁² = 1,
    new bits   − z_old s₂ Cᵀ D             + z_new c₂ D,       c₂² + s₂² = 1.

With s₁ = s₂ all bits together are a rotation, and with 45° all of them vary alike. But what old bits get of the new
coordinates is noise to the shorter codes. It may be NOISE of their variance, so s₁²/c₁² = NOISE · T/N for coordinates
of variance T and N in all. The longer code has no such loss, so s₂² = min(½, 2 s₁²). D and C are learned as in
rotation.py: for given codes both have their Procrustes solution. Levels that come when all coordinates are used are
rotations or tight frames of their own.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch import progress
from isch.compute import single_threaded_blas
from isch.fitting import Stage, step
from isch.hashing import rotation
from isch.hashing.rotation import Matrix, Rotation, correlate, procrustes

FIRST = 64  # bits of the first level
NOISE = 0.02  # of the variance of old bits, from new coordinates
TOLERANCE = 1e-6  # least gain of a round, as a share

Double = NDArray[np.float64]


class Turn(NamedTuple):
    """By how much old bits take part in new coordinates, and new bits in old ones: the squares of two sines."""

    old: float
    new: float


def levels(n_bits: int) -> list[int]:
    """The lengths at which a nested code ends well: 64, 128, 256, … and ``n_bits``."""
    doubled = [FIRST << i for i in range(max(1, n_bits // FIRST).bit_length()) if FIRST << i < n_bits]
    return [*doubled, n_bits]


def _cost(Z: Matrix, n_iter: int, n_bits: int) -> list[Stage]:
    """A rotation of all bits so far per level, or of the level's own if no coordinate is new."""
    ends = levels(n_bits)
    rank = Z.shape[1]
    return [
        rotation.cost(Z, n_iter, end if start < rank else end - start, min(end, rank))
        for start, end in zip([0, *ends], ends, strict=False)
    ]


@step("rotation", cost=_cost, gives=rotation.sizes, kept=rotation.KEPT, random=True)
def learn(Z: Matrix, n_iter: int, rng: np.random.Generator, n_bits: int) -> Rotation:
    """R (r, ``n_bits``) for coordinates Z (n, r) of largest variance first; the errors of all levels one by one."""
    variances = np.einsum("ij,ij->j", Z, Z, dtype=np.float64) / len(Z)
    R, errors = np.zeros((0, 0)), list[float]()
    for level in levels(n_bits):
        (old, bits), now = R.shape, min(level, Z.shape[1])
        part = np.ascontiguousarray(Z[:, :now])
        if 0 < old < now:
            found = Level(R, now - old, level - bits, turn(variances[:old], variances[old:now]), rng)
            errors += found.learn(part, n_iter)
            R = found.matrix()
        else:
            alone = rotation.learn(part, n_iter, rng, n_bits=level - bits)
            errors += alone.errors
            R = np.hstack([R, alone.matrix]) if old else alone.matrix
    return Rotation(R, errors)


def turn(old: Double, new: Double) -> Turn:
    """For coordinates of these variances."""
    spare, noise = NOISE * float(old.sum()), float(new.sum())
    share = min(0.5, spare / max(spare + noise, np.finfo(float).tiny))
    return Turn(share, min(0.5, 2 * share))


class Level:
    """The matrix of a level while it is learned."""

    def __init__(self, old: Double, n_new: int, n_bits: int, turned: Turn, rng: np.random.Generator) -> None:
        self._old = old  # A (o, bits so far)
        among = rotation.random(len(old), rng, n_new) if n_new < len(old) else np.eye(len(old))
        self._among, self._seen = among, among.T @ old  # C = F · amongᵀ, of which F is learned
        self._F, self._D = rotation.random(n_new, rng), rotation.random(n_new, rng, n_bits)
        self._s1, self._s2 = math.sqrt(turned.old), math.sqrt(turned.new)
        self._c1, self._c2 = math.sqrt(1 - turned.old), math.sqrt(1 - turned.new)

    def matrix(self) -> Double:
        """(old and new coordinates, old and new bits)."""
        old_bits = [self._old - (1 - self._c1) * self._among @ self._seen, self._s1 * self._F @ self._seen]
        new_bits = [-self._s2 * self._among @ (self._F.T @ self._D), self._c2 * self._D]
        return np.hstack([np.vstack(old_bits), np.vstack(new_bits)])

    def learn(self, Z: Matrix, n_iter: int) -> list[float]:
        """Find D and F; returns the mean quantisation error per bit before each update."""
        gram, total = Z.T.astype(np.float64) @ Z, Z.sum(axis=0, dtype=np.float64)
        gains, errors = list[float](), list[float]()
        with single_threaded_blas(), progress.task("", n_iter, "iterations") as advance:
            for _ in range(n_iter):
                R = self.matrix()
                BtZ, size = correlate(Z, R, total), len(Z) * R.shape[1]
                gains.append(float(np.sum(BtZ.T * R)))
                errors.append((float(np.sum(R * (gram @ R))) + size - 2 * gains[-1]) / size)
                self._update(BtZ)
                advance(1)
                if len(gains) > 1 and gains[-1] - gains[-2] < TOLERANCE * gains[-1]:
                    break
        return errors

    def _update(self, BtZ: Double) -> None:
        o, bits = self._old.shape
        on_old, on_new, crossed = BtZ[bits:, :o] @ self._among, BtZ[bits:, o:], BtZ[:bits, o:]
        self._D = procrustes(self._c2 * on_new - self._s2 * on_old @ self._F.T)
        self._F = procrustes(self._s1 * self._seen @ crossed - self._s2 * on_old.T @ self._D.T)
