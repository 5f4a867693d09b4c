"""Sharing between the runs of a split: models by ranking, dictionaries between code lengths; no code changes."""

from dataclasses import replace
from typing import Literal

import numpy as np

from isch import ISCH
from isch.evaluate.runs import Run
from isch.evaluate.sharing import Shared, model_key, sharing

RUN = Run({}, {}, ("map",), "itq", "itq", {}, 8, 0)


def test_codes_are_those_of_isch_alone() -> None:
    X = np.random.default_rng(0).standard_normal((400, 12)).astype(np.float32)
    cases: list[tuple[int, float | Literal["auto"]]] = [(4, "auto"), (8, "auto"), (8, 0.01)]
    shared = Shared()
    for n_bits, tau in cases:
        alone = ISCH(n_bits, tau=tau)
        together = sharing(alone, shared).fit(X)
        np.testing.assert_array_equal(together.transform(X), alone.fit(X).transform(X))
        assert together.n_atoms_ == alone.n_atoms_
        assert bool(together.saved) == (n_bits == 8)


def test_other_data_seeds_and_sizes_learn_their_own() -> None:
    X = np.random.default_rng(0).standard_normal((400, 12)).astype(np.float32)
    for hasher, rows in ((ISCH(8), X + 1), (ISCH(8, random_state=1), X), (ISCH(8, n_atoms=20), X)):
        shared = Shared()
        sharing(ISCH(8), shared).fit(X)
        assert not sharing(hasher, shared).fit(rows).saved


def test_splits_share_nothing() -> None:
    X = np.random.default_rng(0).standard_normal((400, 12)).astype(np.float32)
    assert not sharing(ISCH(8), Shared()).fit(X).saved
    assert not sharing(ISCH(8), Shared()).fit(X).saved


def test_only_models_that_several_runs_use_are_kept() -> None:
    asymmetric = replace(RUN, label="other", parameters={"ranking": "asymmetric"})
    longer = replace(RUN, bits=16)
    assert model_key(RUN) == model_key(asymmetric) != model_key(longer)
    assert list(Shared.between([RUN, asymmetric, longer]).models) == [model_key(RUN)]
