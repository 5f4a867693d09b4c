"""Fusion by ``+``."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

from isch.describe import GIST, LBP, LE, Fusion
from isch.describe.base import Describer
from isch.errors import ParameterError
from isch.features import Block

PICTURES = np.random.default_rng(0).integers(0, 256, (9, 24, 30, 3), dtype=np.uint8)


def unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Brightness(Describer):
    """A sparse descriptor."""

    name = "brightness"
    n_features_out = 256
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def _describe(self, batch: Sequence[Any]) -> Block:
        return csr_array(np.array([np.bincount(image.ravel(), minlength=256) for image in batch], np.float32))


def test_each_is_normalised_then_the_whole() -> None:
    gist, lbp = GIST(), LBP()
    wanted = unit(np.hstack([unit(gist.transform(PICTURES)), unit(lbp.transform(PICTURES))]))
    fused = gist + lbp
    np.testing.assert_allclose(np.asarray(fused.transform(PICTURES)), wanted, atol=1e-6)
    assert fused.n_features_out == wanted.shape[1]


def test_le_and_lbp_have_the_papers_dimension() -> None:
    assert (LE() + LBP()).n_features_out == 26_636


def test_a_sparse_part_makes_a_sparse_whole() -> None:
    fused = (GIST() + Brightness()).transform(PICTURES)
    assert bool(issparse(fused))
    dense = unit(np.hstack([unit(GIST().transform(PICTURES)), unit(Brightness().transform(PICTURES).toarray())]))
    np.testing.assert_allclose(fused.toarray(), dense, atol=1e-6)


def test_a_part_that_learns_is_fitted_also_from_an_iterator() -> None:
    fused = LE(grid=3) + LBP(grid=3)
    assert fused.learns
    assert not (GIST() + LBP()).learns
    vectors = np.asarray(fused.fit(iter(PICTURES)).transform(PICTURES))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_three_lie_flat() -> None:
    assert [part.name for part in (GIST() + LBP() + LE())._parts()] == ["gist", "lbp", "le"]


def test_zero_vectors_stay_zero() -> None:
    class Zero(Brightness):
        def _describe(self, batch: Sequence[Any]) -> Block:
            return np.zeros((len(batch), 4), np.float32)

    assert not np.asarray((Zero() + Zero()).transform(PICTURES)).any()


def test_what_is_no_describer() -> None:
    with pytest.raises(TypeError):
        GIST() + 3
    for parts in ([], [GIST(), 3]):
        with pytest.raises(ParameterError, match="at least one Describer"):
            Fusion(parts).transform(PICTURES)
    with pytest.raises(ParameterError, match="'grid' parameter of LBP"):
        (GIST() + LBP(grid=0)).transform(PICTURES)
