"""What the items of a segment are made of, in memory and in a file alike."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Metadata = dict[str, Any] | None
Rows = NDArray[np.int64]
Integers = NDArray[Any]  # of any width
Marks = NDArray[np.bool_]
Shape = tuple[str, ...]  # the fields of a row's metadata, in their order


class Terms(Protocol):
    """The different values of a field, in the order of ``terms.in_order``."""

    def __len__(self) -> int: ...
    def __getitem__(self, place: int, /) -> str: ...
    def some(self, places: Integers) -> list[str]: ...


class Shapes(Protocol):
    """The different lists of fields that rows have."""

    def __len__(self) -> int: ...
    def __getitem__(self, place: int, /) -> Shape: ...


@dataclass(frozen=True)
class Column:
    """A field of the metadata: for each row that has it, the place of its value among the terms.

    ``rows`` None means that there is a code for every row, and that a row without the field has the code
    ``len(terms)``.
    """

    terms: Terms
    codes: Integers
    rows: Integers | None = None

    def pairs(self) -> tuple[Rows, Rows]:
        """(rows that have the field, their codes)."""
        if self.rows is not None:
            return self.rows.astype(np.int64, copy=False), self.codes.astype(np.int64, copy=False)
        there = np.flatnonzero(self.codes != len(self.terms))
        return there, self.codes[there].astype(np.int64)


class Source(Protocol):
    """Items that can be written, or merged with others."""

    def integers(self) -> tuple[Rows, Rows]:
        """The keys that are integers, rising, and their rows."""

    def texts(self) -> Iterator[tuple[list[str], Rows]]:
        """The keys that are texts, by their Unicode code points, and their rows, some at a time."""

    def shapes(self) -> tuple[Integers, Shapes]:
        """For each row the number of its shape, from 1; 0 is a row without metadata. And the shapes."""

    def column(self, name: str) -> Column | None:
        """The column of a field, if any row has it."""
