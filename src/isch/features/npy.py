"""The .npy files of NumPy, memory-mapped. ``x.names.npy`` beside ``x.npy`` names its rows."""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as layout
from numpy.typing import NDArray

from isch.errors import FormatError
from isch.features.arrays import ArrayFeatures
from isch.features.base import Features, dense
from isch.features.checks import check_matrix
from isch.features.content import Content, write_beside
from isch.features.file import in_our_words
from isch.features.formats import refuse_member
from isch.files import printable, reading, replacing

KIND = ".npy file"
SIDES = ("names", "labels")  # x.names.npy and x.labels.npy belong to x.npy


class NpyFeatures(ArrayFeatures):
    """A mapped .npy file, with the names beside it."""

    def __init__(self, path: Path) -> None:
        super().__init__(mapped(path), str(path))
        self._beside = path.with_suffix(".names.npy")

    def _load_names(self) -> Sequence[str] | None:
        return strings(mapped(self._beside), str(self._beside)) if self._beside.exists() else None


class Header(NamedTuple):
    """What the beginning of a .npy file says."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def size(self) -> int:
        """The bytes the file must have."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize


def open_features(path: Path, member: str | None) -> Features:
    """A .npy file."""
    refuse_member(member, path)
    return NpyFeatures(path)


def write(path: Path, content: Content) -> None:
    """``x.npy``, its sides ``x.names.npy`` and ``x.labels.npy``, and the attachments beside it."""
    for side, values in zip(SIDES, (content.names, content.labels), strict=True):
        with replacing(path.with_suffix(f".{side}.npy")) as temporary, temporary.open("wb") as file:
            np.save(file, np.array(values, np.str_))
    write_beside(path, content)
    with replacing(path) as temporary, temporary.open("wb") as file:
        fields = {"descr": content.dtype.str, "fortran_order": False, "shape": content.shape}
        layout.write_array_header_1_0(file, fields)
        for block in content.blocks():
            file.write(np.ascontiguousarray(dense(block, content.dtype)).data)


def header(file: IO[bytes], where: str) -> Header:
    """Read the header of a .npy file; Python objects are refused, because only unpickling could read them."""
    version = layout.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise FormatError(f"{where}: version {version[0]}.{version[1]} of the .npy format; expected 1.0 or 2.0")
    read = layout.read_array_header_1_0 if version == (1, 0) else layout.read_array_header_2_0
    try:
        shape, fortran, dtype = read(file)
    except Exception as error:  # of several kinds; the text may advise to trust the file
        raise FormatError(f"{where}: the header of the .npy format is damaged, or longer than 10,000 bytes") from error
    if dtype.hasobject:
        raise FormatError(f"{where}: holds Python objects, which are never loaded; expected numbers")
    if min(shape, default=0) < 0:
        raise FormatError(f"{where}: a negative size in the header (shape {shape})")
    return Header(shape, bool(fortran), dtype, file.tell())


def load(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The array of a .npy file of any shape, memory-mapped, for callers that need an array and not ``Features``.

    Raises
    ------
    FileError
        It is not a .npy file, is damaged, or holds Python objects.
    """
    with in_our_words(printable(path), KIND):
        return mapped(Path(path))


def mapped(path: Path) -> NDArray[Any]:
    """The array of a .npy file; the size of the file must match its header."""
    with reading(path) as file:
        head, size = header(file, str(path)), os.fstat(file.fileno()).st_size
        if size != head.size:
            raise FormatError(f"{path}: {size:,} bytes; expected {head.size:,} for shape {head.shape} of {head.dtype}")
        if not math.prod(head.shape):
            check_matrix(head.shape, head.dtype, str(path))
        stream: Any = file
        return np.memmap(stream, head.dtype, "r", head.offset, head.shape, "F" if head.fortran else "C")


def strings(array: NDArray[Any], where: str) -> list[str]:
    """A list of strings from an array of them."""
    if array.ndim != 1 or array.dtype.kind not in "US":
        raise FormatError(f"{where}: expected a list of strings; got {array.dtype} of shape {array.shape}")
    return [name.decode() if isinstance(name, bytes) else str(name) for name in array.tolist()]
