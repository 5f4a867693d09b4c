"""Writing the items of a segment: new ones, and those of old segments, merged into one file."""

import heapq
from collections.abc import Iterator, Sequence
from itertools import chain, compress, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from isch import progress
from isch.errors import FormatError
from isch.search.items import terms
from isch.search.items.body import AT_ONCE, BodyWriter, Section, smallest
from isch.search.items.contents import Integers, Rows, Shape, Source
from isch.search.items.table import Known
from isch.search.sealed import ITEMS, SegmentWriter

NOWHERE: Section = (0, 0, 1)


class Kept(NamedTuple):
    """Items, and for each of their rows its row in the file that is written, or -1 if it is left out."""

    items: Source
    numbers: Rows

    def moved(self, rows: Rows) -> tuple[Rows, Integers]:
        """(new rows of those kept, which they are) of some rows."""
        new = self.numbers[rows]
        kept = new >= 0
        return new[kept], kept


class Part(NamedTuple):
    """Some rows of a column, and the terms that these rows have."""

    terms: Known
    rows: Rows
    codes: Rows


def write(path: Path, sources: Sequence[Kept], n_rows: int) -> tuple[str, int]:
    """Write the items of a segment of ``n_rows`` rows and force them to disk: (digest of the header, bytes)."""
    with SegmentWriter(path, ITEMS, 1, np.uint8) as file:
        file.n_rows = n_rows
        writer = _Writer(path, BodyWriter(file), sources, n_rows)
        writer.write()
        digest = file.finish()
    return digest, path.stat().st_size


class _Writer:
    def __init__(self, path: Path, body: BodyWriter, sources: Sequence[Kept], n_rows: int) -> None:
        self._path, self._body, self._sources, self._n_rows = path, body, sources, n_rows

    def write(self) -> None:
        sections = self._keys()
        shapes, names = self._shapes()
        self._body.finish([*sections, *shapes, *self._fields(names)])

    def _keys(self) -> list[Section]:
        """Integers, bytes and starts of texts, the row of each key, the place of the key of each row."""
        values, rows = self._integers()
        found = [rows]
        integers = self._body.raw(values)
        texts = self._body.texts(self._texts(found))
        rows = np.concatenate(found)
        if np.array_equal(rows, np.arange(self._n_rows)):
            return [integers, *texts, NOWHERE, NOWHERE]
        places = np.full(self._n_rows, len(rows))
        places[rows] = np.arange(len(rows))
        return [integers, *texts, self._body.integers(rows), self._body.integers(places)]

    def _integers(self) -> tuple[Rows, Rows]:
        """The keys that are integers, rising, and their rows."""
        values, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for source in self._sources:
            some, places = source.items.integers()
            new, kept = source.moved(places)
            values.append(some[kept])
            rows.append(new)
        every = np.concatenate(values)
        order = np.argsort(every, kind="stable")
        if (every[order][1:] == every[order][:-1]).any():
            raise self._twice()
        return every[order].astype("<i8", copy=False), np.concatenate(rows)[order]

    def _texts(self, rows: list[Rows]) -> Iterator[list[str]]:
        """The keys that are texts, in order, some at a time; their rows are added to a list."""
        last = None
        with progress.task("cataloguing", self._n_rows, "rows") as advance:
            advance(sum(map(len, rows)))
            for texts, some in _merged_texts(self._sources):
                if len({last, *texts}) <= len(texts):
                    raise self._twice()
                last = texts[-1]
                rows.append(some)
                yield texts
                advance(len(texts))

    def _shapes(self) -> tuple[list[Section], list[str]]:
        """The shape of each row, where the fields of each shape begin, these fields; and the names of all fields."""
        known: dict[Shape, int] = {}
        shape_of_row = np.zeros(self._n_rows, np.int64)
        for source in self._sources:
            codes, shapes = source.items.shapes()
            rows, kept = source.moved(np.arange(len(codes)))
            codes = codes[kept]
            new = np.zeros(len(shapes) + 1, np.int64)
            for used in np.flatnonzero(np.bincount(codes, minlength=1)).tolist():
                new[used] = known.setdefault(shapes[used - 1], len(known) + 1) if used else 0
            shape_of_row[rows] = new[codes]
        names = sorted({name for shape in known for name in shape})
        numbers = {name: number for number, name in enumerate(names)}
        members = np.array([numbers[name] for shape in known for name in shape], np.int64)
        starts = np.cumsum([0, *map(len, known)])
        row_section = self._body.integers(shape_of_row) if known else NOWHERE
        return [row_section, self._body.integers(starts), self._body.integers(members)], names

    def _fields(self, names: list[str]) -> list[Section]:
        """Bytes and starts of the names, and the sections of each column."""
        sections = [self._column(name) for name in names]
        return [*self._body.texts([names]), self._body.raw(np.array(sections, "<u8").reshape(-1))]

    def _column(self, name: str) -> list[Section]:
        """Rows, codes, and bytes and starts of the terms."""
        known, rows, codes = _joined([part for source in self._sources for part in _kept_column(source, name)])
        width, row_width = smallest(len(known)), smallest(self._n_rows)
        if len(rows) * (width + row_width) >= self._n_rows * width:
            every = np.full(self._n_rows, len(known), f"<u{width}")
            every[rows] = codes
            listed = NOWHERE
            packed = every
        else:
            order = np.argsort(rows, kind="stable")
            listed = self._body.integers(rows[order])
            packed = codes[order].astype(f"<u{width}")
        return [listed, self._body.raw(packed), *self._body.texts([known])]

    def _twice(self) -> FormatError:
        return FormatError(f"{self._path}: a key would be there twice")


def _merged_texts(sources: Sequence[Kept]) -> Iterator[tuple[list[str], Rows]]:
    """The keys that are texts of all sources in order, with their rows, some at a time."""
    if len(sources) == 1:
        yield from _kept_texts(sources[0])
        return
    single = (
        chain.from_iterable(zip(texts, rows.tolist(), strict=True) for texts, rows in _kept_texts(source))
        for source in sources
    )
    merged = heapq.merge(*single)
    while part := list(islice(merged, AT_ONCE)):
        yield [text for text, _ in part], np.array([row for _, row in part], np.int64)


def _kept_texts(source: Kept) -> Iterator[tuple[list[str], Rows]]:
    for texts, rows in source.items.texts():
        new, kept = source.moved(rows)
        if len(new):
            yield texts if kept.all() else list(compress(texts, kept.tolist())), new


def _kept_column(source: Kept, name: str) -> list[Part]:
    """The column of a field without the rows that are left out and the terms that no row has any more."""
    column = source.items.column(name)
    if column is None:
        return []
    there, codes = column.pairs()
    rows, kept = source.moved(there)
    codes = codes[kept]
    used = np.flatnonzero(np.bincount(codes, minlength=1))
    places = np.zeros(len(column.terms), np.int64)
    places[used] = np.arange(len(used))
    return [Part(Known(column.terms.some(used)), rows, places[codes])] if len(rows) else []


def _joined(parts: list[Part]) -> Part:
    """Parts of a column together."""
    if len(parts) == 1:
        return parts[0]
    known = Known(terms.in_order(dict.fromkeys(chain(*(part.terms for part in parts)))))
    places = {term: place for place, term in enumerate(known)}
    codes = [np.array([places[term] for term in part.terms], np.int64)[part.codes] for part in parts]
    return Part(known, np.concatenate([part.rows for part in parts]), np.concatenate(codes))
