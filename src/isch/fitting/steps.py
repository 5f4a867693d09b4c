"""A fit is a list of steps, described once: ``_fit(features, run)`` of a method calls ``run(step, …)`` for each.

Who runs them decides what happens. ``Fit`` does the work, and keeps finished steps in a checkpoint. ``DryRun`` only
asks each step what it costs and how large its results are. Within ``sharing``, a fit takes the result of a
shared step that was done before with the same arguments.

A step is a function of features, arrays and numbers:

    @step("mean", cost=lambda X: Stage(read=Size.of(X).bytes()), gives=lambda X: Sized((X.shape[1],)), kept=ARRAY)
    def mean(X): ...

``_fit`` may look at shapes, which are the same in a dry run, or larger: a dry run expects full rank. What looks at
values is a step.
"""

import hashlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field, is_dataclass, replace
from functools import update_wrapper
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from isch import progress
from isch.features import Features
from isch.fitting.checkpoint import Arrays, Store
from isch.fitting.costs import Stage

P = ParamSpec("P")
R = TypeVar("R")


class Sized:
    """Stands for an array, or features, in a dry run: a shape and a type but no values."""

    where = "a dry run"

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * self.dtype.itemsize


class Kept(NamedTuple):
    """How a checkpoint keeps the result of a step."""

    arrays: Callable[[Any], Arrays]
    restored: Callable[..., Any]  # from these arrays


ARRAY = Kept(lambda array: (array,), lambda array: array)
ARRAYS = Kept(tuple, lambda *arrays: arrays)


