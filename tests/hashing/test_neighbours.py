"""Graphs of nearest neighbours and walks on them, beside plain linear algebra."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from isch.hashing import neighbours


def rows(n: int = 300, d: int = 6, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def dense(graph: neighbours.Graph) -> NDArray[np.float64]:
    return np.asarray(graph.transitions.toarray(), np.float64)


def test_nearest_rows_are_those_of_scikit_learn() -> None:
    Z = rows(2500)
    peer = NearestNeighbors(n_neighbors=7).fit(Z).kneighbors(return_distance=False)
    np.testing.assert_array_equal(np.sort(neighbours.nearest_rows(Z, 7), axis=1), np.sort(peer, axis=1))


def test_a_graph_goes_both_ways_and_its_steps_are_chances() -> None:
    network = neighbours.nearest_graph(rows())
    A = np.rint(network.degrees[:, None] * dense(network))
    np.testing.assert_array_equal(A, A.T)
    assert (np.diag(A) == 0).all()
    assert A.sum() == 2 * 300 * neighbours.NEIGHBOURS
    np.testing.assert_allclose(dense(network).sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(network.degrees, A.sum(axis=1))


def test_shared_variance_is_the_covariance_of_both_ends_of_a_walk() -> None:
    Z, network = rows(), neighbours.nearest_graph(rows())
    chances = network.degrees / network.degrees.sum()
    centred = Z - chances @ Z
    for steps, got in zip((3, 8), neighbours.shared_variance(network, Z, (3, 8)), strict=True):
        P = np.linalg.matrix_power(dense(network), steps)
        want = np.array([z @ np.diag(chances) @ P @ z for z in centred.T])
        np.testing.assert_allclose(got, np.maximum(want, 0), atol=1e-5)


def test_what_groups_share_is_told_from_noise() -> None:
    rng = np.random.default_rng(1)
    group = rng.integers(8, size=800)
    centres = rng.standard_normal((8, 6))
    Z = (np.hstack([4 * centres[group], np.zeros((800, 2))]) + rng.standard_normal((800, 8))).astype(np.float32)
    odd, even = Z[:, ::2], Z[:, 1::2]
    (shared,) = neighbours.shared_variance(neighbours.nearest_graph(np.ascontiguousarray(odd)), even, (8,))
    shared /= even.var(axis=0)
    assert shared[:3].min() > 0.5
    assert shared[3] < 0.05


@pytest.mark.parametrize("n", [2, 3, 10])
def test_few_rows_have_fewer_neighbours(n: int) -> None:
    assert neighbours.nearest_graph(rows(n)).degrees.sum() == 2 * n * (n - 1)


def test_equal_rows_have_neighbours_too() -> None:
    network = neighbours.nearest_graph(np.ones((40, 3), np.float32))
    assert (network.degrees >= neighbours.NEIGHBOURS).all()
    np.testing.assert_allclose(neighbours.shared_variance(network, np.ones((40, 3), np.float32), (8,)), 0, atol=1e-6)
