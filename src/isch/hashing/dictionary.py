"""Step 1 of ISCH: the overcomplete dictionary D, learned by k-means (the paper's section "Implementation details").

D is stored transposed: ``atoms`` is (k, d), one atom of unit length per row.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isch import compute, progress
from isch.compute import checkpoint, memory
from isch.features import Block, Features, dense
from isch.lazy import Lazy, issparse, sparse

if TYPE_CHECKING:
    from isch import kmeans
else:
    kmeans = Lazy("isch.kmeans")

Atoms = NDArray[np.float32]

SLAB_ROWS = 1024  # of a dictionary, which may lie in a file, handled at once
ROUNDING = 1e-5  # atoms that differ by less are one: each is a sum of up to thousands of rows in single precision
OVERCOMPLETE = 1.25  # atoms per dimension in a hierarchical dictionary, as in the paper's experiments


@dataclass(frozen=True)
class Tree:
    """How a hierarchical dictionary grows: each level splits a cluster into twice as many as the level above."""

    n_branches: int  # k_1; level h splits into 2^(h-1) k_1
    n_levels: int  # H
    projection_dim: int  # d_l, the dimension in which rows are clustered
    min_split: int | None  # clusters with fewer rows are not split; None: fewer rows than parts


def flat(X: NDArray[np.float32], n_atoms: int, n_iter: int, rng: np.random.Generator) -> Atoms:
    """The k-means centres of centred rows. May scale the rows in place."""
    centres, _ = kmeans.fit(unit_scale(X), n_atoms, n_iter, rng)
    return normalise(centres)


def flat_work(size: compute.Size, n_atoms: int, n_iter: int) -> list[compute.Stage]:
    """What loading s rows and ``flat`` cost: k-means in the original space."""
    s, d, _ = size
    products, moved = 2.0 * s * d * n_atoms * n_iter, n_iter * s * (4.0 * n_atoms + 8 * d)
    kept = 4 * n_atoms * d
    held = 3 * kept + 4 * compute.n_threads() * compute.block_rows(d) * n_atoms
    return [compute.load_work(size, s), compute.Stage("k-means", products, memory=held, kept=kept, moved=moved)]


def hierarchical(
    features: Features, mean: NDArray[np.float64], tree: Tree, n_iter: int, rng: np.random.Generator
) -> Atoms:
    """The centres of all levels of a hierarchical k-means.

    Each level clusters a new random projection of the rows. The atom of a cluster is the mean of its rows in the
    original space.
    """
    levels = checkpoint.stage(
        "clusters", rng, lambda: tuple(_cluster(_proxies(features, mean, tree, rng), tree, n_iter, rng))
    )
    leaves = levels[-1]
    families = [_families(leaves, level) for level in levels[:-1]]
    (atoms,) = checkpoint.stage("atoms", None, lambda: (_atoms(features, mean, leaves, families),))
    return atoms


def tree_work(size: compute.Size, tree: Tree, n_atoms: int, n_iter: int) -> list[compute.Stage]:
    """What ``hierarchical`` costs: a pass for the proxies, k-means on them level by level, a pass for the atoms."""
    s, d, _ = size
    width = min(tree.projection_dim, d)
    proxies, held = width * tree.n_levels, 4 * s * width * (tree.n_levels + 1)
    labels = ["k-means", *(f"splitting, level {h}" for h in range(2, tree.n_levels + 1))]
    once, moved = 2.0 * s * width * tree.n_branches * n_iter, 8.0 * s * width * n_iter
    array, drawn = 4 * s * proxies, 8 * d * proxies
    sums, added = 4 * compute.n_threads() * compute.block_rows(d) * d, 48.0 * s * d + 72.0 * n_atoms * d
    atoms = 4 * n_atoms * d
    return [
        compute.Stage("proxies", 2.0 * s * d * proxies, read=size.bytes(), array=array, memory=drawn),
        *(compute.Stage(label, once * 2**h, memory=held, moved=moved) for h, label in enumerate(labels)),
        compute.Stage("atoms", read=size.bytes(), array=atoms, memory=sums, kept=atoms, moved=added),
    ]


def _atoms(
    features: Features, mean: NDArray[np.float64], leaves: NDArray[np.intp], families: list[NDArray[np.intp]]
) -> Atoms:
    """The atoms of the clusters that are split, level by level, then those of the leaves."""
    borders = np.cumsum([0, *(family.max() + 1 for family in families), leaves.max() + 1])
    atoms = memory.zeros((borders[-1], features.shape[1]), np.float32)
    *parents, sums = (atoms[start:stop] for start, stop in pairwise(borders))
    _add_up(features, mean, leaves, sums)
    for family, merged in zip(families, parents, strict=True):
        _merge(sums, family, merged)
    return normalise(atoms)


def branches_for(n_features: int, n_rows: int, n_levels: int) -> int:
    """The k_1 whose full tree has OVERCOMPLETE atoms per dimension, or two rows per atom if there are few rows."""
    target = min(OVERCOMPLETE * n_features, n_rows / 2)
    branches = 1
    while tree_size(branches, n_levels) < target:
        branches += 1
    return branches


def tree_size(n_branches: int, n_levels: int) -> int:
    """The number of atoms of a full tree: k_1 + k_1 k_2 + …"""
    return sum(math.prod(n_branches * 2**h for h in range(level + 1)) for level in range(n_levels))


def normalise(centres: NDArray[np.float32]) -> Atoms:
    """The different atoms at unit length, but none that is zero up to rounding; takes the place of the centres."""
    norms = np.sqrt(np.einsum("ij,ij->i", centres, centres, dtype=np.float64))
    kept = np.flatnonzero(norms > np.finfo(np.float32).eps * norms.max(initial=0))
    for start in range(0, len(kept), SLAB_ROWS):
        some = kept[start : start + SLAB_ROWS]
        centres[start : start + len(some)] = centres[some] / norms[some, None]
    atoms = centres[: len(kept)]
    different = np.unique(kmeans.alike(atoms, ROUNDING))
    for start in range(0, len(different), SLAB_ROWS):
        some = different[start : start + SLAB_ROWS]
        atoms[start : start + len(some)] = atoms[some]
    return atoms[: len(different)]


def _proxies(
    features: Features, mean: NDArray[np.float64], tree: Tree, rng: np.random.Generator
) -> list[NDArray[np.float32]]:
    """Y_h = (X − μ) P_h for each level h, in one pass."""
    width = min(tree.projection_dim, features.shape[1])
    P = rng.standard_normal((features.shape[1], width * tree.n_levels), dtype=np.float32) / np.float32(math.sqrt(width))
    Y = memory.empty((len(features), P.shape[1]), np.float32)
    compute.collect(Proxies(P, (mean @ P).astype(np.float32)), features, Y)
    return [unit_scale(np.ascontiguousarray(part)) for part in np.split(Y, tree.n_levels, axis=1)]


def unit_scale(X: NDArray[np.float32]) -> NDArray[np.float32]:
    """Multiply X by a power of two in place, so that no square overflows or underflows; directions do not change."""
    largest = max(float(X.max()), -float(X.min()))
    X *= np.float32(2.0 ** -math.frexp(largest)[1])
    return X


@dataclass(frozen=True)
class Proxies(compute.Pass[NDArray[np.float32]]):
    """(x − μ) P of each row, given μ P."""

    P: NDArray[np.float32]
    offset: NDArray[np.float32]

    label = "proxies"

    def block(self, block: Block, _: int) -> NDArray[np.float32]:
        return compute.times(block, self.P) - self.offset


def _cluster(Y: list[NDArray[np.float32]], tree: Tree, n_iter: int, rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """The label of every row at each level. A cluster that is not split stays one cluster at the next level."""
    levels = [kmeans.fit(Y[0], min(tree.n_branches, len(Y[0])), n_iter, rng)[1]]
    for h in range(1, tree.n_levels):
        parts = tree.n_branches * 2**h
        threshold = max(tree.min_split or parts, parts)
        labels = np.empty_like(levels[-1])
        n_labels = 0
        with progress.task(f"splitting, level {h + 1}", int(levels[-1].max()) + 1, "clusters") as advance:
            for members in _members(levels[-1]):
                split = kmeans.fit(Y[h][members], parts, n_iter, rng)[1] if len(members) >= threshold else 0
                labels[members] = n_labels + split
                n_labels = int(labels[members].max()) + 1
                advance(1)
        levels.append(labels)
    return levels


def _members(labels: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """The rows of each label."""
    order = np.argsort(labels, kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(labels))[:-1])


def _add_up(features: Features, mean: NDArray[np.float64], labels: NDArray[np.intp], sums: NDArray[np.float32]) -> None:
    """Add the centred rows of each label to its row of ``sums``, in one pass."""
    for present, part in compute.iterate(ClusterSums(labels, mean.astype(np.float32)), features):
        sums[present] += part


@dataclass(frozen=True)
class ClusterSums(compute.Pass[tuple[NDArray[np.intp], NDArray[np.float32]]]):
    """(labels, the sum of the centred rows of each) of a block."""

    labels: NDArray[np.intp]
    mean: NDArray[np.float32]

    label = "atoms"

    def block(self, block: Block, start: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        n = block.shape[0]
        present, place = np.unique(self.labels[start : start + n], return_inverse=True)
        chosen = sparse.csr_array((np.ones(n, np.float32), (place, np.arange(n))), shape=(len(present), n))
        if issparse(block):
            return present, dense(chosen @ block) - chosen.sum(axis=1)[:, None] * self.mean
        return present, chosen @ (dense(block) - self.mean)


def _families(leaves: NDArray[np.intp], level: NDArray[np.intp]) -> NDArray[np.intp]:
    """For each leaf, the number of its cluster at a level among those that are split, or −1 if it is the cluster."""
    parent = np.zeros(leaves.max() + 1, np.intp)
    parent[leaves] = level
    split = np.bincount(parent)[parent] > 1
    family = np.full(len(parent), -1)
    family[split] = np.unique(parent[split], return_inverse=True)[1]
    return family


def _merge(sums: NDArray[np.float32], family: NDArray[np.intp], merged: NDArray[np.float32]) -> None:
    """Add the sums of leaves to those of the clusters above them."""
    for start in range(0, len(sums), SLAB_ROWS):
        some = family[start : start + SLAB_ROWS]
        np.add.at(merged, some[some >= 0], sums[start : start + SLAB_ROWS][some >= 0])
