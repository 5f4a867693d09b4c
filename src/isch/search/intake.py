"""What goes into an index, as rows to store and as queries: features or pictures to be encoded, or codes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isch import codes as packed
from isch import features as feature_sources
from isch.codes import Codes
from isch.encoder import Encoder, open_vectors
from isch.errors import InputError
from isch.features import Features, dense
from isch.lazy import Lazy
from isch.search.catalog import FACTORS
from isch.search.writer import Part, Rows

if TYPE_CHECKING:
    from isch.hashing import distance as estimator
    from isch.hashing.base import Hasher
else:
    estimator = Lazy("isch.hashing.distance")

CODE_ROWS = 65_536
KEPT_ROWS, KEPT_BYTES = 1024, 64 << 20  # rows read at once where features are kept: at least so many rows or bytes


@dataclass(frozen=True)
class Queries:
    """Queries as codes, as real values whose signs are the bits, and as features; the last two with a hasher."""

    codes: Codes
    values: NDArray[np.float32]
    features: NDArray[np.float32]
    hasher: "Hasher | None" = None


def feature_rows(source: Any, encoder: Encoder, keep: str | None) -> Rows:
    """Features or pictures, to be stored as the codes an encoder makes of them."""
    features = encoder.features(source)
    return Rows(len(features), _encoded(features, encoder, keep), features.names)


def code_rows(source: Any, n_bits: int) -> Rows:
    """Codes, to be stored as they are."""
    features = open_vectors(source)
    check_codes(features.read(0, 0), n_bits, features.where)
    parts = ((check_codes(block, n_bits, features.where), None) for _, block in features.batches(CODE_ROWS))
    return Rows(len(features), parts, features.names)


def queries(source: Any, encoder: Encoder | None, n_bits: int) -> Queries:
    """Queries as features or pictures for an encoder, or as codes if there is none; a single vector is one query."""
    if encoder is None:
        opened = open_vectors(source)
        codes = check_codes(opened.read(0, len(opened)), n_bits, opened.where)
        nothing = np.empty((len(codes), 0), np.float32)
        return Queries(codes, nothing, nothing)
    features = encoder.features(source)
    rows = features.read(0, len(features))
    values = encoder.hasher.project(feature_sources.open(rows))
    return Queries(packed.pack(values >= 0), values, dense(rows), encoder.hasher)


def count(source: Any, encoder: Encoder | None) -> int:
    """How many queries there are; a number says it itself."""
    if isinstance(source, int | np.integer):
        return int(source)
    return len(open_vectors(source) if encoder is None else encoder.features(source))


def check_codes(codes: Any, n_bits: int, where: str, first: int = 0) -> Codes:
    """Codes of the right type and width whose padding bits are zero; ``first`` is the number of the first row."""
    array = packed.check(codes, packed.width(n_bits), f"{where}: codes")
    padding = 2 ** (-n_bits % 8) - 1
    if padding and (array[:, -1] & padding).any():
        row = first + int(np.flatnonzero(array[:, -1] & padding)[0])
        raise InputError(f"{where}: the bits after bit {n_bits} of a code must be zero; they are not in row {row}")
    return array


def _encoded(features: Features, encoder: Encoder, keep: str | None) -> Iterator[Part]:
    """Codes, and the features or factors where they are kept; each row is read once."""
    if keep is None:
        yield from ((codes, None) for codes in encoder.hasher.encode(features))
        return
    for start, block in features.batches(max(KEPT_ROWS, KEPT_BYTES // (features.shape[1] * features.dtype.itemsize))):
        if keep == FACTORS:
            yield _with_factors(block, encoder.hasher)
        else:
            yield encoder.hasher.transform(feature_sources.open(block)), _kept(block, keep, features.where, start)


def _with_factors(block: Any, hasher: "Hasher") -> Part:
    """Codes and factors from the same values."""
    values = hasher.project(feature_sources.open(block))
    return packed.pack(values >= 0), estimator.paired(
        estimator.Lengths.of(hasher)(block), values, estimator.thresholds_of(hasher)
    )


def _kept(block: Any, dtype: str, where: str, start: int) -> NDArray[Any]:
    rows = dense(block, np.float32)
    with np.errstate(over="ignore"):
        kept = rows.astype(dtype)
    bad = ~np.isfinite(kept).all(axis=1)
    if bad.any():
        row = start + int(bad.argmax())
        raise InputError(f"{where}: row {row} does not fit {dtype}, whose largest value is {np.finfo(dtype).max}")
    return kept
