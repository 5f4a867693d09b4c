"""SH: the smoothest cosines along principal directions."""

import numpy as np
import pytest

import isch
from isch import codes
from isch.hashing.sh import smoothest_modes


def test_modes_come_in_the_order_of_their_frequency() -> None:
    directions, modes = smoothest_modes(np.array([4.0, 3.0, 1.0]), 7)
    frequency = modes / np.array([4.0, 3.0, 1.0])[directions]
    assert (directions[0], modes[0]) == (0, 1)
    assert (np.diff(frequency) >= 0).all()
    every = sorted(j / r for r in (4.0, 3.0, 1.0) for j in range(1, 30))[:7]
    np.testing.assert_allclose(frequency, every)


def test_one_direction_gives_cosines_of_rising_frequency() -> None:
    X = np.random.default_rng(0).uniform(2, 5, size=(1000, 1))
    hasher = isch.SH(n_bits=6).fit(X)
    position = (X - X.min()) / (X.max() - X.min())
    want = np.cos(np.arange(1, 7) * np.pi * position) >= 0
    mirrored = np.cos(np.arange(1, 7) * np.pi * (1 - position)) >= 0
    got = codes.unpack(hasher.transform(X), 6)
    assert max((got == want).mean(), (got == mirrored).mean()) > 0.995
    np.testing.assert_array_equal(hasher.directions_, 0)


def test_the_sign_of_a_direction_does_not_matter_to_distances() -> None:
    X = np.random.default_rng(1).normal(size=(300, 6)) * [5, 4, 3, 2, 1, 1]
    hasher = isch.SH(n_bits=24).fit(X)
    before = codes.unpack(hasher.transform(X), 24)
    greatest = (X - hasher.mean_) @ hasher.projection_[:, 0]
    hasher.projection_ = hasher.projection_ * np.where(np.arange(6) == 0, -1, 1).astype(np.float32)
    hasher.starts_ = np.where(np.arange(6) == 0, -greatest.max(), hasher.starts_).astype(np.float32)
    after = codes.unpack(hasher.transform(X), 24)
    between = [(b[:, None] != b).sum(axis=2) for b in (before, after)]
    assert (before != after).any()
    assert (between[0] != between[1]).mean() < 0.02


def test_more_bits_than_features_and_a_direction_without_extent() -> None:
    X = np.random.default_rng(2).uniform(size=(500, 3)) * [1.0, 0.5, 0.0]
    hasher = isch.SH(n_bits=20).fit(X)
    assert hasher.transform(X).shape == (500, 3)
    assert set(hasher.directions_) == {0, 1}
    assert codes.unpack(hasher.transform(X), 20).mean() == pytest.approx(0.5, abs=0.1)
