"""Constraints of parameters: what they take, and how a refusal is worded."""

from numbers import Integral, Real
from typing import Any

import numpy as np
import pytest

from isch import parameters
from isch.errors import ParameterError
from isch.parameters import POSITIVE, Interval, StrOptions

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        (POSITIVE, [1, 10**12, np.int32(3)], [0, -1, 1.0, "1", None, True, NAN]),
        (Interval(Real, 0, closed="neither"), [1, 0.5, np.float32(1)], [0, -1.0, NAN, INF, "1", None]),
        (Interval(Real, 0, 1, closed="left"), [0, 0.0, 0.999], [1, 1.5, -0.1, NAN]),
        (Interval(Real, 0, 1, closed="right"), [1, 0.1], [0, 1.01]),
        (Interval(Integral, 1, 12, closed="both"), [1, 12], [0, 13]),
        (StrOptions({"a", "b"}), ["a"], ["c", 1, None, ["a"]]),
        ("boolean", [True, False, np.True_], [0, 1, None, "True"]),
        ("random_state", [None, 0, 2**32 - 1, np.random.RandomState(0), np.random], [-1, 2**32, 1.5, "x"]),
        ("array-like", [[1], (1, 2), np.zeros(3)], ["ab", b"ab", 3, None]),
        (None, [None], [0, False, ""]),
        (list, [[]], [(), "x"]),
    ],
)
def test_what_a_constraint_takes(constraint: Any, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        parameters.check({"p": [constraint]}, {"p": value}, "LSH")
    for value in bad:
        with pytest.raises(ParameterError, match=r"^The 'p' parameter of LSH must be .*\. Got .* instead\.$"):
            parameters.check({"p": [constraint]}, {"p": value}, "LSH")


@pytest.mark.parametrize(
    ("constraints", "wording"),
    [
        ([POSITIVE], "must be an int in the range [1, inf). Got -1 instead."),
        ([POSITIVE, None], "must be an int in the range [1, inf) or None. Got -1 instead."),
        (["boolean", StrOptions({"b", "a"}), list], "must be a bool, a str among {'a', 'b'} or an instance of 'list'."),
        ([Interval(Real, 0, 1, closed="right")], "must be a float in the range (0, 1]. Got -1 instead."),
    ],
)
def test_the_wording(constraints: list[Any], wording: str) -> None:
    with pytest.raises(ParameterError) as error:
        parameters.check({"n_bits": constraints}, {"n_bits": -1}, "LSH")
    assert str(error.value).startswith(f"The 'n_bits' parameter of LSH {wording}")


def test_a_long_value_is_shortened() -> None:
    with pytest.raises(ParameterError) as error:
        parameters.check({"p": [POSITIVE]}, {"p": "x" * 10_000}, "LSH")
    assert len(str(error.value)) < 250
