"""What learned attributes must look like, so that a model file can be checked before any of it is used.

A class declares its attributes: ``{"mean_": Array("float64", "d"), "projection_": Array("float32", "d", "m")}``. Sizes
are numbers or letters. A letter stands for the same number everywhere: ``d`` is the number of features, ``m`` the
number of bits, and the name of a parameter stands for its value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import InputError


@dataclass(frozen=True, init=False)
class Array:
    """An array of finite numbers of this type and shape; ``sparse`` in CSR form."""

    dtype: str
    shape: tuple[int | str, ...]
    sparse: bool

    def __init__(self, dtype: str, *shape: int | str, sparse: bool = False) -> None:
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "sparse", sparse)


@dataclass(frozen=True)
class Optional:
    """An attribute that may be missing or None."""

    of: "Array | type"


Expected = Mapping[str, Array | Optional | type]


def check(expected: Expected, learned: Mapping[str, Any], sizes: Mapping[str, Any]) -> dict[str, int]:
    """Refuse attributes that are missing, unknown, or not of the expected type and shape; gives the size of letters."""
    strange = sorted(set(learned) - set(expected))
    if strange:
        raise InputError(f"{strange[0]} is not something this method learns; expected {', '.join(sorted(expected))}")
    known = dict(sizes)
    for name, form in expected.items():
        value = learned.get(name)
        if isinstance(form, Optional):
            if value is None:
                continue
            form = form.of
        if name not in learned:
            raise InputError(f"{name} is missing")
        if isinstance(form, Array):
            _check_array(name, value, form, known)
        elif not _is_a(value, form):
            raise InputError(f"{name} must be of type {form.__name__}; got {' '.join(repr(value).split()):.80}")
    return known


def shortened(expected: Expected, learned: Mapping[str, Any], letter: str, size: int) -> dict[str, Any]:
    """The arrays that have a side of this letter, cut to their first ``size`` entries along it."""
    arrays = {name: form.of if isinstance(form, Optional) else form for name, form in expected.items()}
    return {
        name: np.ascontiguousarray(learned[name][tuple(slice(size if side == letter else None) for side in form.shape)])
        for name, form in arrays.items()
        if isinstance(form, Array) and letter in form.shape and learned.get(name) is not None
    }


def n_bytes(learned: Mapping[str, Any]) -> int:
    """Bytes of the arrays; sparse ones in CSR form."""
    total = 0
    for value in learned.values():
        parts = (value.data, value.indices, value.indptr) if hasattr(value, "indptr") else (value,)
        total += sum(part.nbytes for part in parts if hasattr(part, "nbytes"))
    return total


def check_range(name: str, numbers: NDArray[Any], stop: int) -> None:
    """Refuse numbers that are used to choose one of ``stop`` things and lie outside 0 … stop − 1."""
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < stop):
        raise InputError(f"{name} must hold numbers from 0 to {stop - 1}; got {numbers.min()} to {numbers.max()}")


def _check_array(name: str, value: Any, form: Array, known: dict[str, Any]) -> None:
    if not (hasattr(value, "indptr") if form.sparse else isinstance(value, np.ndarray)):
        raise InputError(f"{name} must be {'a sparse matrix' if form.sparse else 'an array'}; got {value!r:.80}")
    wanted = tuple(_size(size, axis, value.shape, known) for axis, size in enumerate(form.shape))
    if value.dtype != form.dtype or value.shape != wanted:
        raise InputError(f"{name} must be {form.dtype} of shape {wanted}; got {value.dtype} of shape {value.shape}")
    if not np.isfinite(value.data if form.sparse else value).all():
        raise InputError(f"{name} holds NaN or infinity; expected finite numbers")


def _size(size: int | str, axis: int, shape: tuple[int, ...], known: dict[str, Any]) -> Any:
    """A number as it is; a letter stands for the first number it was matched with."""
    return size if isinstance(size, int) else known.setdefault(size, shape[axis] if axis < len(shape) else 1)


def _is_a(value: Any, form: type) -> bool:
    """Whether a value of the header has a type; integers must be counts, and booleans are not numbers."""
    if isinstance(value, bool):
        return form is bool
    if form is int:
        return isinstance(value, int) and 0 <= value < 1 << 63
    return isinstance(value, int | float if form is float else form)
