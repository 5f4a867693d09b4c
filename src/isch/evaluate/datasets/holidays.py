"""INRIA Holidays, alone or among the distractors of Flickr1M: images, or local descriptors in .siftgeo files.

A Holidays file is named by a number; images of one scene share it divided by 100, and the official queries are the
500 whose number is divisible by 100.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isch.errors import FormatError
from isch.evaluate.datasets.base import DISTRACTOR, Dataset, missing
from isch.files import content

GEOMETRY = 9  # x, y, scale, angle, mi11, mi12, mi21, mi22, cornerness
SIFTGEO = np.dtype([("geometry", "<f4", GEOMETRY), ("length", "<i4"), ("values", "u1", 128)])  # 168 bytes
LARGEST = 64 << 20  # bytes of a file: 400,000 regions
SOURCE = "they can be downloaded from https://thoth.inrialpes.fr/~jegou/data.php"


def load(folder: Path, descriptors: bool = False) -> Dataset:
    """holidays/jpg/*.jpg (or siftgeo/*.siftgeo) and, as distractors, the folder flickr1m/ next to it if it exists."""
    kind, suffix = ("siftgeo", "siftgeo") if descriptors else ("jpg", "jpg")
    scenes = sorted((folder / kind).glob(f"*.{suffix}"))
    if not scenes:
        files = [f"{kind}/100000.{suffix} …"]
        archives = "siftgeo.tar.gz" if descriptors else "jpg1.tar.gz and jpg2.tar.gz"
        raise missing("holidays", folder, files, f"they are in {archives}; {SOURCE}")
    others = sorted((folder.parent / "flickr1m").rglob(f"*.{suffix}"))
    numbers = _numbers(scenes)
    labels = np.concatenate([numbers // 100, np.full(len(others), DISTRACTOR)])
    paths = [*scenes, *others]
    return Dataset(
        "holidays+flickr1m" if others else "holidays",
        len(paths),
        labels,
        images=None if descriptors else paths,
        local=paths if descriptors else None,
        queries=np.flatnonzero(numbers % 100 == 0),
    )


def _numbers(paths: list[Path]) -> NDArray[np.int64]:
    odd = next((path for path in paths if not path.stem.isdigit()), None)
    if odd is not None:
        raise FormatError(f"{odd}: expected a file named by its number, such as 100000{odd.suffix}")
    return np.array([int(path.stem) for path in paths], np.int64)


def read_siftgeo(path: Path) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """(geometry (n, 9), SIFT (n, 128)) of a .siftgeo file; an empty file is an image without regions."""
    raw = content(path, LARGEST, "a .siftgeo file")
    if len(raw) % SIFTGEO.itemsize:
        size = SIFTGEO.itemsize
        raise FormatError(f"{path}: expected a whole number of {size}-byte descriptors; got {len(raw)} bytes")
    rows = np.frombuffer(raw, SIFTGEO)
    if len(rows) and not (rows["length"] == 128).all():
        raise FormatError(f"{path}: expected descriptors of length 128; got {int(rows['length'][0])}")
    return np.ascontiguousarray(rows["geometry"]), np.ascontiguousarray(rows["values"])
