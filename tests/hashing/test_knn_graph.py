"""Graphs of nearest neighbours, beside scikit-learn and plain linear algebra."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from isch.hashing import knn_graph


def rows(n: int = 300, d: int = 6, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def dense(graph: knn_graph.Graph) -> NDArray[np.float64]:
    return np.asarray(graph.transitions.toarray(), np.float64)


def test_nearest_rows_are_those_of_scikit_learn() -> None:
    Z = rows(2500)
    peer = NearestNeighbors(n_neighbors=7).fit(Z).kneighbors(return_distance=False)
    np.testing.assert_array_equal(np.sort(knn_graph.nearest_rows(Z, 7), axis=1), np.sort(peer, axis=1))


def test_a_graph_goes_both_ways_and_its_steps_are_chances() -> None:
    network = knn_graph.nearest_graph(rows())
    A = np.rint(network.degrees[:, None] * dense(network))
    np.testing.assert_array_equal(A, A.T)
    assert (np.diag(A) == 0).all()
    assert A.sum() == 2 * 300 * knn_graph.count(300)
    np.testing.assert_allclose(dense(network).sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(network.degrees, A.sum(axis=1))


@pytest.mark.parametrize(("n", "count"), [(2, 1), (3, 2), (10, 2), (300, 5), (10_000, 16)])
def test_more_rows_have_more_neighbours(n: int, count: int) -> None:
    assert knn_graph.count(n) == count
    if n < 1000:
        assert knn_graph.nearest_graph(rows(n)).degrees.sum() == 2 * n * count


def test_equal_rows_have_neighbours_too() -> None:
    assert (knn_graph.nearest_graph(np.ones((40, 3), np.float32)).degrees >= knn_graph.count(40)).all()
