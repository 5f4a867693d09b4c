"""Single values from a TIFF structure: a TIFF or camera RAW file, or the EXIF block of any picture.

Only directories and requested values are read, so that a crafted structure costs nothing.
"""

import struct
from dataclasses import dataclass
from typing import BinaryIO

ORDERS = {b"II": "<", b"MM": ">"}
SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}  # bytes per value by type
OPAQUE = frozenset((1, 2, 7))  # bytes and text, which readers keep as they are
INTEGERS = {1: "B", 3: "H", 4: "I"}
SUBFILE, SUB_IFDS, EXIF, GPS, INTEROPERABILITY, DNG_VERSION = 254, 330, 34665, 34853, 40965, 50706


@dataclass(frozen=True)
class Entry:
    """Where a value is."""

    type: int
    count: int
    position: int


class Directory:
    """The entries of one directory (IFD).

    Raises ``struct.error`` or ``ValueError`` where the structure is damaged.
    """

    def __init__(self, file: BinaryIO, order: str, position: int) -> None:
        self._file, self._order = file, order
        (count,) = struct.unpack(f"{order}H", _read(file, position, 2))
        content = _read(file, position + 2, 12 * count)
        self.entries: dict[int, Entry] = {}
        for i, (tag, kind, n, value) in enumerate(struct.iter_unpack(f"{order}HHII", content)):
            inline = n * SIZES.get(kind, 0) <= 4
            self.entries.setdefault(tag, Entry(kind, n, position + 2 + 12 * i + 8 if inline else value))

    def integer(self, tag: int) -> int | None:
        """The first value of a tag that holds integers."""
        entry = self.entries.get(tag)
        if entry is None or entry.type not in INTEGERS or not entry.count:
            return None
        content = _read(self._file, entry.position, SIZES[entry.type])
        return int(struct.unpack(f"{self._order}{INTEGERS[entry.type]}", content)[0])

    def text(self, tag: int, most: int) -> bytes | None:
        """The first ``most`` bytes of a tag that holds text."""
        entry = self.entries.get(tag)
        if entry is None or entry.type not in OPAQUE:
            return None
        return _read(self._file, entry.position, min(entry.count, most))

    def inner(self, tag: int) -> "Directory | None":
        """The directory a tag points to."""
        position = self.integer(tag)
        return None if position is None else Directory(self._file, self._order, position)

    @property
    def numbers(self) -> int:
        """How many numbers the entries announce."""
        return sum(entry.count for entry in self.entries.values() if entry.type not in OPAQUE)


def first_directory(file: BinaryIO, start: int = 0) -> Directory:
    """The first directory of a file."""
    head = _read(file, start, 8)
    if head[:2] not in ORDERS:
        raise ValueError("neither II nor MM")
    order = ORDERS[head[:2]]
    return Directory(file, order, struct.unpack(f"{order}I", head[4:])[0])


def _read(file: BinaryIO, position: int, size: int) -> bytes:
    file.seek(position)
    return file.read(size)
