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
    A = network.adjacency.toarray()
    np.testing.assert_array_equal(A, A.T)
    assert (np.diag(A) == 0).all()
    assert A.sum() == 2 * 300 * neighbours.NEIGHBOURS
    np.testing.assert_allclose(dense(network).sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(network.degrees, A.sum(axis=1))


def test_a_union_has_the_edges_of_both() -> None:
    one, two = neighbours.nearest_graph(rows()[:, :3]), neighbours.nearest_graph(rows()[:, 3:])
    both = neighbours.union([one, two])
    np.testing.assert_array_equal(both.adjacency.toarray() > 0, (one.adjacency + two.adjacency).toarray() > 0)


def test_shared_variance_is_the_covariance_of_both_ends_of_a_walk() -> None:
    Z, network = rows(), neighbours.nearest_graph(rows())
    P, chances = np.linalg.matrix_power(dense(network), neighbours.STEPS), network.degrees / network.degrees.sum()
    centred = Z - chances @ Z
    want = np.array([z @ np.diag(chances) @ P @ z for z in centred.T])
    np.testing.assert_allclose(neighbours.shared_variance(network, Z), np.maximum(want, 0), atol=1e-5)


def test_what_groups_share_is_told_from_noise() -> None:
    rng = np.random.default_rng(1)
    group = rng.integers(8, size=800)
    centres = rng.standard_normal((8, 6))
    Z = (np.hstack([4 * centres[group], np.zeros((800, 2))]) + rng.standard_normal((800, 8))).astype(np.float32)
    odd, even = Z[:, ::2], Z[:, 1::2]
    shared = neighbours.shared_variance(neighbours.nearest_graph(np.ascontiguousarray(odd)), even) / even.var(axis=0)
    assert shared[:3].min() > 0.5
    assert shared[3] < 0.05


def test_reached_rows_are_the_largest_sums_of_powers() -> None:
    network, starts = neighbours.nearest_graph(rows()), np.array([3, 50, 299])
    P = dense(network)
    M = sum(neighbours.DECAY**t * np.linalg.matrix_power(P, t + 1) for t in range(neighbours.STEPS)) / network.degrees
    M[starts, starts] = -1
    got = neighbours.reached_rows(network, starts, 20)
    for start, reached in zip(starts, got, strict=True):
        assert start not in reached
        np.testing.assert_allclose(np.sort(M[start][reached]), np.sort(M[start])[-20:], rtol=1e-4)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_few_rows_have_fewer_neighbours(n: int) -> None:
    assert neighbours.nearest_graph(rows(n)).adjacency.sum() == 2 * n * (n - 1)


def test_equal_rows_have_neighbours_too() -> None:
    network = neighbours.nearest_graph(np.ones((40, 3), np.float32))
    assert (network.degrees >= neighbours.NEIGHBOURS).all()
    np.testing.assert_allclose(neighbours.shared_variance(network, np.ones((40, 3), np.float32)), 0, atol=1e-6)
