"""The order of the methods on MNIST is that of the literature."""

import os

import numpy as np
import pytest

import isch
from isch.scan import exact

pytestmark = pytest.mark.skipif("ISCH_DATA" not in os.environ, reason="needs MNIST in $ISCH_DATA")

LENGTHS = (16, 64, 256)


@pytest.fixture(scope="module")
def precision() -> dict[str, list[float]]:
    """Label precision@100 of 300 queries among 3,000 digits, for each length."""
    dataset = isch.datasets.load("mnist")
    assert dataset.images is not None
    assert dataset.labels is not None
    rows = np.random.default_rng(0).permutation(len(dataset.labels))[:3300]
    X, labels = dataset.images[rows].reshape(3300, -1), dataset.labels[rows]
    out: dict[str, list[float]] = {}
    for name in ("lsh", "itq", "pcah", "sh", "sklsh", "sph"):
        for n_bits in LENGTHS:
            rounds = {"n_iter": 20} if name in ("itq", "sph") else {}
            hasher = isch.hasher(name, n_bits=n_bits, **rounds).fit(X[300:])
            codes = hasher.transform(X)
            _, found = exact.nearest(codes[:300], codes[300:], 100, hasher.distance)
            out.setdefault(name, []).append(float((labels[300:][found] == labels[:300, None]).mean()))
    return out


def test_itq_is_above_lsh_and_the_gap_closes(precision: dict[str, list[float]]) -> None:
    gaps = np.subtract(precision["itq"], precision["lsh"])
    assert (gaps > 0).all()
    assert (np.diff(gaps) < 0).all()


def test_pcah_falls_with_the_code_length(precision: dict[str, list[float]]) -> None:
    assert precision["pcah"][2] < precision["pcah"][1] - 0.03
    assert precision["pcah"][2] < precision["lsh"][2] - 0.1


def test_sh_gains_little_from_more_bits(precision: dict[str, list[float]]) -> None:
    assert abs(precision["sh"][2] - precision["sh"][1]) < 0.1


def test_sklsh_is_poor_at_short_codes(precision: dict[str, list[float]]) -> None:
    assert precision["sklsh"][0] == min(values[0] for values in precision.values())
    assert precision["sklsh"][2] > precision["sklsh"][0] + 0.2


def test_sph_approaches_itq_at_long_codes(precision: dict[str, list[float]]) -> None:
    assert precision["itq"][2] - precision["sph"][2] < precision["itq"][0] - precision["sph"][0]
    assert precision["sph"][2] > precision["sph"][1] > precision["sph"][0]
