"""How the results of a reduction become one total: in a tree whose shape depends on the data alone.

Blocks are combined into runs of about RUN_BYTES, in order; then FAN runs into one, and again, until few are left. Sums
of floating-point numbers depend on their order, so threads here and workers elsewhere follow the same tree.
"""

from collections.abc import Iterator
from itertools import islice

from isch.compute.passes import Job, Reduction, T

RUN_BYTES = 256 << 20
RUN_BLOCKS = 64  # in a run, at most
FAN = 8


def run_blocks(job: Job[T]) -> int:
    """The number of blocks in a run."""
    features = job.features
    return min(RUN_BLOCKS, max(1, RUN_BYTES // (job.rows * features.shape[1] * features.dtype.itemsize)))


def total(job: Job[T], work: Reduction[T], parts: Iterator[T]) -> T:
    """The total of the results of all blocks, one after the other."""
    totals, n = groups(work, parts, run_blocks(job)), sum(1 for _ in job.spans(run_blocks(job)))
    while n > FAN:
        totals, n = groups(work, totals, FAN), -(-n // FAN)
    return combined(work, totals)


def groups(work: Reduction[T], parts: Iterator[T], size: int) -> Iterator[T]:
    """The totals of ``size`` parts each."""
    for first in parts:
        yield combined(work, islice(parts, size - 1), work.combine(work.zero(), first))


def combined(work: Reduction[T], parts: Iterator[T], total: T | None = None) -> T:
    """The total of parts in their order, beginning with ``total``, or else with nothing."""
    total = work.zero() if total is None else total
    for part in parts:
        total = work.combine(total, part)
    return total
