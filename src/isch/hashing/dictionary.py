"""Step 1 of ISCH: the overcomplete dictionary D, learned by k-means (the paper's section "Implementation details").

D is stored transposed: ``atoms`` is (k, d), one atom of unit length per row.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isch import compute, fitting, progress
from isch.compute import memory
from isch.errors import InputError, warn
from isch.features import Block, Features, dense
from isch.fitting import ARRAY, ARRAYS, Run, Size, Sized, Stage, step
from isch.lazy import Lazy, issparse, sparse

if TYPE_CHECKING:
    from isch import kmeans
else:
    kmeans = Lazy("isch.kmeans")

Atoms = NDArray[np.float32]

FLAT_LIMIT = 4096  # features up to which the dictionary comes from one flat k-means
FEW_ROWS = 1024  # rows up to which it does in any dimension: a tree would have too few clusters for long codes
KMEANS_ITERATIONS = 10
SLAB_ROWS = 1024  # of a dictionary, which may lie in a file, handled at once
ROUNDING = 1e-5  # atoms that differ by less are one: each is a sum of up to thousands of rows in single precision
OVERCOMPLETE = 1.25  # atoms per dimension in a hierarchical dictionary, as in the paper's experiments


@dataclass(frozen=True)
class Flat:
    """A dictionary of one k-means."""

    n_atoms: int  # k


@dataclass(frozen=True)
class Tree:
    """How a hierarchical dictionary grows: each level splits a cluster into twice as many as the level above."""

    n_branches: int  # k_1; level h splits into 2^(h-1) k_1
    n_levels: int = 2  # H
    projection_dim: int = 256  # d_ℓ, the dimension in which rows are clustered
    min_split: int | None = None  # clusters with fewer rows are not split; None: fewer rows than parts


Form = Flat | Tree


@dataclass(frozen=True)
class Dictionary:
    """D, as learned."""

    atoms: Atoms  # Dᵀ (k, d)
    kind: str
    asked: int  # atoms that were asked for

    def learned(self) -> dict[str, Any]:
        """Return the attributes that a method keeps of it."""
        return {
            "dictionary_": self.atoms,
            "dictionary_kind_": self.kind,
            "n_atoms_asked_": self.asked,
            "n_atoms_": len(self.atoms),
        }


def kind_of(asked: str, shape: tuple[int, int]) -> str:
    """Choose between "flat" and "hierarchical" for a sample of this shape, unless one is asked for."""
    if asked != "auto":
        return asked
    return "flat" if shape[1] <= FLAT_LIMIT or shape[0] <= FEW_ROWS else "hierarchical"


def learn(run: Run, sample: Features, mean: NDArray[np.float64], form: Form) -> Dictionary:
    """Learn D from a sample, with a warning when it is not overcomplete."""
    if isinstance(form, Flat):
        asked = form.n_atoms
        atoms = run(learn_flat, sample, mean, min(asked, len(sample)), KMEANS_ITERATIONS)
    else:
        asked = tree_size(form.n_branches, form.n_levels)
        atoms = run(hierarchical, sample, mean, form, KMEANS_ITERATIONS)
    run(check, atoms, asked, sample)
    return Dictionary(atoms, "flat" if isinstance(form, Flat) else "hierarchical", asked)


def _kmeans_cost(X: NDArray[np.float32], n_atoms: int, n_iter: int) -> Stage:
    """k-means in the original space."""
    s, d = X.shape
    held = 3 * 4 * n_atoms * d + 4 * compute.n_threads() * compute.block_rows(d) * n_atoms
    return Stage(products=kmeans_flops(s, d, n_atoms, n_iter), memory=held, moved=n_iter * s * (4.0 * n_atoms + 8 * d))


def kmeans_flops(n_rows: int, n_features: int, n_clusters: int, n_iter: int) -> float:
    """Of products: each row with each centre, in each iteration."""
    return 2.0 * n_rows * n_features * n_clusters * n_iter


@step("k-means", cost=_kmeans_cost, gives=lambda X, n_atoms, n_iter: Sized((n_atoms, X.shape[1])), random=True)
def flat(X: NDArray[np.float32], n_atoms: int, n_iter: int, rng: np.random.Generator) -> Atoms:
    """The k-means centres of centred rows. May scale the rows in place."""
    centres, _ = kmeans.fit(unit_scale(X), n_atoms, n_iter, rng)
    return normalise(centres)


@step("atoms", kept=ARRAY, shared=True)
def learn_flat(features: Features, mean: NDArray[np.float64], n_atoms: int, n_iter: int, *, run: Run) -> Atoms:
    """Learn a flat dictionary: k-means of all rows, which are loaded for it."""
    return run(flat, run(fitting.load, features, mean), n_atoms, n_iter)


@step("tree", shared=True)
def hierarchical(features: Features, mean: NDArray[np.float64], tree: Tree, n_iter: int, *, run: Run) -> Atoms:
    """The centres of all levels of a hierarchical k-means.

    Each level clusters a new random projection of the rows. The atom of a cluster is the mean of its rows in the
    original space.
    """
    levels = run(clusters, features, mean, tree, n_iter)
    return run(atoms_of, features, mean, levels, tree)


@step("clusters", kept=ARRAYS)
def clusters(
    features: Features, mean: NDArray[np.float64], tree: Tree, n_iter: int, *, run: Run
) -> tuple[NDArray[np.intp], ...]:
    """Find the label of every row at each level. A cluster that is not split stays one cluster at the next level."""
    Y = run(proxies, features, mean, tree)
    levels = [run(first_level, Y[0], tree, n_iter)]
    for h in range(1, tree.n_levels):
        split = further_level.named(f"splitting, level {h + 1}")
        levels.append(run(split, Y[h], levels[-1], tree, h, n_iter))
    return tuple(levels)


def _level_cost(Y: NDArray[np.float32], tree: Tree, h: int, n_iter: int) -> Stage:
    """About the same work at each level, of twice as many parts; the proxies of all levels are in memory."""
    s, width = Y.shape
    products = kmeans_flops(s, width, tree.n_branches, n_iter) * 2**h
    return Stage(products=products, memory=4 * s * width * (tree.n_levels + 1), moved=8.0 * s * width * n_iter)


@step(
    "k-means",
    cost=lambda Y, tree, n_iter: _level_cost(Y, tree, 0, n_iter),
    gives=lambda Y, tree, n_iter: Sized((len(Y),), np.intp),
    random=True,
)
def first_level(Y: NDArray[np.float32], tree: Tree, n_iter: int, *, rng: np.random.Generator) -> NDArray[np.intp]:
    """Divide all rows into k_1 clusters."""
    return kmeans.fit(Y, min(tree.n_branches, len(Y)), n_iter, rng)[1]


@step(
    "splitting",
    cost=lambda Y, above, tree, h, n_iter: _level_cost(Y, tree, h, n_iter),
    gives=lambda Y, above, tree, h, n_iter: above,
    random=True,
)
def further_level(
    Y: NDArray[np.float32], above: NDArray[np.intp], tree: Tree, h: int, n_iter: int, *, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Split the clusters of the level above."""
    parts = tree.n_branches * 2**h
    threshold = max(tree.min_split or parts, parts)
    labels = np.empty_like(above)
    n_labels = 0
    with progress.task("", int(above.max()) + 1, "clusters") as advance:
        for members in _members(above):
            split = kmeans.fit(Y[members], parts, n_iter, rng)[1] if len(members) >= threshold else 0
            labels[members] = n_labels + split
            n_labels = int(labels[members].max()) + 1
            advance(1)
    return labels


