"""Passes over features, and who does their work.

blas.py       single-threaded BLAS
threads.py    work shared out among threads, results in order
passes.py     what a pass is, and the three ways to run one
totals.py     how the results of a reduction become one total
executors.py  who runs it: threads here, or somebody else
cluster.py    the workers of a Dask cluster
connection.py the connection to one
memory.py     a bound on memory
products.py   blocks of rows times a matrix
sparse.py     the same for sparse rows, tile by tile
rows.py       the passes that many methods share
"""

from isch.compute import memory
from isch.compute.blas import single_threaded_blas
from isch.compute.executors import Executor, Threads, using
from isch.compute.passes import (
    Arrays,
    Job,
    Pass,
    Reduction,
    Sum,
    block_rows,
    collect,
    iterate,
    refuse,
    refuse_unfinite,
    run,
)
from isch.compute.products import times
from isch.compute.rows import TOO_LARGE, load, mean, refuse_constant, row_sum, sample
from isch.compute.threads import at_most, n_threads, parallel, together

__all__ = [
    "TOO_LARGE",
    "Arrays",
    "Executor",
    "Job",
    "Pass",
    "Reduction",
    "Sum",
    "Threads",
    "at_most",
    "block_rows",
    "collect",
    "iterate",
    "load",
    "mean",
    "memory",
    "n_threads",
    "parallel",
    "refuse",
    "refuse_constant",
    "refuse_unfinite",
    "row_sum",
    "run",
    "sample",
    "single_threaded_blas",
    "times",
    "together",
    "using",
]
