"""The keys of an items file: integers and texts in their order, and which row has which."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from isch.search.catalog import Key
from isch.search.items.body import AT_ONCE, Body, Section, signed
from isch.search.items.contents import Integers, Marks, Rows

SCAN_SHARE = 1 / 16  # of all keys, when more are wanted than this it is faster to read all


class Keys:
    """Keys that are being read. A place is the number of a key in the order of keys.

    Parameters
    ----------
    body : Body
        The file.
    sections : sequence of Section
        Integers, bytes and starts of texts, the row of each place, the place of each row.
    n_rows : int
        Rows of the segment.
    """

    def __init__(self, body: Body, sections: Sequence[Section], n_rows: int) -> None:
        integers, content, starts, rows, places = sections
        self._body, self.n_rows = body, n_rows
        self._integers = body.integers(integers)
        if self._integers.itemsize != 8:
            raise body.damaged("its integer keys do not have 8 bytes")
        self._integers = self._integers.view("<i8")
        self._texts = body.texts(content, starts)
        self._rows, self._places = body.integers(rows), body.integers(places)
        sizes = (len(self._rows), len(self._places))
        if sizes != (len(self), n_rows) and (sizes != (0, 0) or len(self) != n_rows):
            raise body.damaged(f"it does not have a key for each of {n_rows} rows")

    def __len__(self) -> int:
        return len(self._integers) + len(self._texts)

    def of(self, rows: Rows) -> list[Key]:
        """The keys of rows."""
        places, first = self._place_of(rows), len(self._integers)
        if len(places) and (missing := places >= len(self)).any():
            raise self._body.damaged(f"row {rows[missing.argmax()]} has no item")
        number = places < first
        numbers = iter(self._integers[places[number]].tolist())
        texts = iter(self._texts.some(places[~number] - first))
        return [next(numbers) if is_number else next(texts) for is_number in number.tolist()]

    def find(self, keys: Iterable[Key]) -> dict[Key, int]:
        """The rows of those of some keys that are here."""
        wanted = set(keys)
        if len(wanted) > SCAN_SHARE * len(self):
            return {key: row for key, row in self.sorted() if key in wanted}
        return {key: self._rows_of(place, place + 1).item() for key, place in self._places_of(wanted)}

    def by_row(self) -> Iterator[tuple[int, Key]]:
        """(row, key) of every item in the order of rows."""
        if (
            len(self._places)
            and (np.bincount(self._places[self.present()].astype(np.int64), minlength=len(self)) != 1).any()
        ):
            raise self._body.damaged("rows have the same key")
        for start in range(0, self.n_rows, AT_ONCE):
            rows = np.arange(start, min(start + AT_ONCE, self.n_rows))
            rows = rows[self._place_of(rows) < len(self)]
            yield from zip(rows.tolist(), self.of(rows), strict=True)

    def sorted(self) -> Iterator[tuple[Key, int]]:
        """(key, row) of every item in the order of keys: integers, then texts by their Unicode code points."""
        values, rows = self.integers()
        yield from zip(values.tolist(), rows.tolist(), strict=True)
        for texts, rows in self.texts():
            yield from zip(texts, rows.tolist(), strict=True)

    def integers(self) -> tuple[Rows, Rows]:
        """The keys that are integers, rising, and their rows."""
        return self._integers, self._rows_of(0, len(self._integers))

    def texts(self) -> Iterator[tuple[list[str], Rows]]:
        """The keys that are texts, by their Unicode code points, and their rows, some at a time."""
        first = len(self._integers)
        for part in self._texts.parts():
            yield part, self._rows_of(first, first + len(part))
            first += len(part)

    def present(self) -> Marks:
        """Which rows have a key."""
        if len(self._places) == 0:
            return np.ones(self.n_rows, np.bool_)
        return np.asarray(self._places < len(self))

    def check(self) -> None:
        """Compare the parts with each other."""
        if (self._integers[1:] <= self._integers[:-1]).any():
            raise self._body.damaged("its keys are out of order")
        before = None
        for text in self._texts:
            if before is not None and text <= before:
                raise self._body.damaged("its keys are out of order")
            before = text
        if len(self._places):
            places = np.full(self.n_rows, len(self))
            places[self._rows_of(0, len(self))] = np.arange(len(self))
            if not np.array_equal(places, self._places):
                raise self._body.damaged("the rows of its keys are not the keys of its rows")

    def _places_of(self, keys: Iterable[Key]) -> Iterator[tuple[Key, int]]:
        """(key, place) of those keys that are here."""
        listed = list(keys)
        numbers = np.array([key for key in listed if not isinstance(key, str)], np.int64)
        places = np.searchsorted(self._integers, numbers)
        inside = places < len(self._integers)
        numbers, places = numbers[inside], places[inside]
        there = self._integers[places] == numbers
        yield from zip(numbers[there].tolist(), places[there].tolist(), strict=True)
        for text, place in self._texts.places(key for key in listed if isinstance(key, str)):
            yield text, len(self._integers) + place

    def _place_of(self, rows: Rows) -> Integers:
        return signed(self._places[rows]) if len(self._places) else rows

    def _rows_of(self, start: int, stop: int) -> Rows:
        """The rows of some places."""
        if len(self._rows) == 0:
            return np.arange(start, stop)
        rows = self._rows[start:stop]
        if len(rows) and rows.max() >= self.n_rows:
            raise self._body.damaged(f"it has an item for row {rows.max()}")
        return rows.astype(np.int64)
