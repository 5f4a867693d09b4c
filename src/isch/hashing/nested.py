"""Nested codes: a rotation whose first 64, 128, 256, … bits are each a good code.

The bits come in levels that double. The first level is a rotation of the first 64 coordinates. If a further level were
a rotation of the coordinates that come next, its bits would count as much as those before them, although they say less:
signs forget how much a direction varies. So every bit of a level has a part in the old coordinates too,

    z_old c U + z_new s V,   c² + s² = 1,   U and V with orthonormal columns (or rows).

A sign divides each bit by its variance. So the distance between codes weighs differences of coordinates by the matrix
M = Σ a aᵀ / v over the bits, with a the direction of a bit and v its variance. In one rotation of all coordinates M is
a multiple of I. Here, with m bits so far for r old coordinates of variance T in all, b new bits for n new coordinates
of variance N, and v = c² T / max(b, r) + s² N / b, it is

    M_old = m/T + c² min(1, b/r) / v,   M_new = s² / v,   ‖M_old,new‖² = (c s / v)² n min(1, r/b).

Without old parts M_new is too large; with them, old and new coordinates are mixed up. c and s are those for which M is
most like a multiple of I: (tr M)² / tr M² is largest. U and V are learned as in rotation.py: for given codes both have
their Procrustes solution.
"""

import numpy as np
from numpy.typing import NDArray

from isch import progress
from isch.compute import Stage, single_threaded_blas
from isch.hashing import rotation
from isch.hashing.rotation import Matrix, Rotation, correlate, procrustes

FIRST = 64  # bits of the first level
TOLERANCE = 1e-6  # least gain of a round, as a share
ANGLES = np.linspace(0, np.pi / 2, 181)  # whose cosine c and sine s are tried
NOISE = 1e-9  # of the variance of a bit so far: less is none


def levels(n_bits: int) -> list[int]:
    """The lengths at which a nested code ends well: 64, 128, 256, … and ``n_bits``."""
    doubled = [FIRST << i for i in range(max(1, n_bits // FIRST).bit_length()) if FIRST << i < n_bits]
    return [*doubled, n_bits]


def learn(Z: Matrix, n_iter: int, rng: np.random.Generator, n_bits: int, label: str = "rotation") -> Rotation:
    """R (r, ``n_bits``) for coordinates Z (n, r) of largest variance first; the errors of all levels one by one."""
    variances = np.einsum("ij,ij->j", Z, Z, dtype=np.float64) / len(Z)
    matrix, errors = np.zeros((Z.shape[1], n_bits)), list[float]()
    bits = 0
    for level in levels(n_bits):
        old, all_of_it = min(bits, Z.shape[1]), min(level, Z.shape[1])
        turning = mix(variances[:old], variances[old:all_of_it], bits, level - bits)
        part = _learn_level(np.ascontiguousarray(Z[:, :all_of_it]), old, level - bits, turning, n_iter, rng, label)
        matrix[:all_of_it, bits:level] = part.matrix
        errors += part.errors
        bits = level
    return Rotation(matrix, errors)


def work(n_rows: int, rank: int, n_bits: int, n_iter: int, label: str = "rotation") -> list[Stage]:
    """What ``learn`` costs: a rotation per level, of all coordinates so far."""
    ends = levels(n_bits)
    return [
        stage
        for start, end in zip([0, *ends], ends, strict=False)
        for stage in rotation.work(n_rows, min(end, rank), end - start, n_iter, label)
    ]


def mix(old: NDArray[np.float64], new: NDArray[np.float64], n_old: int, n_new: int) -> tuple[float, float]:
    """(c, s) for coordinates of these variances, ``n_old`` bits so far and ``n_new`` to come."""
    if not len(old):
        return 0.0, 1.0
    if not len(new):
        return 1.0, 0.0
    r, n, b = len(old), len(new), n_new
    per_bit = max(float(old.sum()) / n_old, np.finfo(float).tiny)
    c2 = np.cos(ANGLES) ** 2
    s2 = 1 - c2
    v = c2 * per_bit * n_old / max(b, r) + s2 * max(float(new.sum()) / b, NOISE * per_bit)
    on_old, on_new = 1 / per_bit + c2 * min(1, b / r) / v, s2 / v
    trace = r * on_old + n * on_new
    squares = r * on_old**2 + n * on_new**2 + 2 * c2 * s2 / v**2 * n * min(1, r / b)
    best = int(np.argmax(trace**2 / squares))
    return float(np.sqrt(c2[best])), float(np.sqrt(s2[best]))


def _learn_level(
    Z: Matrix,
    old: int,
    n_bits: int,
    turning: tuple[float, float],
    n_iter: int,
    rng: np.random.Generator,
    label: str,
) -> Rotation:
    """The columns of one level, for the first ``old`` coordinates and the others."""
    weights = np.repeat(turning, (old, Z.shape[1] - old))[:, None]
    parts = [part for part in (slice(0, old), slice(old, Z.shape[1])) if part.stop > part.start]
    bases = [_basis(part.stop - part.start, n_bits, rng) for part in parts]
    R = weights * np.concatenate([basis @ rotation.random(basis.shape[1], rng, n_bits) for basis in bases])
    gram, total = Z.T.astype(np.float64) @ Z, Z.sum(axis=0, dtype=np.float64)
    size, gains, errors = len(Z) * n_bits, list[float](), list[float]()
    with single_threaded_blas(), progress.task(label, n_iter, "iterations") as advance:
        for _ in range(n_iter):
            BtZ = correlate(Z, R, total)
            gains.append(float(np.sum(BtZ.T * R)))
            errors.append((float(np.sum(R * (gram @ R))) + size - 2 * gains[-1]) / size)
            solved = (basis @ procrustes(BtZ[:, part] @ basis) for part, basis in zip(parts, bases, strict=True))
            R = weights * np.concatenate(list(solved))
            advance(1)
            if len(gains) > 1 and gains[-1] - gains[-2] < TOLERANCE * gains[-1]:
                break
    return Rotation(R, errors)


def _basis(n_coordinates: int, n_bits: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The directions that bits may use: all, or as many as there are bits, chosen at random (not the strongest)."""
    return np.eye(n_coordinates) if n_coordinates <= n_bits else rotation.random(n_coordinates, rng, n_bits)
