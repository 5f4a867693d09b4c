"""The λ* of ISCH from rows without labels: f(λ) = √λ / (λ + λ*) decides which directions count.

Three estimates that err on different data, and their geometric mean (docs/methods.md shows how they fare):

* ``levelling`` treats the directions along which the data vary nearly alike, as ITQ does.
* ``separating`` moves rows that belong together away from strangers, as far as m bits can tell.
* ``retrieving`` gives codes that find what random walks reach.

"Belong together" is what random walks on a graph of nearest neighbours say. It would be circular to judge a direction
by neighbours that were found with its help. So every second direction is judged by the neighbours along the others.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from isch.compute import Stage, n_threads, single_threaded_blas
from isch.hashing import neighbours, rotation, spectrum
from isch.hashing.neighbours import Graph, Matrix
from isch.hashing.spectrum import Spectrum, Vector

LEAST_ROWS = 100  # fewer have no neighbourhoods to speak of
SAMPLE_ROWS = 10_000
WIDTH = 512  # directions in which neighbours are looked for
STARTS = 500  # rows whose walks are followed
REACHED = 100  # rows a walk should reach, at most a tenth of all
ROUNDS = 8  # of the rotation of a trial; the final one takes more
TRIALS = np.exp2(np.arange(1.0, 8.0))
FINE = np.exp2(np.arange(0.0, 8.25, 0.25))


def choose(Z: Matrix, pairs: Spectrum, n_bits: int, rng: np.random.Generator) -> float:
    """λ* for codes of ``n_bits`` bits.

    Parameters
    ----------
    Z : array (n, p)
        Centred sample rows in the coordinates of the eigenvectors: first those of ``pairs``, then any further ones.
    pairs : Spectrum
        The eigenpairs that codes will use.
    n_bits : int
        Bits per code.
    rng : Generator
        Draws the rows to start from and the first rotations.

    Returns
    -------
    float
        A power of 2^¼, coarse enough that rounding elsewhere does not change it. For very few rows, equal rows or a
        single direction: the typical eigenvalue.
    """
    r, variances = len(pairs.eigenvalues), Z.var(axis=0, dtype=np.float64)
    if len(Z) < LEAST_ROWS or r < 2 or not variances[:r].any():
        return pairs.typical
    strongest = np.argsort(-variances, kind="stable")[:WIDTH]
    odd, even = (neighbours.nearest_graph(np.ascontiguousarray(Z[:, strongest[first::2]])) for first in (0, 1))
    shared = neighbours.shared_variance(odd, Z)
    shared[strongest[::2]] = neighbours.shared_variance(even, Z[:, strongest[::2]])
    estimates = (
        levelling(pairs.eigenvalues, variances[:r]),
        separating(pairs.eigenvalues, variances[:r], shared[:r], n_bits),
        retrieving(Z, pairs, n_bits, neighbours.union([odd, even]), rng),
    )
    return float(2 ** (round(4 * np.mean(np.log2(estimates))) / 4))


def work(n_rows: int, width: int, rank: int, n_bits: int) -> list[Stage]:
    """What ``choose`` costs for n rows in ``width`` directions, of which a block of codes uses ``rank``."""
    n = min(n_rows, SAMPLE_ROWS)
    held = 4 * n * (4 * width + 6 * neighbours.BLOCK_ROWS * n_threads())  # four matrices, and distances per thread
    graph = Stage("neighbours", 1.0 * n**2 * min(width, WIDTH), memory=held, moved=4.0 * n**2)
    walks = [neighbours.walk_work(n, count) for count in (width, min(width, WIDTH) / 2, 2 * STARTS)]
    (turned,) = rotation.work(n, rank, n_bits, ROUNDS, "trying λ*")
    trial = replace(turned, products=turned.products + 2.0 * n * n_bits * (rank + STARTS), moved=80.0 * n * STARTS)
    return [graph, graph, *(replace(walk, memory=held) for walk in walks), *[trial] * len(TRIALS)]


def levelling(eigenvalues: Vector, variances: Vector) -> float:
    """The geometric mean of the eigenvalues, each weighted by the variance along its direction.

    f is symmetric about λ* on a logarithmic scale and flat there, so its weights are nearly alike where the data vary.
    """
    return float(np.exp(np.average(np.log(eigenvalues), weights=variances)))


def separating(eigenvalues: Vector, variances: Vector, shared: Vector, n_bits: int) -> float:
    """The λ* that best separates the squared distances of rows that belong together from those of strangers."""
    return float(max(FINE, key=lambda star: separation(eigenvalues, variances, shared, n_bits, star)))


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


def retrieving(Z: Matrix, pairs: Spectrum, n_bits: int, network: Graph, rng: np.random.Generator) -> float:
    """The λ* whose codes find most of what walks reach; those of one block stand for all."""
    n, block = len(Z), pairs.blocks[0]
    starts = np.sort(rng.permutation(n)[:STARTS])
    wanted = neighbours.reached_rows(network, starts, min(REACHED, n // 10))
    coordinates, eigenvalues = np.ascontiguousarray(Z[:, block]), pairs.eigenvalues[block]
    first = rotation.random(coordinates.shape[1], rng, math.ceil(n_bits / len(pairs.sizes)))
    scores = []
    for star in TRIALS:
        weighted = coordinates * spectrum.weights(eigenvalues, star).astype(np.float32)
        scores.append(found(_signs(weighted, first), starts, wanted))
    return peak(TRIALS, np.array(scores, np.float64))


def _signs(Z: Matrix, first: NDArray[np.float64]) -> NDArray[np.float32]:
    """±1 codes of the rows after a short search for a rotation."""
    energy = max(float(np.einsum("ij,ij->", Z, Z, dtype=np.float64)), np.finfo(np.float32).tiny)
    scale = np.float32(math.sqrt(len(Z) * first.shape[1] / energy))
    R = rotation.learn(Z * scale, ROUNDS, np.random.default_rng(0), first, label="trying λ*").matrix
    return np.where(Z @ R.astype(np.float32) >= 0, np.float32(1), np.float32(-1))


def found(codes: NDArray[np.float32], starts: NDArray[np.intp], wanted: NDArray[np.intp]) -> float:
    """The share of the wanted rows among twice as many rows with the nearest ±1 codes; ties in expectation."""
    n_parts = math.ceil(len(starts) / neighbours.BLOCK_ROWS)
    parts = zip(np.array_split(starts, n_parts), np.array_split(wanted, n_parts), strict=True)
    with single_threaded_blas():
        return sum(_hits(codes, *part) for part in parts) / wanted.size


def _hits(codes: NDArray[np.float32], starts: NDArray[np.intp], wanted: NDArray[np.intp]) -> float:
    """How many of the wanted rows are found for a few starts."""
    count = 2 * wanted.shape[1]
    distances = -(codes[starts] @ codes.T)
    distances[np.arange(len(starts)), starts] = np.inf
    edge = np.partition(distances, count - 1, axis=1)[:, count - 1, None]
    inside, tied = (distances < edge).sum(axis=1), (distances == edge).sum(axis=1)
    of_wanted = np.take_along_axis(distances, wanted, axis=1)
    hits = (of_wanted < edge).sum(axis=1) + (of_wanted == edge).sum(axis=1) * (count - inside) / tied
    return float(hits.sum())


def peak(positions: NDArray[np.float64], scores: NDArray[np.float64]) -> float:
    """Where the parabola through the best score and its two neighbours is highest, on a logarithmic scale."""
    best = int(scores.argmax())
    if best in (0, len(scores) - 1):
        return float(positions[best])
    left, middle, right = scores[best - 1 : best + 2]
    bend = left - 2 * middle + right
    step = math.log(positions[best + 1] / positions[best])
    return float(positions[best] * math.exp(step * (left - right) / (2 * bend) if bend else 0))
