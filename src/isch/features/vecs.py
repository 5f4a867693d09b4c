"""The .fvecs, .bvecs and .ivecs files of the TEXMEX data sets: each row is its length (int32), then its values."""

from pathlib import Path
from typing import Any

import numpy as np

from isch.errors import FormatError
from isch.features.arrays import ArrayFeatures
from isch.features.base import Features

TYPES: dict[str, np.dtype[Any]] = {".fvecs": np.dtype("<f4"), ".bvecs": np.dtype("u1"), ".ivecs": np.dtype("<i4")}


def open_vecs(path: Path, _: str | None) -> Features:
    """The file memory-mapped; the length before each row is checked on the first and last row."""
    value = TYPES[path.suffix]
    if path.stat().st_size < 4:
        raise FormatError(f"{path}: the file is empty")
    width = int(np.fromfile(path, "<i4", count=1)[0])
    if width < 1 or path.stat().st_size % (4 + width * value.itemsize):
        raise FormatError(
            f"{path}: not a whole number of {path.suffix[1:]} rows ({path.stat().st_size} bytes, first length {width})"
        )
    rows = np.memmap(path, np.dtype([("length", "<i4"), ("values", value, (width,))]), mode="r")
    if rows["length"][-1] != width:
        raise FormatError(f"{path}: rows differ in length ({width} in the first, {rows['length'][-1]} in the last)")
    return ArrayFeatures(rows["values"], str(path))
