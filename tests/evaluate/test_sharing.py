"""Sharing between the runs of a split: models by ranking, dictionaries between code lengths; no code changes."""

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from isch import ISCH
from isch.evaluate.runs import Run
from isch.evaluate.sharing import Shared, model_key
from isch.fitting import Known, sharing

RUN = Run({}, {}, ("map",), "itq", "itq", {}, 8, 0)


X = np.random.default_rng(0).standard_normal((400, 12)).astype(np.float32)


def fitted(hasher: ISCH, rows: NDArray[np.float32], steps: Known) -> tuple[ISCH, bool]:
    """The hasher, and whether it took something that was known."""
    before = steps.saved_wall
    with sharing(steps):
        hasher.fit(rows)
    return hasher, steps.saved_wall > before


def test_codes_are_those_of_isch_alone() -> None:
    cases: list[tuple[int, float | Literal["auto"]]] = [(4, "auto"), (8, "auto"), (8, 0.01)]
    steps = Known()
    for n_bits, tau in cases:
        alone = ISCH(n_bits, tau=tau).fit(X)
        together, saved = fitted(ISCH(n_bits, tau=tau), X, steps)
        np.testing.assert_array_equal(together.transform(X), alone.transform(X))
        assert together.n_atoms_ == alone.n_atoms_
        assert saved == (n_bits == 8)


def test_a_hierarchical_dictionary_is_shared_too() -> None:
    steps = Known()
    for n_bits in (4, 8):
        one = ISCH(n_bits, dictionary="hierarchical", n_branches=4)
        _, saved = fitted(one, X, steps)
        assert saved == (n_bits == 8)


def test_other_data_seeds_and_sizes_learn_their_own() -> None:
    for hasher, rows in ((ISCH(8), X + 1), (ISCH(8, random_state=1), X), (ISCH(8, n_atoms=20), X)):
        steps = Known()
        fitted(ISCH(8), X, steps)
        assert not fitted(hasher, rows, steps)[1]


def test_only_models_that_several_runs_use_are_kept() -> None:
    asymmetric = replace(RUN, label="other", parameters={"ranking": "asymmetric"})
    longer = replace(RUN, bits=16)
    assert model_key(RUN) == model_key(asymmetric) != model_key(longer)
    assert list(Shared.between([RUN, asymmetric, longer]).models) == [model_key(RUN)]
