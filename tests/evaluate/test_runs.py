"""What is run has a key that changes with whatever changes the numbers."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isch.evaluate.runs import Run, from_steps, to_steps

RUN = Run({"dataset": "mnist", "fingerprint": "f"}, {"total": 3}, ("map",), "isch", "isch", {"tau": 0.1}, 32, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"bits": 64},
        {"parameters": {"tau": 0.2}},
        {"split": {"total": 4}},
        {"measures": ("map", "recall@1")},
        {"method": "itq"},
        {"data": {"dataset": "cifar10"}},
    ],
)
def test_whatever_changes_the_numbers_changes_the_key_and_the_plan(change: dict[str, object]) -> None:
    changed = replace(RUN, **change)  # type: ignore[arg-type]
    assert changed.key != RUN.key
    assert changed.plan != RUN.plan


def test_the_label_changes_neither() -> None:
    renamed = replace(RUN, label="other")
    assert (renamed.key, renamed.plan) == (RUN.key, RUN.plan)


def test_a_planned_run_has_the_plan_of_its_result_without_knowing_the_files() -> None:
    planned = replace(RUN, data={"dataset": "mnist"})
    assert planned.key != RUN.key
    assert planned.plan == RUN.plan


@given(st.lists(st.floats(0, 1) | st.just(float("nan")), max_size=20))
def test_values_of_queries_survive_packing(values: list[float]) -> None:
    given_values = np.array(values)
    back = from_steps(to_steps(given_values))
    np.testing.assert_allclose(back, given_values, atol=1e-5)
    np.testing.assert_array_equal(to_steps(back), to_steps(given_values))
