"""A run and its result: the two values that are stored, collected, summarised and drawn."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MEASURED = 1  # raised when a measure changes its meaning: every run then counts as another one
CURVES = ("ranks", "precision", "recall")
SCALE = 65535  # values in [0, 1] are kept as multiples of 1 / (SCALE − 1); SCALE itself stands for NaN


@dataclass(frozen=True)
class Run:
    """Everything that determines the numbers of a run."""

    data: dict[str, Any]  # dataset, descriptor, normalisation; once it is run also a fingerprint of the content
    split: dict[str, Any]
    measures: tuple[str, ...]
    label: str  # what figures call the method
    method: str
    parameters: dict[str, Any]
    bits: int | None  # None: the method has no code length
    seed: int

    @property
    def key(self) -> str:
        """A hash of what is run; the label is only a name."""
        content = {k: v for k, v in asdict(self).items() if k != "label"} | {"version": MEASURED}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def plan(self) -> str:
        """What a planned run and its result have in common; the version of the data files does not matter."""
        data = {k: v for k, v in self.data.items() if k != "fingerprint"}
        content = [data, self.split, self.measures, self.method, self.parameters, self.bits, self.seed]
        return json.dumps(content, sort_keys=True)


@dataclass(frozen=True)
class Result:
    """The outcome of a run."""

    run: Run
    means: dict[str, dict[str, float]]  # measure: {expected, pessimistic, optimistic}; undefined ones are left out
    curves: dict[str, list[float]]  # CURVES, of equal length
    costs: dict[str, float]  # what could not be measured is left out
    per_query: NDArray[np.float64]  # the first measure of each query; NaN where it is not defined
    learned: dict[str, float] = field(default_factory=dict)  # numbers that the method learned, such as λ*
    revision: str = ""  # of the method and the descriptor that made it; empty if that is not known
    context: dict[str, Any] = field(default_factory=dict)  # versions, machine, date

    @property
    def date(self) -> str:
        """When it was made, in ISO 8601."""
        return str(self.context.get("date", ""))


def checked_run(content: Mapping[str, Any]) -> Run:
    """A run from a file, with every field of its type.

    Raises
    ------
    ValueError
        A field is missing or of another type.
    """
    run = Run(**{**content, "measures": tuple(content["measures"])})
    for name in ("data", "split", "parameters"):
        _expect(isinstance(getattr(run, name), dict), f"{name} is not an object")
    for name in ("label", "method"):
        _expect(isinstance(getattr(run, name), str), f"{name} is not text")
    _expect(bool(run.measures) and all(isinstance(m, str) for m in run.measures), "measures are not a list of names")
    _expect(run.bits is None or (_is_count(run.bits) and run.bits > 0), "bits are not a positive number")
    _expect(_is_count(run.seed), "seed is not a number")
    return run


def checked_numbers(values: Any, what: str) -> dict[str, float]:
    """Names with numbers, from a file."""
    _expect(isinstance(values, dict), f"{what} are not an object")
    for name, value in values.items():
        good = isinstance(value, int | float) and not isinstance(value, bool)
        _expect(good, f"{what}: {name} is not a number")
    return {name: float(value) for name, value in values.items()}


def checked_curves(curves: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Curves from a file: CURVES and nothing else, of equal length."""
    _expect(set(curves) == set(CURVES), f"curves are not {', '.join(CURVES)}")
    lists = {name: [float(v) for v in curves[name]] for name in CURVES}
    _expect(len({len(values) for values in lists.values()}) == 1, "curves are of unequal length")
    return lists


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def to_steps(values: NDArray[np.float64]) -> NDArray[np.uint16]:
    """Values in [0, 1] as 16-bit fractions; NaN is the largest number."""
    steps = np.where(np.isnan(values), SCALE, np.round(np.nan_to_num(values) * (SCALE - 1)))
    return steps.astype("<u2")


def from_steps(steps: NDArray[np.uint16]) -> NDArray[np.float64]:
    """The inverse of ``to_steps``, to within 1/131,068."""
    return np.where(steps == SCALE, np.nan, steps.astype(np.float64) / (SCALE - 1))
