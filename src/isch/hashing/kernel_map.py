"""The diffusion kernel, and the linear map whose inner products come closest to it.

Let k(i, j) be a kernel that says how alike two rows are. The linear map L that follows it best minimises

    E[(k(i, j) − ⟨L x_i, L x_j⟩)²] = tr(M C M C) − 2 tr(M K) + …,   M = Lᵀ L,  C = E[x xᵀ],  K = E[k(i, j) x_i x_jᵀ],

so M = C⁻¹ K C⁻¹. The k of ISCH is the inner product of sparse codes. Its model makes C and K functions of D Dᵀ, so that
M = V f(λ)² Vᵀ. This finds small groups well, but the best λ* depends on the size of groups, which nobody knows.

Here the map of ISCH, with λ* at the level of the spectrum, finds neighbours, and k comes from random walks among them:
k(i, j) = P⁴(i, j) / π_j says how many times likelier four steps from i end in j than a long walk does. Rows count by π,
their share of a long walk. P is reversible, so K is the covariance of P² x: of rows that are averaged twice over their
neighbours. As in the paper, x has noise, which adds ρ I to C. The M of ISCH is added, the more so the longer the code,
because it knows the finer differences. The kernel counts less where it explains little: among rows without groups it
means nothing. Of the values M^½ x, the principal components are kept.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from isch import progress
from isch.compute import n_threads, single_threaded_blas
from isch.fitting import EIGH_FLOPS, Run, Sized, Stage, step
from isch.hashing import knn_graph, pca, spectrum
from isch.hashing.blocks import Directions, split_bits
from isch.hashing.isch import f
from isch.hashing.knn_graph import Graph, Matrix
from isch.hashing.spectrum import Spectrum, Vector, slices
from isch.lazy import linalg

LEAST_ROWS = 100  # below this, a neighbour graph is too sparse to be useful
SAMPLE_ROWS = 10_000
WIDTH = 512  # directions in which neighbours are looked for
AVERAGED = 2  # times: half of the steps of a walk
NOISE = 2.0  # ρ, in units of the mean variance of the strongest WIDTH directions
EXTREME = 8.0  # times the variance that a tenth of the directions exceed: the most that one direction adds to that mean
LEAST_NOISE = 1e-8  # of the largest variance, where few directions vary at all
PAPER_BITS = 1024  # from which on the paper's map counts as much as walks; shorter codes tell fewer details apart
WEAK = 0.5  # walks that explain as little as this, half a direction, count half
TOGETHER = 2048  # eigenvectors in a group
SLAB_ROWS = 1024

Square = NDArray[np.float64]


def grouped(run: Run, pairs: Spectrum) -> Spectrum:
    """Split the eigenpairs among groups that can be decomposed in reasonable time; sampled blocks stay as they are."""
    few = len(pairs.eigenvalues) <= TOGETHER or len(pairs.sizes) > 1
    return pairs if few else run(spectrum.interleaved, pairs, math.ceil(len(pairs.eigenvalues) / TOGETHER))


def directions(run: Run, Z: Matrix, pairs: Spectrum, n_bits: int, n_blocks: int) -> Directions:
    """W for codes of ``n_bits`` bits.

    Parameters
    ----------
    Z : array (n, r)
        Centred sample rows in the coordinates of the eigenvectors of ``pairs``.
    pairs : Spectrum
        The eigenpairs, ``grouped``. Each group gives directions of its own.
    n_bits : int
        Bits per code: as many directions, if there are as many eigenvectors.
    n_blocks : int
        Blocks of the rotation, which take the directions in turn, strongest first. Sampled groups are blocks.

    Returns
    -------
    Directions
        Those of the paper's map, with λ* at the level of the spectrum, where rows are few or all alike.
    """
    n_groups = len(pairs.sizes)
    counts = [min(len(part), size) for part, size in zip(split_bits(n_bits, n_groups), pairs.sizes, strict=True)]
    sampled = n_groups == n_blocks
    blocks = slices(counts if sampled else [len(part) for part in split_bits(sum(counts), n_blocks)])
    learned = maps(run, Z, pairs, counts, n_bits, 1 if sampled else n_groups)
    return Directions(run(mapped, pairs, learned, blocks), blocks)


@step(gives=lambda pairs, learned, blocks: Sized((len(pairs.eigenvectors), blocks[-1].stop)))
def mapped(pairs: Spectrum, learned: list[Matrix], blocks: list[slice]) -> Matrix:
    """W: the eigenvectors times the map of each group, interleaved among the blocks."""
    n_groups, n_blocks = len(pairs.sizes), len(blocks)
    starts = np.array([block.start for block in blocks])
    W = np.empty((len(pairs.eigenvectors), blocks[-1].stop), np.float32)
    for number, (group, found) in enumerate(zip(pairs.blocks, learned, strict=True)):
        turn = np.arange(found.shape[1]) * n_groups + number
        into = starts[turn % n_blocks] + turn // n_blocks
        for rows in (slice(start, start + SLAB_ROWS) for start in range(0, len(W), SLAB_ROWS)):
            W[rows, into] = pairs.eigenvectors[rows, group] @ found
    return W


def maps(run: Run, Z: Matrix, pairs: Spectrum, counts: Sequence[int], n_bits: int, n_alike: int = 1) -> list[Matrix]:
    """Of each group, from the coordinates of its eigenvectors to ``count`` new ones, strongest first (r, count).

    ``n_alike`` groups split the directions evenly, so each is assumed to explain the same share of the kernel.
    """
    if len(Z) < LEAST_ROWS or not run(any_varies, Z):
        return run(paper_maps, pairs, counts)
    return run(kernel_maps, run(graph_of, Z, pairs), Z, pairs, counts, n_bits, n_alike)


@step(gives=lambda Z: True)
def any_varies(Z: Matrix) -> bool:
    """Whether rows differ at all."""
    return bool(variances(Z).any())


def _map_sizes(pairs: Spectrum, counts: Sequence[int]) -> list[Sized]:
    return [Sized(both) for both in zip(pairs.sizes, counts, strict=True)]


@step(gives=_map_sizes)
def paper_maps(pairs: Spectrum, counts: Sequence[int]) -> list[Matrix]:
    """The paper's map, with λ* at the level of the spectrum."""
    weights = f(pairs.eigenvalues, pairs.level)
    groups = zip(pairs.blocks, counts, strict=True)
    return [np.diag(weights[group]).astype(np.float32)[:, :count] for group, count in groups]


