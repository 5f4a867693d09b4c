"""LSH: two vectors differ in a bit with probability angle / π."""

import numpy as np

import isch
from isch import codes


def test_bits_differ_at_the_rate_of_the_angle() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 30))
    X -= X.mean(axis=0)
    hasher = isch.LSH(n_bits=40_000).fit(X)
    bits = codes.unpack(hasher.transform(X), 40_000)
    rates = (bits[:20] != bits[20:]).mean(axis=1)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    angles = np.arccos((unit[:20] * unit[20:]).sum(axis=1))
    np.testing.assert_allclose(rates, angles / np.pi, atol=5 * np.sqrt(0.25 / 40_000))


def test_codes_do_not_depend_on_scale_or_offset() -> None:
    X = np.random.default_rng(1).normal(size=(200, 30))
    want = isch.LSH(n_bits=64).fit(X).transform(X)
    got = isch.LSH(n_bits=64).fit(8 * X + 3).transform(8 * X + 3)
    assert np.unpackbits(want ^ got).mean() < 1e-3


def test_non_negative_features_give_balanced_bits_because_they_are_centred() -> None:
    X = np.random.default_rng(2).exponential(size=(2000, 50))
    assert abs(codes.unpack(isch.LSH(n_bits=256).fit(X).transform(X), 256).mean() - 0.5) < 0.03
