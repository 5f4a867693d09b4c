"""The .fvecs, .bvecs and .ivecs files of the TEXMEX data sets: each row is its length (int32), then its values."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import FormatError
from isch.features.base import Block, Features
from isch.features.checks import check_matrix
from isch.features.formats import refuse_member
from isch.files import reading

KIND = ".fvecs, .bvecs or .ivecs file"
TYPES: dict[str, np.dtype[Any]] = {".fvecs": np.dtype("<f4"), ".bvecs": np.dtype("u1"), ".ivecs": np.dtype("<i4")}


class VecsFeatures(Features):
    """The file memory-mapped; the length before each row is checked whenever the row is read."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self.dtype = TYPES[path.suffix]
        with reading(path) as stream:
            file: Any = stream
            size = file.seek(0, 2)
            file.seek(0)
            if size < 4:
                raise FormatError(f"{path}: the file is empty")
            width = int.from_bytes(file.read(4), "little", signed=True)
            if width < 1 or size % (4 + width * self.dtype.itemsize):
                raise FormatError(
                    f"{path}: not a whole number of {path.suffix[1:]} rows ({size:,} bytes, first length {width})"
                )
            self.shape = check_matrix((size // (4 + width * self.dtype.itemsize), width), self.dtype, self.where)
            layout = np.dtype([("length", "<i4"), ("values", self.dtype, (width,))])
            self._rows: NDArray[Any] = np.memmap(file, layout, mode="r", shape=(self.shape[0],))

    def read(self, start: int, stop: int) -> Block:
        return self._checked(self._rows[start:stop], np.arange(start, stop))

    def take(self, rows: NDArray[np.intp]) -> Block:
        return self._checked(self._rows[rows], rows)

    def _checked(self, rows: NDArray[Any], numbers: NDArray[np.intp]) -> Block:
        odd = rows["length"] != self.shape[1]
        if odd.any():
            first = int(odd.argmax())
            raise FormatError(
                f"{self.where}: row {numbers[first]} has {rows['length'][first]} values; expected {self.shape[1]}, "
                "as in the first row"
            )
        values: NDArray[Any] = rows["values"]
        return values


def open_features(path: Path, member: str | None) -> Features:
    """A file of vectors."""
    refuse_member(member, path)
    return VecsFeatures(path)