def _graph_cost(Z: Matrix, pairs: Spectrum) -> Stage:
    n, rank = Z.shape
    width = min(rank, WIDTH)
    compared = 4 * n * (2 * rank + width + 2 * knn_graph.SCORED_ROWS * n_threads())
    return Stage(products=2.0 * n**2 * width, memory=compared, moved=4.0 * n**2)


@step("neighbours", cost=_graph_cost, gives=lambda Z, pairs: None)
def graph_of(Z: Matrix, pairs: Spectrum) -> Graph:
    """The graph of neighbours by the paper's map, in the directions that vary most."""
    weights = f(pairs.eigenvalues, pairs.level)
    return knn_graph.nearest_graph(strongest(Z * weights.astype(np.float32)))


def _kernel_cost(graph: Graph, Z: Matrix, pairs: Spectrum, counts: Sequence[int], n_bits: int, n_alike: int) -> Stage:
    n, rank = Z.shape
    n_groups = len(counts)
    size = rank / n_groups
    return Stage(
        # in double precision, covariances by their halves
        products=n_groups * (4.0 * n * size**2 + 16.0 * size**3),
        solving=n_groups * (2 * EIGH_FLOPS + 5.0) * size**3,
        memory=4 * n * (rank + 3 * size) + 8 * (SLAB_ROWS * size + 8 * size**2),
        moved=AVERAGED * 2.0 * knn_graph.count(n) * n * 4 * rank,
    )


