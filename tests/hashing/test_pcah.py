"""PCAH and PCA-RR: signs of principal components."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

import isch
from isch import codes
from isch.errors import IschWarning


def correlated(n: int = 800, d: int = 20) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.asarray(rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 3)


def test_pcah_has_the_distances_of_signs_of_scikit_learns_components() -> None:
    X = correlated()
    got = codes.unpack(isch.PCAH(n_bits=10).fit(X).transform(X), 10)
    want = PCA(10).fit_transform(X) >= 0
    np.testing.assert_array_equal((got[:, None] != got).sum(axis=2), (want[:, None] != want).sum(axis=2))


def test_pcarr_turns_the_components_and_keeps_their_lengths() -> None:
    X = correlated()
    components, turned = isch.PCAH(n_bits=10).fit(X), isch.PCARR(n_bits=10).fit(X)
    np.testing.assert_allclose(turned.projection_.T @ turned.projection_, np.eye(10), atol=1e-5)
    np.testing.assert_allclose(
        np.linalg.norm(turned.project(X), axis=1), np.linalg.norm(components.project(X), axis=1), rtol=1e-4
    )
    spread = components.project(X).var(axis=0)
    assert turned.project(X).var(axis=0).max() < spread.max()
    assert turned.project(X).var(axis=0).sum() == pytest.approx(spread.sum(), rel=1e-4)


def test_bits_beyond_the_rank_are_warned_of() -> None:
    X = np.random.default_rng(1).normal(size=(100, 3)) @ np.ones((3, 8)) ** 2 * np.arange(1, 9)
    with pytest.warns(IschWarning, match="vary in only 1 directions"):
        isch.PCAH(n_bits=4).fit(X)


@pytest.mark.parametrize("method", [isch.PCARR, isch.ITQ])
@pytest.mark.parametrize("rank", [1, 3, 8])
@pytest.mark.parametrize("n_bits", [8, 9, 100])
def test_more_bits_than_the_rank_are_a_tight_frame(method: type, rank: int, n_bits: int) -> None:
    """L = Q R with orthonormal columns of Q and rows of R: all that varies, and nothing else, keeps its length."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, rank)) @ rng.normal(size=(rank, 8)) + 2
    hasher = method(n_bits=n_bits).fit(X)
    np.testing.assert_allclose(np.linalg.svd(hasher.projection_, compute_uv=False)[:rank], 1, atol=1e-4)
    np.testing.assert_allclose(
        np.linalg.norm(hasher.project(X), axis=1), np.linalg.norm(X - X.mean(axis=0), axis=1), rtol=1e-4
    )
