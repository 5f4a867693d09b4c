import numpy as np
import pytest
from scipy.sparse import csr_array

from isch import features
from isch.fitting import Fit
from isch.hashing import dictionary
from isch.hashing.dictionary import Tree

RNG = np.random.default_rng(0)
X = (RNG.standard_normal((40, 30))[RNG.integers(0, 40, 3000)] * 3 + RNG.standard_normal((3000, 30))).astype(np.float32)
X -= X.mean(axis=0)


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def test_flat_atoms_have_unit_length() -> None:
    atoms = dictionary.flat(X, 60, 10, rng())
    assert atoms.shape == (60, 30)
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=1), 1, atol=1e-6)


def test_flat_atoms_of_centred_data_are_linearly_dependent() -> None:
    from isch import kmeans

    centres, labels = kmeans.fit(X, 25, 10, rng())
    lengths = np.linalg.norm(centres, axis=1)
    atoms = dictionary.normalise(centres)
    relation = (np.bincount(labels) * lengths) @ atoms
    assert np.abs(relation).max() < 1e-4 * len(X)
    assert np.linalg.matrix_rank(atoms, tol=1e-4) == 24


def test_atoms_without_direction_are_dropped() -> None:
    atoms = dictionary.normalise(np.array([[3, 4], [0, 0], [1e-12, 0]], np.float32))
    np.testing.assert_allclose(atoms, [[0.6, 0.8]])
    assert dictionary.normalise(np.zeros((2, 3), np.float32)).shape == (0, 3)


def test_atoms_that_are_equal_up_to_rounding_are_one() -> None:
    last_digit = np.nextafter(np.float32(4), np.float32(5))
    atoms = dictionary.normalise(np.array([[3, 4], [3, last_digit], [0, 2], [6, 8], [-3, -4]], np.float32))
    np.testing.assert_allclose(atoms, [[0.6, 0.8], [0, 1], [-0.6, -0.8]])


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_hierarchical_atoms_are_means_in_the_original_space(kind: type) -> None:
    tree = Tree(n_branches=4, n_levels=2, projection_dim=10, min_split=None)
    source, mean = features.open(kind(X)), np.zeros(30)
    atoms = dictionary.hierarchical(source, mean, tree, 10, run=Fit(rng()))
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=1), 1, atol=1e-5)
    assert len(atoms) == 4 + 4 * 8
    levels = dictionary.clusters(source, mean, tree, 10, run=Fit(rng()))
    for level, part in zip(levels, np.split(atoms, [4]), strict=True):
        plain = np.stack([X[level == c].mean(axis=0) for c in range(level.max() + 1)])
        np.testing.assert_allclose(part, plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-4)


def test_a_cluster_below_the_threshold_is_one_atom_only() -> None:
    tree = Tree(n_branches=6, n_levels=2, projection_dim=10, min_split=100_000)
    assert len(dictionary.hierarchical(features.open(X), np.zeros(30), tree, 5, run=Fit(rng()))) == 6


def test_three_levels() -> None:
    tree = Tree(n_branches=2, n_levels=3, projection_dim=8, min_split=None)
    atoms = dictionary.hierarchical(features.open(X), np.zeros(30), tree, 5, run=Fit(rng()))
    assert len(atoms) == dictionary.tree_size(2, 3) == 2 + 2 * 4 + 2 * 4 * 8


@pytest.mark.parametrize(("d", "k1"), [(25_600, 128), (105_000, 256), (64_000, 200)])
def test_default_size_is_near_the_papers(d: int, k1: int) -> None:
    branches = dictionary.branches_for(d, 10**9, 2)
    assert abs(branches - k1) <= 1
    assert dictionary.tree_size(k1, 2) == k1 * (1 + 2 * k1)
    assert dictionary.tree_size(branches, 2) > d


def test_few_rows_bound_the_tree() -> None:
    assert dictionary.tree_size(dictionary.branches_for(25_600, 1000, 2), 2) < 1000
