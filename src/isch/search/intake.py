"""What goes into an index: features, which its hasher turns into codes, or codes; as rows to store and as queries."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isch import codes as packed
from isch import features as feature_sources
from isch.codes import Codes
from isch.errors import InputError
from isch.features import Features, dense
from isch.search.writer import Part, Rows

if TYPE_CHECKING:
    from isch.hashing.base import Hasher

CODE_ROWS = 65_536


@dataclass(frozen=True)
class Queries:
    """Queries as codes, and as the real values their bits are the signs of (none without a hasher)."""

    codes: Codes
    values: NDArray[np.float32]
    features: Callable[[], NDArray[np.float32]]


def feature_rows(source: Any, hasher: "Hasher", keep: str | None) -> Rows:
    """Features, to be stored as the codes a hasher makes of them."""
    features = _open(source)
    if features.shape[1] != hasher.n_features_in_:
        raise InputError(
            f"{features.where}: expected {hasher.n_features_in_} columns, as the model has; got {features.shape[1]}"
        )
    return Rows(len(features), _encoded(features, hasher, keep), features.names)


def code_rows(source: Any, n_bits: int) -> Rows:
    """Codes, to be stored as they are."""
    features = _open(source)
    check_codes(features.read(0, 0), n_bits, features.where)
    parts = ((check_codes(block, n_bits, features.where), None) for _, block in features.batches(CODE_ROWS))
    return Rows(len(features), parts, features.names)


def queries(source: Any, hasher: "Hasher | None", n_bits: int) -> Queries:
    """Queries as features for a hasher, or as codes if there is none; a single vector is one query."""
    features = _open(source)
    if hasher is None:
        codes = check_codes(features.read(0, len(features)), n_bits, features.where)
        return Queries(codes, np.empty((len(codes), 0), np.float32), lambda: np.empty((len(codes), 0), np.float32))
    if features.shape[1] != hasher.n_features_in_:
        raise InputError(
            f"{features.where}: expected queries of {hasher.n_features_in_} columns, as the model has; "
            f"got {features.shape[1]}"
        )
    values = hasher.project(features)
    return Queries(packed.pack(values >= 0), values, lambda: dense(features.read(0, len(features))))


def check_codes(codes: Any, n_bits: int, where: str) -> Codes:
    """Codes of the right type and width whose padding bits are zero."""
    array = packed.check(codes, packed.width(n_bits), f"{where}: codes")
    padding = 2 ** (-n_bits % 8) - 1
    if padding and (array[:, -1] & padding).any():
        row = int(np.flatnonzero(array[:, -1] & padding)[0])
        raise InputError(f"{where}: the bits after bit {n_bits} of a code must be zero; they are not in row {row}")
    return array


def _open(source: Any) -> Features:
    """Any source; a single vector, also in a .npy file, is a matrix of one row."""
    if isinstance(source, np.ndarray | list | tuple) and len(source) and np.ndim(source[0]) == 0:
        return feature_sources.open(np.asarray(source)[None])
    if isinstance(source, str | os.PathLike) and os.fspath(source).endswith(".npy") and os.path.isfile(source):
        with suppress(ValueError, EOFError):
            vector = np.load(source, mmap_mode="r", allow_pickle=False)
            return feature_sources.open(vector[None] if vector.ndim == 1 else source)
    return feature_sources.open(source)


def _encoded(features: Features, hasher: "Hasher", keep: str | None) -> Iterator[Part]:
    start = 0
    for codes in hasher.encode(features):
        stop = start + len(codes)
        yield codes, None if keep is None else _kept(features.read(start, stop), keep, features.where, start)
        start = stop


def _kept(block: Any, dtype: str, where: str, start: int) -> NDArray[Any]:
    rows = dense(block, np.float32)
    with np.errstate(over="ignore"):
        kept = rows.astype(dtype)
    bad = ~np.isfinite(kept).all(axis=1)
    if bad.any():
        row = start + int(bad.argmax())
        raise InputError(f"{where}: row {row} does not fit {dtype}, whose largest value is {np.finfo(dtype).max}")
    return kept
