"""Constraints on parameters: declared once per class, with error messages from one place.

``{"n_bits": [Interval(Integral, 1)], "sigma": [Interval(Real, 0, closed="neither"), None], "learn": ["boolean"]}``: a
value must meet one of the constraints listed for its parameter. A constraint is an ``Interval``, ``StrOptions``, a
type, None, or the word "boolean", "random_state" or "array-like".
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from isch.errors import ParameterError

Constraints = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Interval:
    """Numbers of a kind between two limits; ``closed`` says which of the limits belong to it."""

    kind: type[Any]  # numbers.Integral or numbers.Real
    low: float | None
    high: float | None = None
    closed: Literal["left", "right", "both", "neither"] = "left"

    def __contains__(self, value: Any) -> bool:
        if not isinstance(value, self.kind) or isinstance(value, bool):
            return False
        above = self.low is None or value > self.low or (self.closed in ("left", "both") and value == self.low)
        below = self.high is None or value < self.high or (self.closed in ("right", "both") and value == self.high)
        return above and below and math.isfinite(value)

    def __str__(self) -> str:
        left = "[" if self.closed in ("left", "both") and self.low is not None else "("
        right = "]" if self.closed in ("right", "both") and self.high is not None else ")"
        low, high = "-inf" if self.low is None else self.low, "inf" if self.high is None else self.high
        kind = "an int" if issubclass(self.kind, Integral) else "a float"
        return f"{kind} in the range {left}{low}, {high}{right}"


@dataclass(frozen=True)
class StrOptions:
    """One of some texts."""

    options: Collection[str]

    def __contains__(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.options

    def __str__(self) -> str:
        return f"a str among {{{', '.join(map(repr, sorted(self.options)))}}}"


POSITIVE = Interval(Integral, 1)
BITS = Interval(Integral, 1, 1 << 20, closed="both")  # of a code: 128 KiB of it are more than anybody stores
SEED = Interval(Integral, 0, 2**32 - 1, closed="both")


def check(constraints: Constraints, parameters: Mapping[str, Any], owner: str) -> None:
    """Refuse the first parameter that meets none of its constraints; those without constraints may be anything."""
    for name, value in parameters.items():
        wanted = constraints.get(name)
        if wanted is not None and not any(_meets(value, one) for one in wanted):
            first, last = [_worded(one) for one in wanted[:-1]], _worded(wanted[-1])
            expected = f"{', '.join(first)} or {last}" if first else last
            raise ParameterError(
                f"The {name!r} parameter of {owner} must be {expected}. Got {_shortened(value)} instead."
            )


def _meets(value: Any, constraint: Any) -> bool:
    if constraint is None:
        return value is None
    if constraint == "boolean":
        return isinstance(value, bool | np.bool_)
    if constraint == "random_state":
        return value is None or value in SEED or value is np.random or isinstance(value, np.random.RandomState)
    if constraint == "array-like":
        return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)
    return isinstance(value, constraint) if isinstance(constraint, type) else value in constraint


def _worded(constraint: Any) -> str:
    if constraint == "boolean":
        return "a bool"
    if constraint == "random_state":
        return f"{SEED}, a numpy.random.RandomState or None"
    if constraint is Real:
        return "a number"
    return f"an instance of {constraint.__qualname__!r}" if isinstance(constraint, type) else str(constraint)


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
