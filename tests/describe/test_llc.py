from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, minimize
from scipy.sparse import csr_array

from isch.describe.llc import LLC, cells_of, llc_weights, max_pool, nearest_words
from isch.errors import ParameterError

Matrix = NDArray[np.float32]


def draw(seed: int, n: int, n_words: int) -> tuple[Matrix, Matrix]:
    rng = np.random.default_rng(seed)
    return rng.random((n, 128), dtype=np.float32), rng.random((n_words, 128), dtype=np.float32)


def constrained(x: Matrix, near: Matrix, beta: float) -> NDArray[np.float64]:
    """min ‖x − Bᵀ w‖² + β tr(C) ‖w‖² with Σ w = 1: its Lagrange conditions, solved as one linear system."""
    x, near = x.astype(np.float64), near.astype(np.float64)
    k = len(near)
    trace = ((near - x) ** 2).sum()
    system = np.ones((k + 1, k + 1))
    system[:k, :k] = 2 * (near @ near.T + beta * trace * np.eye(k))
    system[k, k] = 0
    return np.asarray(np.linalg.solve(system, np.append(2 * near @ x, 1))[:k])


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.sampled_from([1e-4, 3e-2, 1.0]))
@settings(max_examples=50, deadline=None)
def test_weights_solve_the_constrained_least_squares(seed: int, k: int, beta: float) -> None:
    X, words = draw(seed, 10, 20)
    near = nearest_words(X, words, k)
    weights = llc_weights(X, words, near, beta)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    for x, row, w in zip(X, near, weights, strict=True):
        np.testing.assert_allclose(w, constrained(x, words[row], beta), atol=1e-6)


def test_weights_equal_a_numerical_minimum() -> None:
    X, words = draw(0, 1, 5)
    x, B = X[0].astype(np.float64), words.astype(np.float64)
    penalty = 0.03 * ((B - x) ** 2).sum()

    def cost(w: NDArray[np.float64]) -> float:
        return float(((x - w @ B) ** 2).sum() + penalty * (w**2).sum())

    sum_to_one = LinearConstraint(np.ones((1, 5)), 1, 1)
    found = minimize(cost, np.full(5, 0.2), method="SLSQP", constraints=sum_to_one, tol=1e-12)
    np.testing.assert_allclose(llc_weights(X, words, np.arange(5)[None], 0.03)[0], found.x, atol=1e-5)


def test_weights_do_not_change_when_descriptors_and_words_move_together() -> None:
    X, words = draw(0, 30, 40)
    near = nearest_words(X, words, 5)
    moved = llc_weights(X + 0.5, words + np.float32(0.5), near, 1e-4)
    np.testing.assert_allclose(llc_weights(X, words, near, 1e-4), moved, atol=1e-5)


def test_a_descriptor_that_is_a_word_is_written_with_that_word() -> None:
    _, words = draw(0, 1, 30)
    near = nearest_words(words, words, 5)
    np.testing.assert_array_equal(near[:, 0], np.arange(30))
    np.testing.assert_allclose(llc_weights(words, words, near, 1e-4)[:, 0], 1, atol=1e-2)


def test_weights_are_equal_where_all_words_are_the_descriptor() -> None:
    X = np.ones((1, 128), np.float32)
    np.testing.assert_allclose(llc_weights(X, np.ones((3, 128), np.float32), np.arange(3)[None], 1e-4), 1 / 3)


@pytest.mark.parametrize("k", [1, 5, 40])
def test_nearest_words_are_the_nearest_in_order(k: int) -> None:
    X, words = draw(3, 200, 40)
    distances = ((X[:, None].astype(np.float64) - words) ** 2).sum(axis=2)
    near = nearest_words(X, words, k)
    np.testing.assert_allclose(np.take_along_axis(distances, near, axis=1), np.sort(distances)[:, :k], atol=1e-4)
    assert all(len(set(row)) == k for row in near.tolist())


def test_equally_near_words_come_in_their_order() -> None:
    words = np.repeat(np.eye(2, 128, dtype=np.float32), 3, axis=0)
    np.testing.assert_array_equal(nearest_words(words[4:5], words, 5), [[3, 4, 5, 0, 1]])


def test_cells_run_row_by_row_and_level_by_level() -> None:
    positions = np.array([[0.01, 0.01], [0.5, 0.5], [0.51, 0.5], [0.25, 0.76], [1, 1], [0, 1.2]])
    expected = [[0, 1, 5], [0, 1, 10], [0, 2, 11], [0, 3, 17], [0, 4, 20], [0, 3, 17]]
    np.testing.assert_array_equal(cells_of(positions, (1, 2, 4)), expected)


def plain_pool(near: Any, weights: Any, cells: Any, n_cells: int, n_words: int) -> NDArray[np.float64]:
    """Full codes, then the maximum over the rows of each cell."""
    codes = np.zeros((len(near), n_words))
    np.put_along_axis(codes, near, weights, axis=1)
    out = np.zeros((n_cells, n_words))
    for cell in range(n_cells):
        inside = (cells == cell).any(axis=1)
        if inside.any():
            out[cell] = codes[inside].max(axis=0)
    return out


@given(st.integers(0, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_pooling_takes_the_largest_signed_weight(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    near = np.array([rng.choice(9, 3, replace=False) for _ in range(n)], np.intp).reshape(n, 3)
    weights, cells = rng.normal(size=(n, 3)), cells_of(rng.random((n, 2)), (1, 2, 4))
    columns, values = max_pool(near, weights, cells, 21, 9)
    pooled = np.zeros(21 * 9)
    pooled[columns] = values
    expected = plain_pool(near, weights, cells, 21, 9)
    np.testing.assert_allclose(pooled.reshape(21, 9), expected, atol=1e-6)
    assert (np.diff(columns) > 0).all()
    occupied = np.unique(cells)
    assert (pooled.reshape(21, 9)[:1] >= pooled.reshape(21, 9)[occupied]).all()


def test_vectors_are_sparse_of_length_one_and_largest_in_the_whole_picture() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (3, 96, 96), dtype=np.uint8)
    describer = LLC(n_words=50).fit(pictures)
    rows = describer.transform(pictures)
    assert isinstance(rows, csr_array)
    assert rows.indices.dtype == np.int32
    assert rows.shape == (3, 21 * 50)
    cells = rows.toarray().reshape(3, 21, 50)
    np.testing.assert_allclose((cells**2).sum(axis=(1, 2)), 1, atol=1e-5)
    assert (cells[:, :1] >= cells[:, 1:]).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"n_words": 3}, "n_neighbours must be at most"), ({"levels": (1, 0)}, "levels must be"), ({"beta": 0.0}, "beta")],
)
def test_refuses_wrong_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        LLC(**parameters).fit(np.zeros((2, 64, 64), np.uint8))
