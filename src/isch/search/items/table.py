"""Items in memory: keys and metadata as they are given, sorted into columns."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from isch import progress
from isch.errors import InputError
from isch.search import keys as key_rules
from isch.search.catalog import Key
from isch.search.items import terms
from isch.search.items.body import AT_ONCE
from isch.search.items.contents import Column, Integers, Rows, Shape, Shapes

Entry = Mapping[str, Any] | None
Entries = Sequence[Entry] | Entry  # one for each row, or one for all


class Table:
    """Items that are about to be written.

    Parameters
    ----------
    rows : array of int64
        The rows that have an item, rising.
    keys : sequence of str or int
        Their keys, all different.
    metadata : sequence of mappings or None, or one for all rows
        Their metadata.
    n_rows : int
        Rows of the segment.
    """

    def __init__(self, rows: Rows, keys: Sequence[Key], metadata: Entries, n_rows: int) -> None:
        self._integers, self._texts = _divided(rows, keys)
        self._shape_of_row: Integers = np.zeros(n_rows, np.int64)
        self._shapes: dict[Shape, int] = {}
        self._columns: dict[str, Column] = {}
        same = metadata is None or isinstance(metadata, Mapping)
        entries: Any = [metadata] if same else metadata
        try:
            self._describe(rows[:1] if same else rows, entries)
        except (TypeError, ValueError, RecursionError):
            for number, entry in enumerate(entries):
                key_rules.json_text(entry, None if same else number)  # says what is wrong, and where
            raise
        if same and metadata is not None:
            self._shape_of_row[rows] = 1
            self._columns = {
                name: Column(column.terms, np.zeros(len(rows), np.int64), rows)
                for name, column in self._columns.items()
            }

    def integers(self) -> tuple[Rows, Rows]:
        """The keys that are integers, rising, and their rows."""
        return self._integers

    def texts(self) -> Iterator[tuple[list[str], Rows]]:
        """The keys that are texts, in order, and their rows, some at a time."""
        every = sorted(self._texts)
        for start in range(0, len(every), AT_ONCE):
            some = every[start : start + AT_ONCE]
            yield some, np.fromiter(map(self._texts.__getitem__, some), np.int64, len(some))

    def shapes(self) -> tuple[Integers, Shapes]:
        """The shape of each row, and all shapes."""
        return self._shape_of_row, list(self._shapes)

    def column(self, name: str) -> Column | None:
        """The column of a field."""
        return self._columns.get(name)

    def _describe(self, rows: Rows, entries: Sequence[Entry]) -> None:
        """Sort metadata into columns."""
        parts: dict[str, list[tuple[Rows, list[Any]]]] = {}
        for shape, (numbers, members) in _by_shape(rows, entries).items():
            self._shapes[shape] = len(self._shapes) + 1
            self._shape_of_row[numbers] = self._shapes[shape]
            for name in shape:
                parts.setdefault(name, []).append((numbers, list(map(itemgetter(name), members))))
        with progress.task("sorting metadata", len(parts), "fields") as advance:
            for name, some in parts.items():
                self._columns[name] = _column(some)
                advance(1)


class Known(list[str]):
    """Terms in memory."""

    def some(self, places: Integers) -> list[str]:
        """The terms at places."""
        return [self[place] for place in places.tolist()]


def _by_shape(rows: Rows, entries: Sequence[Entry]) -> dict[Shape, tuple[Rows, Sequence[Mapping[str, Any]]]]:
    """Rows and metadata of each list of fields, of which there are seldom many."""
    given, shapes = _normal([entry for entry in entries if entry is not None])
    if len(given) < len(entries):
        rows = rows[[entry is not None for entry in entries]]
    if len(shapes) == 1:
        return {shapes.pop(): (rows, given)}
    groups: dict[Shape, tuple[list[int], list[Mapping[str, Any]]]] = {}
    for row, entry in zip(rows.tolist(), given, strict=True):
        some, members = groups.setdefault(tuple(entry), ([], []))
        some.append(row)
        members.append(entry)
    return {shape: (np.array(some, np.int64), members) for shape, (some, members) in groups.items()}


def _normal(entries: list[Mapping[Any, Any]]) -> tuple[list[Mapping[str, Any]], set[Shape]]:
    """(metadata whose fields have texts as names, all lists of such names)."""
    if odd := {kind.__name__ for kind in set(map(type, entries)) if not issubclass(kind, Mapping)}:
        raise TypeError(f"expected dictionaries; got {odd}")
    shapes = set(map(tuple, entries))
    if not all(map(_named_by_texts, shapes)):
        return _normal([terms.decode(key_rules.encode(dict(entry))) for entry in entries])
    return entries, shapes


def _named_by_texts(shape: Shape) -> bool:
    """Whether fields have valid texts as names; JSON makes texts of other names."""
    "".join(map(str, shape)).encode()
    return all(type(name) is str for name in shape)


def _column(parts: list[tuple[Rows, list[Any]]]) -> Column:
    values = parts[0][1] if len(parts) == 1 else [value for _, some in parts for value in some]
    found = terms.of_all(values)
    known = Known(terms.in_order(dict.fromkeys(found)))
    "".join(known).encode()  # a text that is not Unicode is found before anything is written
    places = {term: place for place, term in enumerate(known)}
    codes = np.fromiter(map(places.__getitem__, found), np.int64, len(found))
    return Column(known, codes, np.concatenate([rows for rows, _ in parts]))


def _divided(rows: Rows, keys: Sequence[Key]) -> tuple[tuple[Rows, Rows], dict[Any, int]]:
    """Keys that are integers, rising, with their rows; and the rows of those that are texts."""
    if isinstance(keys, range):
        return (np.arange(keys.start, keys.stop, dtype=np.int64), rows), {}
    row_of = dict(zip(keys, rows.tolist(), strict=True))
    if len(row_of) < len(keys):
        raise InputError(key_rules.repeated(keys) or "a key is given twice")
    numbers = [key for key in keys if type(key) is not str]
    values, places = np.array(numbers, np.int64), np.array([row_of.pop(key) for key in numbers], np.int64)
    order = np.argsort(values)
    return (values[order], places[order]), row_of
