"""The metadata of an items file: a column for each field, and for each row which fields it has."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from isch.search.filters import Test
from isch.search.items import terms
from isch.search.items.body import Body, Section, Texts, signed
from isch.search.items.contents import Column, Integers, Marks, Metadata, Rows, Shape, Shapes
from isch.search.items.terms import Span

COLUMN_SECTIONS = 4
LARGEST_COPIES = 16 << 20  # bytes of JSON; beyond, rows share lists, else a small file could fill the memory


class Fields:
    """Metadata that are being read.

    Parameters
    ----------
    body : Body
        The file.
    sections : sequence of Section
        The shape of each row, starts and members of shapes, bytes and starts of names, the sections of columns.
    n_rows : int
        Rows of the segment.
    """

    def __init__(self, body: Body, sections: Sequence[Section], n_rows: int) -> None:
        self._body, self.n_rows = body, n_rows
        self._shape_of_row, starts, members = map(body.integers, sections[:3])
        self.names = body.texts(*sections[3:5])
        self._shapes = StoredShapes(body, starts, members, self.names)
        columns = body.integers(sections[5])
        if len(self._shape_of_row) == 0:
            self._shape_of_row = np.broadcast_to(np.zeros(1, np.uint8), n_rows)
        if columns.itemsize != 8 or len(columns) != 3 * COLUMN_SECTIONS * len(self.names):
            raise body.damaged("it does not have a column for each field")
        if len(self._shape_of_row) != n_rows:
            raise body.damaged("it does not have fields for each row")
        self._columns = columns.reshape(-1, COLUMN_SECTIONS, 3)
        body.refuse_overlap(self._columns)

    def of(self, rows: Rows) -> list[Metadata]:
        """The metadata of rows."""
        found: list[Metadata] = [None] * len(rows)
        groups: dict[int, list[int]] = {}
        for place, shape in enumerate(self._shape_of_row[rows].tolist()):
            groups.setdefault(shape, []).append(place)
        groups.pop(0, None)
        for shape, group in groups.items():
            fields = self._shapes.members(shape - 1)
            names = self.names.some(fields)
            values = [self._values(field, rows[group]) for field in fields.tolist()]
            for number, place in enumerate(group):
                found[place] = {name: some[number] for name, some in zip(names, values, strict=True)}
        return found

    def matching(self, tests: Sequence[Test], among: Marks) -> Rows:
        """The rows, rising, that pass all tests."""
        for test in tests:
            column = self.column(test.field)
            if column is None:
                return np.empty(0, np.int64)
            among = among & self._passing(column, test)
        return np.flatnonzero(among)

    def shapes(self) -> tuple[Integers, Shapes]:
        """The shape of each row, and all shapes."""
        if self._shape_of_row.max(initial=0) > len(self._shapes):
            raise self._body.damaged("a row has fields that are not listed")
        self._shapes.refuse_overlap()
        return self._shape_of_row.astype(np.int64), self._shapes

    def column(self, name: str) -> "StoredColumn | None":
        """The column of a field."""
        number = self.names.place(name)
        return None if number is None else self._whole(number)

    def check(self) -> None:
        """Compare the parts with each other."""
        shape_of_row, _ = self.shapes()
        sizes, owners = self._shapes.checked()
        if any(name <= before for before, name in pairwise(self.names)):
            raise self._body.damaged("its fields are out of order")
        counts = np.zeros(self.n_rows, np.int64)
        has = np.zeros(len(sizes), np.bool_)
        for number in range(len(self.names)):
            column = self._whole(number)
            self._check_terms(column.terms, number)
            rows, _ = column.pairs()
            has[owners[number]] = True
            if len(rows) == 0 or not has[shape_of_row[rows]].all():
                raise self._damaged(number, "is not in the rows that list it")
            has[owners[number]] = False
            counts[rows] += 1
        if (counts != sizes[shape_of_row]).any():
            raise self._body.damaged(f"row {(counts != sizes[shape_of_row]).argmax()} lacks a field")

    def _check_terms(self, known: Texts, number: int) -> None:
        try:
            right = terms.right(list(known))
        except (ValueError, RecursionError) as error:
            raise self._damaged(number, str(error)) from error
        if not right:
            raise self._damaged(number, "has values that are out of order")

    def _passing(self, column: "StoredColumn", test: Test) -> Marks:
        """Which rows have a value that passes a test."""
        try:
            spans = terms.spans(column.terms, test)
        except (ValueError, RecursionError, TypeError) as error:
            raise self._body.damaged(f"the field {test.field!r}: {error}") from error
        passing = column.within(spans)
        if column.rows is None:
            return passing
        every = np.zeros(self.n_rows, np.bool_)
        every[column.rows] = passing
        return every

    def _values(self, number: int, rows: Rows) -> list[Any]:
        """The values that rows have in a column."""
        column = self._column(number)
        codes = column.at(rows)
        if codes.max() >= len(column.terms):
            raise self._damaged(number, f"has no value for row {rows[codes.argmax()]}")
        listed = codes.tolist()
        used = list(set(listed))
        known = dict(zip(used, column.terms.some(np.array(used)), strict=True))
        try:
            values = {code: terms.value(term) for code, term in known.items()}
            nested = any(type(value) in (list, dict) for value in values.values())
            if nested and sum(len(known[code]) for code in listed) <= LARGEST_COPIES:
                return [terms.value(known[code]) for code in listed]
        except (ValueError, RecursionError) as error:
            raise self._damaged(number, str(error)) from error
        return [values[code] for code in listed]

    def _column(self, number: int) -> "StoredColumn":
        """The column of a field, of which nothing is read yet."""
        rows, codes, content, starts = ((a, b, c) for a, b, c in self._columns[number].tolist())
        column = StoredColumn(
            self._body.texts(content, starts),
            self._body.integers(codes),
            self._body.integers(rows) if rows[1] else None,
        )
        expected = self.n_rows if column.rows is None else len(column.rows)
        if len(column.codes) != expected or len(column.terms) >> 8 * column.codes.itemsize:
            raise self._damaged(number, "does not have a value for each of its rows")
        return column

    def _whole(self, number: int) -> "StoredColumn":
        """The column of a field, of which each code and row is checked."""
        column = self._column(number)
        missing = column.rows is None
        if column.codes.max(initial=0) >= len(column.terms) + missing:
            raise self._damaged(number, "has values that are not listed")
        rows = column.rows
        if rows is not None and (rows[-1] >= self.n_rows or (rows[1:] <= rows[:-1]).any()):
            raise self._damaged(number, "has rows that are out of order")
        return column

    def _damaged(self, number: int, what: str) -> Exception:
        return self._body.damaged(f"the field {self.names[number]!r} {what}")


class StoredColumn(Column):
    """A column of a file."""

    terms: Texts

    def at(self, rows: Rows) -> Rows:
        """The codes of rows; that of a row without the field is ``len(terms)`` or more."""
        if self.rows is None:
            return signed(self.codes[rows])
        places = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return np.where(self.rows[places] == rows, signed(self.codes[places]), len(self.terms))

    def within(self, spans: list[Span]) -> Marks:
        """Which codes are in runs of codes."""
        if len(spans) == 1:
            ((start, stop),) = spans
            return np.asarray((self.codes >= start) & (self.codes < stop))
        allowed = np.zeros(len(self.terms) + 1, np.bool_)
        for start, stop in spans:
            allowed[start:stop] = True
        return np.asarray(allowed[self.codes])


class StoredShapes:
    """Which fields a shape has; shape 0 of a row means that it has no metadata, so that number 1 is the first here."""

    def __init__(self, body: Body, starts: Integers, members: Integers, names: Texts) -> None:
        self._body, self._starts, self._members, self._names = body, starts, members, names
        if len(starts) == 0:
            raise body.damaged("it does not have fields for each shape")

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, place: int, /) -> Shape:
        return tuple(self._names.some(self.members(place)))

    def members(self, place: int) -> Integers:
        """The numbers of the fields of a shape."""
        if place >= len(self):
            raise self._body.damaged("a row has fields that are not listed")
        start, stop = self._starts.item(place), self._starts.item(place + 1)
        fields = self._members[start:stop]
        if len(fields) != stop - start or (len(fields) and fields.max() >= len(self._names)):
            raise self._body.damaged("a row has fields that are not listed")
        if len(set(fields.tolist())) < len(fields):  # np.unique imports a module, which a forked child may wait for
            raise self._body.damaged("a row has a field twice")
        return fields

    def refuse_overlap(self) -> None:
        """Refuse shapes that share members; else a small file could list endlessly many fields."""
        if (self._starts[1:] < self._starts[:-1]).any():
            raise self._body.damaged("the fields of its rows overlap")

    def checked(self) -> tuple[Rows, list[Rows]]:
        """(fields of each shape, from number 0; for each field the numbers of the shapes that have it), checked."""
        starts, members = self._starts.astype(np.int64), self._members.astype(np.int64)
        sizes = np.diff(starts)
        listed = starts[0] == 0 and (sizes >= 0).all() and starts[-1] == len(members)
        if not listed or (len(members) and not 0 <= members.min() <= members.max() < len(self._names)):
            raise self._body.damaged("the fields of its rows are not such")
        numbers = np.repeat(np.arange(1, len(sizes) + 1), sizes)
        order = np.lexsort((numbers, members))
        if ((np.diff(members[order]) == 0) & (np.diff(numbers[order]) == 0)).any():
            raise self._body.damaged("a row has a field twice")
        cuts = np.searchsorted(members[order], np.arange(1, len(self._names)))
        return np.concatenate([[0], sizes]), np.split(numbers[order], cuts)
