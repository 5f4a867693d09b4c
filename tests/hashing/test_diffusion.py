"""DiffusionHash: what its codes find, and what it keeps of ISCH."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import isch

DIGITS: NDArray[np.float32] = load_digits().data.astype(np.float32)


def test_neighbours_are_those_of_the_map_of_isch_at_the_level_of_the_spectrum() -> None:
    fitted = isch.DiffusionHash(32).fit(DIGITS)
    lam = fitted.eigenvalues_  # of 512 directions at most, so here all of them
    assert fitted.rank_ == len(lam)
    assert fitted.lambda_star_ == pytest.approx(np.exp((lam * np.log(lam)).sum() / lam.sum()), rel=1e-6)
    assert fitted.n_neighbours_ == 9


def test_few_rows_have_no_graph_of_neighbours() -> None:
    assert isch.DiffusionHash(8).fit(DIGITS[:99]).n_neighbours_ is None


def same_group(hasher: Any, X: NDArray[np.float32], labels: NDArray[np.intp]) -> float:
    found = hasher.fit(X[500:]).transform(X)
    return float((labels[500:][isch.nearest(found[:500], found[500:], k=10)[1]] == labels[:500, None]).mean())


@pytest.mark.parametrize("what", ["a noisy column", "one huge row", "two far halves"])
def test_directions_that_exceed_all_others_do_no_harm(what: str) -> None:
    """Groups are found as well as by ITQ where most of the variance has nothing to do with them."""
    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=2000)
    X = (rng.standard_normal((10, 30))[labels] + 0.8 * rng.standard_normal((2000, 30))).astype(np.float32)
    if what == "a noisy column":
        X[:, 0] = 20 * rng.standard_normal(2000)
    elif what == "one huge row":
        X[1234] *= 3000
    else:
        X[::2] += 7
    assert same_group(isch.DiffusionHash(32), X, labels) > same_group(isch.ITQ(32), X, labels)


def test_codes_find_more_of_the_same_kind_than_those_of_isch_with_any_tau() -> None:
    labels = load_digits().target

    def precision(tau: Any) -> float:
        hasher = isch.DiffusionHash(64) if tau is None else isch.ISCH(64, tau=tau)
        found = hasher.fit(DIGITS[400:]).transform(DIGITS)
        rows = isch.nearest(found[:400], found[400:], k=70)[1]
        return float((labels[400:][rows] == labels[:400, None]).mean())

    assert precision(None) > max(map(precision, (0.0005, 0.002, 0.008))) + 0.01
