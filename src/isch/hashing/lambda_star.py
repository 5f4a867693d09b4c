"""The λ* of ISCH from rows without labels: f(λ) = √λ / (λ + λ*) decides which directions count.

Three estimates that err on different data, and their geometric mean (docs/methods.md shows how they fare):

* the eigenvalue that the spectrum as a whole suggests (``spectrum.level``), where no direction is singled out;
* ``separating`` rows that belong together from strangers, as far as m bits can tell, for small groups of rows;
* the same for large groups.

"Belong together" is what random walks on a graph of nearest neighbours say: short walks stay in small groups, long ones
reach all of a large one. It would be circular to judge a direction by neighbours that were found with its help. So
every second direction is judged by the neighbours along the others.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from isch.compute import Stage, n_threads
from isch.hashing import neighbours, spectrum
from isch.hashing.neighbours import Matrix
from isch.hashing.spectrum import Spectrum, Vector

LEAST_ROWS = 100  # fewer have no neighbourhoods to speak of
SAMPLE_ROWS = 10_000
WIDTH = 512  # directions in which neighbours are looked for
STEPS = (8, 32)  # of short and of long walks
TRIED = np.exp2(np.arange(-5, 5.25, 0.25))  # λ*, in units of the spectrum's level


def choose(Z: Matrix, pairs: Spectrum, n_bits: int) -> float:
    """λ* for codes of ``n_bits`` bits.

    Parameters
    ----------
    Z : array (n, p)
        Centred sample rows in the coordinates of the eigenvectors: first those of ``pairs``, then any further ones.
    pairs : Spectrum
        The eigenpairs that codes will use.
    n_bits : int
        Bits per code.

    Returns
    -------
    float
        A power of 2^¼, coarse enough that rounding elsewhere does not change it. For very few rows, equal rows or a
        single direction: the level of the spectrum.
    """
    r, variances = len(pairs.eigenvalues), Z.var(axis=0, dtype=np.float64)
    if len(Z) < LEAST_ROWS or r < 2 or not variances[:r].any():
        return pairs.level
    separated = (separating(pairs, variances[:r], shared, n_bits) for shared in _shared(Z, variances, r))
    return float(2 ** (round(4 * np.mean(np.log2([pairs.level, *separated]))) / 4))


def work(n_rows: int, width: int, rank: int) -> list[Stage]:
    """What ``choose`` costs for n rows in ``width`` directions, of which codes use ``rank``."""
    n = min(n_rows, SAMPLE_ROWS)
    held = 4 * n * (4 * width + 2 * neighbours.SCORED_ROWS * n_threads())  # four matrices, and distances per thread
    graph = Stage("neighbours", 1.0 * n**2 * min(width, WIDTH), memory=held, moved=4.0 * n**2)
    counts = min(rank, WIDTH) // 2, rank - min(rank, WIDTH) // 2  # columns that are judged by one graph and the other
    walks = [replace(neighbours.walk_work(n, count, STEPS[-1]), memory=held) for count in counts]
    return [graph, walks[0], graph, walks[1]]


def _shared(Z: Matrix, variances: Vector, r: int) -> NDArray[np.float64]:
    """The shared variance of the first r directions for each number of STEPS, (steps, r)."""
    strongest = np.argsort(-variances, kind="stable")[:WIDTH]
    judged = np.isin(np.arange(r), strongest[::2])  # by the neighbours along the other half
    out = np.empty((len(STEPS), r))
    for along, columns in ((strongest[1::2], judged), (strongest[::2], ~judged)):
        graph = neighbours.nearest_graph(np.ascontiguousarray(Z[:, along]))
        out[:, columns] = neighbours.shared_variance(graph, np.ascontiguousarray(Z[:, :r][:, columns]), STEPS)
    return out


def separating(pairs: Spectrum, variances: Vector, shared: Vector, n_bits: int) -> float:
    """The λ* that best separates the squared distances of rows that belong together from those of strangers."""
    tried = pairs.level * TRIED
    return float(max(tried, key=lambda star: separation(pairs.eigenvalues, variances, shared, n_bits, star)))


def separation(eigenvalues: Vector, variances: Vector, shared: Vector, n_bits: int, lambda_star: float) -> float:
    """The difference of the two mean squared distances, over their standard deviation.

    Along a direction with variance v, of which s is shared, the coordinates of two strangers differ by N(0, 2v), those
    of rows that belong together by N(0, 2(v − s)). The distance of m-bit codes adds noise: the angle between two
    strangers varies by π²/4m when all m bits are independent, of which 1/m is there without rounding to bits.
    """
    squares = spectrum.weights(eigenvalues, lambda_star) ** 2
    apart = 2 * squares @ shared
    spread = 4 * squares**2 @ (variances**2 + np.maximum(variances - shared, 0) ** 2)
    rounding = 4 * (squares @ variances) ** 2 * (math.pi**2 / 4 - 1) / n_bits
    return float(apart / math.sqrt(spread + rounding))
