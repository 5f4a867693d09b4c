"""BPBC: a bilinear projection equals that of the Kronecker product."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import isch
from isch.errors import InputError
from isch.hashing import bpbc, rotation


@pytest.fixture(scope="module")
def X() -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    return np.asarray(rng.normal(size=(400, 24)) @ rng.normal(size=(24, 24)) + 1)


@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize(("shape", "code_shape"), [((4, 6), (3, 2)), ((6, 4), (6, 1)), ((4, 6), (1, 6))])
def test_codes_equal_those_of_the_kronecker_product(
    X: NDArray[np.float64], shape: tuple[int, int], code_shape: tuple[int, int], learn: bool
) -> None:
    hasher = isch.BPBC(n_bits=6, shape=shape, code_shape=code_shape, learn=learn).fit(X)
    want = (X - hasher.mean_) @ np.kron(hasher.left_, hasher.right_)
    np.testing.assert_allclose(hasher.project(X), want, atol=1e-4)


@pytest.mark.parametrize(("n_bits", "learn"), [(24, True), (6, True), (6, False)])
def test_projections_are_orthonormal(X: NDArray[np.float64], n_bits: int, learn: bool) -> None:
    hasher = isch.BPBC(n_bits=n_bits, learn=learn).fit(X)
    for matrix in (hasher.left_, hasher.right_):
        np.testing.assert_allclose(matrix.T @ matrix, np.eye(matrix.shape[1]), atol=1e-5)


@pytest.mark.parametrize("n_bits", [24, 6])
def test_objective_never_decreases(X: NDArray[np.float64], n_bits: int) -> None:
    hasher = isch.BPBC(n_bits=n_bits, n_iter=15).fit(X)
    assert len(hasher.objective_) == 15
    assert (np.diff(hasher.objective_) >= -1e-4 * hasher.objective_[:-1]).all()
    assert hasher.objective_[-1] > hasher.objective_[0]


def test_one_row_of_a_matrix_is_the_rotation_of_itq(X: NDArray[np.float64]) -> None:
    unit = ((X - X.mean(axis=0)) / np.linalg.norm(X - X.mean(axis=0), axis=1, keepdims=True)).astype(np.float32)
    start = rotation.random(24, np.random.default_rng(1))
    _, right, _ = bpbc.learn(unit.reshape(-1, 1, 24), np.ones((1, 1)), start, 4)
    want = rotation.learn(unit, 4, np.random.default_rng(2), initial=start, tolerance=-np.inf).matrix
    np.testing.assert_allclose(right, want, atol=1e-4)


def test_natural_shapes() -> None:
    assert bpbc.choose_shapes(25_600, 12_800, (200, 128), None) == ((200, 128), (100, 128))
    assert bpbc.choose_shapes(20_736, 20_736, (81, 256), (81, 256)) == ((81, 256), (81, 256))
    assert bpbc.choose_shapes(105_000, 105_000, None, None)[0] == (300, 350)
    assert bpbc.choose_shapes(12, 7, None, None) == ((1, 12), (1, 7))
    assert bpbc.factor_pairs(12) == [(3, 4), (4, 3), (2, 6), (6, 2), (1, 12), (12, 1)]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"shape": (5, 5)}, r"shape must multiply to 24 \(the number of features\); got 5 × 5 = 25"),
        ({"code_shape": (2, 2)}, r"code_shape must multiply to 6 \(n_bits\); got 2 × 2 = 4"),
        ({"shape": (24,)}, "shape must be two positive integers"),
        ({"shape": (4.0, 6.0)}, "shape must be two positive integers"),
    ],
)
def test_shapes_that_do_not_multiply_are_refused(X: NDArray[np.float64], parameters: dict, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(InputError, match=message):
        isch.BPBC(**({"n_bits": 6} | parameters)).fit(X)


@pytest.mark.parametrize(
    ("parameters", "shapes"),
    [
        ({"n_bits": 5, "shape": (4, 6)}, ((4, 1), (6, 5))),
        ({"n_bits": 7, "shape": (4, 6)}, ((4, 1), (6, 7))),
        ({"n_bits": 6, "shape": (2, 12), "code_shape": (3, 2)}, ((2, 3), (12, 2))),
        ({"n_bits": 30}, ((4, 5), (6, 6))),
        ({"n_bits": 29}, ((1, 1), (24, 29))),
        ({"n_bits": 96}, ((4, 12), (6, 8))),
    ],
)
def test_more_bits_than_a_side_has_make_its_rows_orthonormal(
    X: NDArray[np.float64], parameters: dict, shapes: Any
) -> None:  # type: ignore[type-arg]
    hasher = isch.BPBC(n_iter=8, **parameters).fit(X)
    assert (hasher.left_.shape, hasher.right_.shape) == shapes
    for matrix in (hasher.left_, hasher.right_):
        np.testing.assert_allclose(np.linalg.svd(matrix, compute_uv=False), 1, atol=1e-5)
    assert (np.diff(hasher.objective_) >= -1e-4 * hasher.objective_[:-1]).all()


def test_the_order_of_the_code_shape_has_the_smaller_quantisation_error() -> None:
    """The rows of each matrix lie in a plane, or its columns do."""
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(400, 8, 2)) @ rng.normal(size=(2, 8))
    for matrices, best in ((flat, (4, 2)), (flat.transpose(0, 2, 1), (2, 4))):
        hasher = isch.BPBC(n_bits=8, shape=(8, 8)).fit(matrices.reshape(400, 64))
        assert (hasher.left_.shape[1], hasher.right_.shape[1]) == best


def test_quantisation_error_is_the_distance_to_the_codes(X: NDArray[np.float64]) -> None:
    hasher = isch.BPBC(n_bits=6).fit(X)
    rows = X.astype(np.float32)
    Z = rows @ np.kron(hasher.left_, hasher.right_)
    want = np.square(np.where(Z >= 0, 1, -1) - Z).sum()
    assert bpbc.quantization_error(rows, hasher.left_, hasher.right_) == pytest.approx(want, rel=1e-5)


def test_shapes_that_cannot_be_turned() -> None:
    assert bpbc.turnable((28, 28), (4, 8))
    assert not bpbc.turnable((28, 28), (8, 8))
    assert not bpbc.turnable((16, 49), (16, 32))
