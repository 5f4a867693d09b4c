"""Sharing a dictionary between code lengths changes no code."""

from typing import Literal

import numpy as np

from isch import ISCH
from isch.evaluate.sharing import SharingISCH


def test_codes_are_those_of_isch_alone() -> None:
    X = np.random.default_rng(0).standard_normal((400, 12)).astype(np.float32)
    cases: list[tuple[int, float | Literal["auto"]]] = [(4, "auto"), (8, "auto"), (8, 0.01)]
    for n_bits, tau in cases:
        shared = SharingISCH(n_bits, tau=tau).fit(X)
        alone = ISCH(n_bits, tau=tau).fit(X)
        np.testing.assert_array_equal(shared.transform(X), alone.transform(X))
        assert shared.n_atoms_ == alone.n_atoms_
    assert shared.saved


def test_other_data_seeds_and_sizes_learn_their_own() -> None:
    X = np.random.default_rng(0).standard_normal((400, 12)).astype(np.float32)
    SharingISCH(8).fit(X)
    for other in (SharingISCH(8).fit(X + 1), SharingISCH(8, random_state=1).fit(X), SharingISCH(8, n_atoms=20).fit(X)):
        assert not other.saved