def _n_atoms(features: Features, tree: Tree) -> int:
    """At most: there are no more leaves than rows, and no more parents than leaves."""
    return min(tree_size(tree.n_branches, tree.n_levels), 2 * len(features))


def _atoms_cost(features: Features, mean: NDArray[np.float64], levels: Any, tree: Tree) -> Stage:
    size = Size.of(features)
    n_atoms = _n_atoms(features, tree)
    sums = 4 * compute.n_threads() * compute.block_rows(size.columns) * size.columns
    added = 48.0 * size.rows * size.columns + 72.0 * n_atoms * size.columns
    return Stage(read=size.bytes(), array=4 * n_atoms * size.columns, memory=sums, moved=added)


@step(
    "atoms",
    cost=_atoms_cost,
    gives=lambda features, mean, levels, tree: Sized((_n_atoms(features, tree), features.shape[1])),
    kept=ARRAY,
)
def atoms_of(features: Features, mean: NDArray[np.float64], levels: tuple[NDArray[np.intp], ...], tree: Tree) -> Atoms:
    """The atoms of the clusters that are split, level by level, then those of the leaves."""
    leaves = levels[-1]
    families = [_families(leaves, level) for level in levels[:-1]]
    borders = np.cumsum([0, *(family.max() + 1 for family in families), leaves.max() + 1])
    atoms = memory.zeros((borders[-1], features.shape[1]), np.float32)
    *parents, sums = (atoms[start:stop] for start, stop in pairwise(borders))
    _add_up(features, mean, leaves, sums)
    for family, merged in zip(families, parents, strict=True):
        _merge(sums, family, merged)
    return normalise(atoms)


@step(gives=lambda atoms, asked, features: None)
def check(atoms: Atoms, asked: int, features: Features) -> None:
    """Refuse an empty dictionary, and warn of one that is not overcomplete."""
    d = features.shape[1]
    if len(atoms) == 0:
        raise InputError(f"{features.where}: all rows are equal; expected data that varies")
    if len(atoms) <= d:
        warn(
            f"the dictionary has {len(atoms)} atoms for {d} dimensions and is not overcomplete"
            + ("; more rows would help" if len(atoms) < asked else "")
        )


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


def _proxies_cost(features: Features, mean: NDArray[np.float64], tree: Tree) -> Stage:
    size = Size.of(features)
    width = min(tree.projection_dim, size.columns) * tree.n_levels
    return Stage(
        products=2.0 * size.rows * size.columns * width,
        read=size.bytes(),
        array=4 * size.rows * width,
        memory=8 * size.columns * width,
    )


def _proxies_sizes(features: Features, mean: NDArray[np.float64], tree: Tree) -> list[Sized]:
    return [Sized((len(features), min(tree.projection_dim, features.shape[1])))] * tree.n_levels


@step("proxies", cost=_proxies_cost, gives=_proxies_sizes, random=True)
def proxies(
    features: Features, mean: NDArray[np.float64], tree: Tree, *, rng: np.random.Generator
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

    def block(self, block: Block, _: int) -> NDArray[np.float32]:
        return compute.times(block, self.P) - self.offset


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
