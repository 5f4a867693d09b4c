"""A pass over features is a value: what is done to a block of rows, and how the results are combined.

    Pass                 a result per block of rows
    └── Reduction        results that are combined, two at a time, into one total
        └── Sum          results that are added up in double precision

A pass holds arrays and numbers only, so it can be sent to threads here or to workers elsewhere (executors.py). The
borders of blocks depend on the data alone and results are combined in the order of the blocks, so the outcome does not
depend on who does the work. Three functions run a pass: ``run`` gives the total of a reduction, ``iterate`` one result
after the other, ``collect`` writes one row of results for each row of features.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from isch import progress
from isch.errors import InputError
from isch.features import Block, Features, beyond, dense, finite
from isch.features.arrays import ArrayFeatures

P = TypeVar("P", covariant=True)
T = TypeVar("T")
Arrays = tuple[NDArray[Any], ...]


def block_rows(n_features: int) -> int:
    """Rows in a block: enough to keep a matrix product busy, few enough to stay near the cache."""
    return 1024 if n_features <= 32_768 else 512


class Pass(ABC, Generic[P]):
    """What is done to each block of rows. Write one as a frozen dataclass."""

    label: ClassVar[str] = ""  # the name in progress displays; by default that of the stage it is the work of

    @property
    def notices(self) -> bool:
        """Whether it raises ``NotFinite`` itself, because NaN and infinity always show in its results."""
        return False

    @abstractmethod
    def block(self, block: Block, start: int) -> P:
        """The result of one block.

        Parameters
        ----------
        block : array or csr_array
            Consecutive rows, of any dtype.
        start : int
            The number of the first of them.
        """

    def rows(self, n_features: int) -> int:
        """Rows in a block."""
        return block_rows(n_features)


class Reduction(Pass[T]):
    """A pass whose results are combined. A total can itself be combined with another one, like a block's result.

    Several totals exist at once (totals.py); what is too large for that is a ``Pass`` whose results are put together.
    """

    @abstractmethod
    def zero(self) -> T:
        """The total of no rows."""

    @abstractmethod
    def combine(self, total: T, part: T) -> T:
        """Add the result of the next rows to ``total``; may change and return ``total``, never ``part``."""


class Sum(Reduction[Arrays]):
    """A pass whose results, some arrays per block, are added up in double precision."""

    def combine(self, total: Arrays, part: Arrays) -> Arrays:
        with np.errstate(over="ignore", invalid="ignore"):  # whoever asked looks at the total
            for whole, piece in zip(total, part, strict=True):
                whole += piece
        return total


@dataclass(frozen=True)
class Job(Generic[P]):
    """A pass over some features, as an executor gets it: everything a worker needs, and it pickles.

    ``work`` is the pass, ``rows`` the size of a block, and ``checked`` says whether NaN and infinity are refused.
    """

    work: Pass[P]
    features: Features
    rows: int
    checked: bool = True

    def spans(self, blocks: int = 1) -> Iterator[tuple[int, int]]:
        """(first row, row after the last) of so many blocks each."""
        n, step = len(self.features), blocks * self.rows
        return ((start, min(start + step, n)) for start in range(0, n, step))

    def read(self, span: tuple[int, int]) -> Iterator[tuple[int, P]]:
        """Read the blocks between two borders and do the work: (number of rows, result) of each."""
        step = self.features.slab(self.rows)
        for start in range(*span, step):
            slab = self.features.read(start, min(start + step, span[1]))
            for first in range(0, slab.shape[0], self.rows):
                yield self.on((start + first, slab[first : first + self.rows]))

    def on(self, item: tuple[int, Block]) -> tuple[int, P]:
        """Do the work on a block that has been read, given as (first row, block): (number of rows, result)."""
        start, block = item
        if self.checked and not self.work.notices:
            refuse(block)
        with np.errstate(over="ignore", invalid="ignore"):  # passes look at their results where it can happen
            return block.shape[0], self.work.block(block, start)


class NotFinite(InputError):
    """A block holds a value that cannot be used. ``refuse_unfinite`` then looks for all such values."""


def refuse(block: Block) -> None:
    """Raise ``NotFinite`` if a block holds NaN, infinity or numbers beyond single precision."""
    if not finite(block):
        raise NotFinite("NaN, infinity or numbers beyond single precision; expected none")


def run(work: Reduction[T], rows: Features | NDArray[Any]) -> T:
    """The total of all rows.

    Parameters
    ----------
    work : Reduction
        What is done to a block, and how results are combined.
    rows : Features or array
        Features go to the executor in use and are refused if a value is NaN or infinite. An array goes to threads here
        and is not checked.
    """
    from isch.compute.executors import executor_for

    job = _job(work, rows)
    with _watched(job) as advance:
        return executor_for(rows).total(job, work, advance)


def iterate(work: Pass[P], rows: Features | NDArray[Any]) -> Iterator[P]:
    """The results of all blocks, one after the other; ``rows`` as in ``run``."""
    from isch.compute.executors import executor_for

    job, executor = _job(work, rows), executor_for(rows)  # the one in use now, not when the results are read

    def results() -> Iterator[P]:
        with _watched(job) as advance:
            for count, result in executor.parts(job):
                advance(count)
                yield result

    return results()


def collect(work: Pass[NDArray[Any]], rows: Features | NDArray[Any], out: Any) -> Any:
    """Write the results, one row per row, to ``out``, anything that takes slices of rows; returns ``out``."""
    first = 0
    for part in iterate(work, rows):
        out[first : first + len(part)] = part
        first += len(part)
    return out


def refuse_unfinite(features: Features) -> None:
    """Refuse NaN, infinity and numbers beyond single precision, with the first row that has one."""
    bad = run(Unusable(), features)
    if bad.values > bad.huge:
        raise InputError(
            f"{features.where}: {bad.values} value{'s are' if bad.values > 1 else ' is'} NaN or infinity, "
            f"the first in row {bad.first}; expected finite numbers"
        )
    if bad.values:
        raise InputError(
            f"{features.where}: values exceed the range of single precision (3.4e38), "
            f"the first in row {bad.first}; expected smaller ones"
        )


class Bad(NamedTuple):
    """Values that cannot be used: how many, the first row that has one (or −1), how many of them are finite."""

    values: int
    first: int
    huge: int


class Unusable(Reduction[Bad]):
    """Counts values that are NaN, infinite, or do not fit single precision."""

    label = "looking for NaN"

    def block(self, block: Block, start: int) -> Bad:
        if finite(block):
            return self.zero()
        rows = dense(block, np.float64)
        bad = beyond(rows)
        return Bad(int(bad.sum()), start + int(bad.any(axis=1).argmax()), int(np.isfinite(rows[bad]).sum()))

    def zero(self) -> Bad:
        return Bad(0, -1, 0)

    def combine(self, total: Bad, part: Bad) -> Bad:
        return Bad(total.values + part.values, total.first if total.values else part.first, total.huge + part.huge)


def _job(work: Pass[P], rows: Features | NDArray[Any]) -> Job[P]:
    features = rows if isinstance(rows, Features) else ArrayFeatures(rows)
    checked = features is rows and not isinstance(work, Unusable)
    return Job(work, features, work.rows(features.shape[1]), checked)


@contextmanager
def _watched(job: Job[P]) -> Iterator[progress.Advance]:
    """Progress of a job; files that have changed are refused, and a block that is not finite is explained."""
    job.features.check()
    try:
        with progress.task(job.work.label, len(job.features), "rows") as advance:
            yield advance
    except NotFinite:
        refuse_unfinite(job.features)
        raise