@step(
    "what belongs together",
    cost=_kernel_cost,
    gives=lambda graph, Z, pairs, counts, n_bits, n_alike: _map_sizes(pairs, counts),
)
def kernel_maps(
    graph: Graph, Z: Matrix, pairs: Spectrum, counts: Sequence[int], n_bits: int, n_alike: int
) -> list[Matrix]:
    """The map of each group for what walks on the graph say."""
    weights = f(pairs.eigenvalues, pairs.level)
    noise = noise_of(variances(Z))
    found = list[Matrix]()
    with single_threaded_blas(), progress.task("", len(counts), "groups") as advance:
        for group, count in zip(pairs.blocks, counts, strict=True):
            C, K = moments(graph, Z[:, group])
            of_kernel, explained_energy = kernel_solution(C, K, noise)
            M = reliability(n_alike * explained_energy) * scaled(of_kernel, C)
            M += min(1.0, n_bits / PAPER_BITS) * scaled(np.diag(weights[group] ** 2), C)
            found.append(components(M, C, count))
            advance(1)
    return found


def variances(Z: Matrix) -> Vector:
    """Of each column, without a copy of all of them in double precision."""
    return np.concatenate([Z[:, i : i + 64].var(axis=0, dtype=np.float64) for i in range(0, Z.shape[1], 64)])


def noise_of(spread: Vector) -> float:
    """ρ from the variances of all directions; a few that exceed most others by far count less."""
    strong = np.sort(spread)[::-1][:WIDTH]
    usual = np.minimum(strong, EXTREME * np.quantile(strong, 0.9)).mean()
    return float(max(NOISE * usual, LEAST_NOISE * strong[0]))


def strongest(Z: Matrix) -> Matrix:
    """The WIDTH columns that vary most."""
    order = np.argsort(-variances(Z), kind="stable")[:WIDTH]
    return np.ascontiguousarray(Z[:, np.sort(order)])


def moments(graph: Graph, Z: Matrix) -> tuple[Square, Square]:
    """(C, K): the covariances of rows, and of rows averaged over their neighbours; each row by its share of walks."""
    shares = graph.degrees / graph.degrees.sum()
    rows = Z - shares @ Z
    means = rows
    for _ in range(AVERAGED):
        means = graph.transitions @ means
    roots, size = np.sqrt(shares, dtype=np.float64)[:, None], Z.shape[1]
    C, K = np.zeros((size, size)), np.zeros((size, size))
    for part in (slice(start, start + SLAB_ROWS) for start in range(0, len(Z), SLAB_ROWS)):
        for total, values in ((C, rows), (K, means)):
            weighed = roots[part] * values[part]
            total += weighed.T @ weighed
    return C, K


def kernel_solution(C: Square, K: Square, noise: float) -> tuple[Square, float]:
    """(M = (C + ρ I)⁻¹ K (C + ρ I)⁻¹, what it explains of E[k²]: Σ e²), with e the eigenvalues of (C + ρ I)⁻¹ K.

    Along one direction e is the correlation between both ends of a walk, with noise in both.
    """
    noisy = C + noise * np.eye(len(C))
    half = linalg.solve(noisy, K, assume_a="pos")
    M = linalg.solve(noisy, half.T, assume_a="pos")
    return np.asarray(M + M.T) / 2, float(np.sum(half * half.T))


def reliability(explained_energy: float) -> float:
    """The weight of walks: 0 where they explain nothing, ½ at WEAK, 1 where they explain much."""
    return explained_energy**2 / (explained_energy**2 + WEAK**2)


def scaled(M: Square, C: Square) -> Square:
    """M, scaled so that the values of rows have a mean square of 1."""
    return M / max(float(np.sum(M * C)), np.finfo(float).tiny)


def components(M: Square, C: Square, count: int) -> Matrix:
    """The ``count`` principal components of the values M^½ x, as a map of x (r, count)."""
    values, vectors = linalg.eigh(M)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    return np.asarray(root @ pca.leading(root @ C @ root, count)[0], np.float32)
