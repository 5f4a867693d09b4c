"""An items file: keys in order, metadata in columns. docs/formats.md gives it byte by byte.

It is opened without being read. A ``where`` compares the small integers of a column; a key is found by bisection.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from isch.errors import FormatError
from isch.files import plain
from isch.search.catalog import Key
from isch.search.filters import Test
from isch.search.items.body import Body
from isch.search.items.contents import Column, Integers, Marks, Metadata, Rows, Shapes
from isch.search.items.fields import Fields
from isch.search.items.keys import Keys
from isch.search.sealed import ITEMS, SegmentFile

KEY_SECTIONS, FIELD_SECTIONS = 5, 6


class StoredItems:
    """The items of one segment, open for reading by any number of threads.

    Parameters
    ----------
    path : Path
        Its file.
    n_rows : int
        Rows of the segment.
    n_bytes : int
        Bytes of the file.
    digest : str
        The digest of its header, in hexadecimal.
    """

    def __init__(self, path: Path, n_rows: int, n_bytes: int, digest: str) -> None:
        self.path, self.n_rows, self.n_bytes = path, n_rows, n_bytes
        size = plain(path).stat().st_size
        if size != n_bytes:
            raise FormatError(f"{path}: the items are damaged (expected {n_bytes} bytes; got {size})")
        self.file = SegmentFile(path, ITEMS, (n_rows, 1), digest)
        content = self.file.array("u1", (self.file.header.body_bytes,))
        body = Body(path, content, KEY_SECTIONS + FIELD_SECTIONS)
        self._keys = Keys(body, body.sections[:KEY_SECTIONS], n_rows)
        self._fields = Fields(body, body.sections[KEY_SECTIONS:], n_rows)

    def __len__(self) -> int:
        return self.n_rows

    def named(self, rows: Sequence[int]) -> dict[int, tuple[Key, Metadata]]:
        """(key, metadata) of different rows, each of which must be there."""
        chosen = np.asarray(rows, np.int64)
        return dict(zip(rows, zip(self._keys.of(chosen), self._fields.of(chosen), strict=True), strict=True))

    def find(self, keys: Iterable[Key]) -> dict[Key, int]:
        """The rows of those of some keys that are here."""
        return self._keys.find(keys)

    def by_row(self) -> Iterator[tuple[int, Key]]:
        """(row, key) of every item in the order of rows."""
        return self._keys.by_row()

    def sorted(self) -> Iterator[tuple[Key, int]]:
        """(key, row) of every item in the order of keys: integers, then texts by their Unicode code points."""
        return self._keys.sorted()

    def matching(self, tests: Sequence[Test]) -> Rows:
        """The rows, rising, whose metadata pass all tests."""
        return self._fields.matching(tests, self._keys.present())

    def fields(self, live: Marks | None) -> set[str]:
        """The names of all fields of the metadata of rows that are not deleted."""
        if live is None:
            return set(self._fields.names)
        codes, shapes = self.shapes()
        used = np.flatnonzero(np.bincount(codes[live], minlength=1)).tolist()
        return {name for shape in used if shape for name in shapes[shape - 1]}

    def largest_integer_key(self) -> int | None:
        """The largest integer among the keys."""
        values, _ = self.integers()
        return int(values[-1]) if len(values) else None

    def present(self) -> Marks:
        """Which rows have an item."""
        return self._keys.present()

    def check(self) -> None:
        """Read the whole file, compare it with its checksum, and its parts with each other."""
        self.file.check()
        self._keys.check()
        self._fields.check()

    def source(self) -> "StoredItems":
        """Itself: what a merge reads."""
        return self

    def integers(self) -> tuple[Rows, Rows]:
        """The keys that are integers, rising, and their rows."""
        return self._keys.integers()

    def texts(self) -> Iterator[tuple[list[str], Rows]]:
        """The keys that are texts, in order, and their rows, some at a time."""
        return self._keys.texts()

    def shapes(self) -> tuple[Integers, Shapes]:
        """The shape of each row, and all shapes."""
        return self._fields.shapes()

    def column(self, name: str) -> Column | None:
        """The column of a field."""
        return self._fields.column(name)