class Step(Generic[P, R]):
    """A function that says beforehand what it costs and the sizes of its results. Called directly, it is the function.

    Parameters
    ----------
    function : callable
        The work. One that is ``random`` takes ``rng``; one made of steps takes ``run``.
    label : str
        Its name in progress, plans and checkpoints.
    cost : callable, optional
        From the same arguments to a ``Stage``, or a list of them; without it, the step costs next to nothing.
    gives : callable, optional
        From the same arguments to the result with ``Sized`` in place of arrays; None for a step made of steps.
    kept : Kept, optional
        How a checkpoint keeps the result; without it, the step is done again.
    random : bool
        Whether it draws random numbers.
    shared : bool
        Whether fits of several code lengths may share its result (``sharing``).
    """

    def __init__(
        self,
        function: Callable[P, R],
        label: str,
        cost: Callable[..., Stage | list[Stage]] | None,
        gives: Callable[..., Any] | None,
        kept: Kept | None,
        random: bool,
        shared: bool,
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self.label = label
        self.cost = cost
        self.gives = gives
        self.kept = kept
        self.random = random
        self.shared = shared

    def __call__(self, *args: P.args, **options: P.kwargs) -> R:
        return self.function(*args, **options)

    def named(self, label: str) -> "Step[P, R]":
        """The same step under another label, for one of several."""
        other = copy(self)
        other.label = label
        return other

    def stages(self, *args: Any, **options: Any) -> list[Stage]:
        """What it costs, under its label."""
        if self.cost is None:
            return []
        cost = self.cost(*args, **options)
        return [replace(stage, label=self.label) for stage in (cost if isinstance(cost, list) else [cost])]


def step(
    label: str = "",
    *,
    cost: Callable[..., Stage | list[Stage]] | None = None,
    gives: Callable[..., Any] | None = None,
    kept: Kept | None = None,
    random: bool = False,
    shared: bool = False,
) -> Callable[[Callable[P, R]], Step[P, R]]:
    """Make a step of a function; see ``Step``."""
    return lambda function: Step(function, label, cost, gives, kept, random, shared)


class Run(ABC):
    """Somebody who runs the steps of a fit."""

    @abstractmethod
    def __call__(self, step: Step[..., R], *args: Any, **options: Any) -> R:
        """The result of a step, or its sizes."""

    @contextmanager
    def holding(self, *arrays: Any) -> Iterator[None]:
        """Say that these arrays stay in memory during the steps inside this block."""
        yield


class DryRun(Run):
    """Does nothing: ``stages`` are what the steps would cost."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self._held = 0

    def __call__(self, step: Step[..., R], *args: Any, **options: Any) -> R:
        result: R
        if step.gives is None:
            result = step.function(*args, **options, run=self)
        else:
            result = step.gives(*args, **options)
            self.stages += [self._held_too(stage) for stage in step.stages(*args, **options)]
        if self.stages and step.kept:
            kept = _n_bytes(result)
            self.stages[-1] = replace(self.stages[-1], kept=self.stages[-1].kept + kept)
        return result

    @contextmanager
    def holding(self, *arrays: Any) -> Iterator[None]:
        held = sum(array.nbytes for array in arrays)
        self._held += held
        yield
        self._held -= held

    def _held_too(self, stage: Stage) -> Stage:
        return replace(stage, memory=stage.memory + self._held)


class Fit(Run):
    """Does the work, one step after the other.

    Parameters
    ----------
    rng : Generator
        The random numbers of all steps, in their order.
    checkpoint : Store, optional
        Where finished steps are kept.
    """

    def __init__(self, rng: np.random.Generator, checkpoint: Store | None = None) -> None:
        self._rng = rng
        self._checkpoint = checkpoint

    def __call__(self, step: Step[..., R], *args: Any, **options: Any) -> R:
        known = _known.get()
        if known is None or not step.shared:
            return self._result(step, *args, **options)
        found: R = known.result(step, (args, options), self._rng, lambda: self._result(step, *args, **options))
        return found

    def _result(self, step: Step[..., R], *args: Any, **options: Any) -> R:
        def work(checkpoint: Store | None) -> R:
            if step.gives is None:
                options["run"] = Fit(self._rng, checkpoint)
            if step.random:
                options["rng"] = self._rng
            with progress.stage(step.label):
                return step.function(*args, **options)

        if step.kept is None:
            return work(self._checkpoint)
        kept = step.kept
        if self._checkpoint is None:
            arrays = kept.arrays(work(None))
        else:
            # a step made of steps may draw random numbers in any of them
            rng = self._rng if step.random or step.gives is None else None
            arrays = self._checkpoint.stage(step.label, rng, lambda inner: kept.arrays(work(inner)))
        result: R = kept.restored(*arrays)
        return result


@dataclass(frozen=True)
class Result:
    """The result of a step, for which arguments, the random numbers after it, and the seconds it took."""

    key: str
    value: Any
    state: Any
    wall: float
    cpu: float


@dataclass
class Known:
    """The last result of each step that fits may share."""

    last: dict[str, Result] = field(default_factory=dict)
    saved_wall: float = 0.0  # seconds not spent
    saved_cpu: float = 0.0

    def result(self, step: Step[..., Any], arguments: Any, rng: np.random.Generator, make: Callable[[], Any]) -> Any:
        """The result of a step; ``rng`` is as after it either way."""
        key = _key((arguments, rng.bit_generator.state))
        last = self.last.get(step.label)
        if last is not None and last.key == key:
            rng.bit_generator.state = last.state
            self.saved_wall += last.wall
            self.saved_cpu += last.cpu
            return last.value
        wall = time.perf_counter()
        cpu = time.process_time()
        value = make()
        spent = time.perf_counter() - wall, time.process_time() - cpu
        self.last[step.label] = Result(key, value, rng.bit_generator.state, *spent)
        return value


def _n_bytes(result: Any) -> int:
    """Bytes of all arrays in the result of a step."""
    if isinstance(result, Sized):
        return result.nbytes
    parts = vars(result).values() if is_dataclass(result) else result if isinstance(result, tuple | list) else ()
    return sum(map(_n_bytes, parts))


_known: ContextVar[Known | None] = ContextVar("isch_known_steps", default=None)


@contextmanager
def sharing(known: Known) -> Iterator[None]:
    """Fits inside this block take what is known, and add to it; what they learn does not change."""
    token = _known.set(known)
    try:
        yield
    finally:
        _known.reset(token)


def _key(arguments: Any) -> str:
    """The same for the same arguments. Features count by shape and name: a step that shares them also takes a mean."""
    digest = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, np.ndarray):
            digest.update(f"{value.shape}{value.dtype}".encode())
            digest.update(np.ascontiguousarray(value).data)
        elif isinstance(value, Features):
            digest.update(f"{value.where}{value.shape}{value.dtype}".encode())
        elif isinstance(value, dict):
            add(sorted(value.items()))
        elif isinstance(value, tuple | list):
            digest.update(f"{type(value).__name__}{len(value)}".encode())
            for one in value:
                add(one)
        else:
            digest.update(repr(value).encode())

    add(arguments)
    return digest.hexdigest()
