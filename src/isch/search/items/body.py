"""The body of an items file: arrays of integers and lists of texts, each a section that says where it lies.

A section is three integers: offset in the body, number of values, bytes per value (1, 2, 4 or 8). The sections that
each file has are listed at the end of the body.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import FormatError
from isch.search.items.contents import Integers
from isch.search.sealed import WORD_BYTES, SegmentWriter

AT_ONCE = 10_000  # texts read or written in one go
LARGEST = np.uint64(np.iinfo(np.int64).max)
Section = tuple[int, int, int]


class BodyWriter:
    """Writes sections one after the other."""

    def __init__(self, file: SegmentWriter) -> None:
        self._file = file

    def integers(self, values: Integers) -> Section:
        """Write integers, in the smallest type that holds them; none of them is negative."""
        width = smallest(int(values.max()) if len(values) else 0)
        return self.raw(values.astype(f"<u{width}", copy=False))

    def raw(self, values: NDArray[Any]) -> Section:
        """Write an array as it is."""
        start = self._file.align()
        self._file.append_bytes(values)
        return start, values.size, values.itemsize

    def texts(self, parts: Iterable[Sequence[str]]) -> tuple[Section, Section]:
        """Write lists of texts as one: (their bytes one after another, where each begins and the last one ends)."""
        start, sizes = self._file.align(), [np.zeros(1, np.int64)]
        for part in parts:
            joined = "".join(part)
            lengths = map(len, part if joined.isascii() else (text.encode() for text in part))
            sizes.append(np.fromiter(lengths, np.int64, len(part)))
            self._file.append_bytes(np.frombuffer(joined.encode(), np.uint8))
        starts = np.cumsum(np.concatenate(sizes))
        return (start, int(starts[-1]), 1), self.integers(starts)

    def finish(self, sections: Sequence[Section]) -> None:
        """Write the list of the sections that each file has."""
        self.raw(np.array(sections, "<u8"))


def smallest(largest: int) -> int:
    """The bytes of an unsigned integer that holds a number: 1, 2, 4 or 8."""
    return next(width for width in (1, 2, 4, 8) if largest < 1 << 8 * width)


def signed(values: Integers) -> Integers:
    """Integers as int64. One that is too large stays large, so that it cannot count from the end of a list."""
    return np.minimum(values, LARGEST).astype(np.int64)


class Body:
    """A body that is being read. Nothing in it is believed.

    Parameters
    ----------
    path : Path
        Its file, for errors.
    data : array of uint8
        The bytes.
    n_sections : int
        How many sections are listed at the end.
    """

    def __init__(self, path: Path, data: NDArray[np.uint8], n_sections: int) -> None:
        self.path, self._data = path, data
        size = n_sections * 3 * WORD_BYTES
        if len(data) % WORD_BYTES or len(data) < size:
            raise self.damaged("its list of sections is missing")
        found = data[len(data) - size :].view("<u8").reshape(-1, 3).tolist()
        self.sections: list[Section] = [(offset, count, width) for offset, count, width in found]

    def integers(self, section: Section) -> Integers:
        """The integers of a section."""
        offset, count, width = section
        if offset % WORD_BYTES or width not in (1, 2, 4, 8) or offset + count * width > len(self._data):
            raise self.damaged("a section lies outside the file")
        return self._data[offset : offset + count * width].view(f"<u{width}")

    def refuse_overlap(self, sections: Integers) -> None:
        """Refuse sections (…, 3) that cannot lie side by side; else a small file could mean endless work."""
        counts, widths = (sections[..., i].astype(np.float64) for i in (1, 2))
        if (counts * widths).sum() > len(self._data):
            raise self.damaged("its sections overlap")

    def texts(self, content: Section, starts: Section) -> "Texts":
        """The texts of two sections."""
        data, places = self.integers(content), self.integers(starts)
        if data.itemsize != 1 or len(places) == 0:
            raise self.damaged("its texts are not such")
        return Texts(self, data, places)

    def damaged(self, what: str) -> FormatError:
        """An error about this file."""
        return FormatError(f"{self.path}: the items are damaged ({what})")


class Texts:
    """A list of texts of a body."""

    def __init__(self, body: Body, data: NDArray[np.uint8], starts: Integers) -> None:
        self._body, self._data, self._starts = body, data.data, starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, place: int, /) -> str:
        start, stop = self._starts.item(place), self._starts.item(place + 1)
        if not start <= stop <= len(self._data):
            raise self._body.damaged("a text lies outside the file")
        try:
            return str(self._data[start:stop], "utf-8")
        except UnicodeDecodeError as error:
            raise self._not_unicode(error) from error

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.parts())

    def parts(self) -> Iterator[list[str]]:
        """All texts, some at a time."""
        for first in range(0, len(self), AT_ONCE):
            starts = self._starts[first : first + AT_ONCE + 1].astype(np.int64)
            content = bytes(self._data[starts[0] : starts[-1]])
            if starts[0] < 0 or (np.diff(starts) < 0).any() or len(content) != starts[-1] - starts[0]:
                raise self._body.damaged("its texts overlap")
            yield self._cut(content, (starts - starts[0]).tolist())

    def some(self, places: Integers) -> list[str]:
        """The texts at places, all different, which are in the list."""
        wide = places.astype(np.int64, copy=False)
        starts, stops = self._starts[wide], self._starts[wide + 1]
        if (starts > stops).any() or stops.max(initial=0) > len(self._data):
            raise self._body.damaged("a text lies outside the file")
        if (stops - starts).sum(dtype=np.uint64) > len(self._data):  # else a small file could fill the memory
            raise self._body.damaged("its texts overlap")
        data = self._data
        try:
            return [str(data[a:b], "utf-8") for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
        except UnicodeDecodeError as error:
            raise self._not_unicode(error) from error

    def places(self, wanted: Iterable[str]) -> Iterator[tuple[str, int]]:
        """(text, place) of those texts that are in the list, if it is in order.

        The middle one of those wanted is looked for first, then those before it in the part before its place, and so
        on. Bytes are compared, whose order is that of code points.
        """
        texts = sorted(wanted)
        parts = [(0, len(texts), 0, len(self))]
        while parts:
            first, last, low, high = parts.pop()
            if first < last:
                middle = (first + last) // 2
                content = texts[middle].encode("utf-8", "surrogatepass")
                place = self._first_not_below(content, low, high)
                if place < len(self) and self._raw(place) == content:
                    yield texts[middle], place
                parts += [(first, middle, low, place), (middle + 1, last, place, high)]

    def place(self, text: str) -> int | None:
        """Where a text is, if the list is in order."""
        return next((place for _, place in self.places([text])), None)

    def _first_not_below(self, content: bytes, low: int, high: int) -> int:
        data, start = self._data, self._starts.item
        while low < high:
            middle = (low + high) // 2
            if bytes(data[start(middle) : start(middle + 1)]) < content:
                low = middle + 1
            else:
                high = middle
        return low

    def _raw(self, place: int) -> bytes:
        return bytes(self._data[self._starts.item(place) : self._starts.item(place + 1)])

    def _cut(self, content: bytes, starts: list[int]) -> list[str]:
        try:
            if content.isascii():
                whole = content.decode("ascii")
                return [whole[start:stop] for start, stop in pairwise(starts)]
            return [str(content[start:stop], "utf-8") for start, stop in pairwise(starts)]
        except UnicodeDecodeError as error:
            raise self._not_unicode(error) from error

    def _not_unicode(self, error: UnicodeDecodeError) -> FormatError:
        return self._body.damaged(f"a text is not Unicode: {error}")
