"""How fast this machine, or the cluster in use, does the work of a plan: from about a second of it."""

import time
from collections.abc import Callable
from itertools import cycle

import numpy as np

from isch.compute.blas import single_threaded_blas
from isch.compute.executors import executor_for
from isch.compute.passes import block_rows, run
from isch.compute.rows import RowSum
from isch.compute.threads import n_threads, parallel
from isch.features import Features, Span
from isch.fitting.costs import SVD_FLOPS, Size, Speeds
from isch.lazy import linalg, sparse

PROBE_SECONDS = 0.3  # of each kind of work that is measured
PROBE_COLUMNS = 4096  # of a product, at most


def measured(features: Features, n_bits: int) -> Speeds:
    """Speeds from about a second of work: products of the shape of a block, a decomposition, reads, sums of rows."""
    return Speeds(
        products=_products(features.shape[1], n_bits),
        solving=_solving(n_bits),
        read=_read(features),
        passes=_passes(features),
        moved=_moved(),
    )


def _products(d: int, n_bits: int) -> float:
    """Flops per second of blocks times a projection, on all threads."""
    X = np.ones((block_rows(d), min(d, PROBE_COLUMNS)), np.float32)
    W = np.ones((X.shape[1], min(n_bits, PROBE_COLUMNS // 4)), np.float32)
    per_round = 2 * X.shape[0] * X.shape[1] * W.shape[1] * 2 * n_threads()
    return per_round * _rounds_per_second(lambda: list(parallel(lambda _: (X @ W)[0, 0], range(2 * n_threads()))))


def _solving(n_bits: int) -> float:
    """Flops per second of a singular value decomposition, such as a rotation needs."""
    size = max(32, min(n_bits, 256))
    A = np.random.default_rng(0).standard_normal((size, size))
    with single_threaded_blas():
        return SVD_FLOPS * size**3 * _rounds_per_second(lambda: linalg.svd(A))


def _read(features: Features) -> float:
    """Bytes per second that a pass reads and widens, by its executor, from places all over the features."""
    step = min(len(features), 2 * n_threads() * block_rows(features.shape[1]))
    starts = cycle(np.random.default_rng().permutation(max(1, len(features) // step)).tolist())

    def some() -> None:
        start = next(starts) * step
        run(RowSum(features.shape[1]), Span(features, start, start + step))

    return Size.of(features).bytes(step) * _rounds_per_second(some)


def _passes(features: Features) -> float:
    """Ratio of the executor's threads to local threads."""
    return executor_for(features).n_threads() / n_threads()


def _moved() -> float:
    """Bytes per second of rows that are gathered and added up, as a step of a walk does."""
    n, edges = 4096, 16
    steps = (np.ones(n * edges, np.float32), (np.repeat(np.arange(n), edges), np.arange(n * edges) * 7919 % n))
    P, Z = sparse.csr_array(steps, shape=(n, n)), np.ones((n, 256), np.float32)
    return P.nnz * Z.shape[1] * Z.itemsize * _rounds_per_second(lambda: P @ Z)


def _rounds_per_second(work: Callable[[], object]) -> float:
    """How often a piece of work can be done; the first time, which may load or compile something, does not count."""
    work()
    begin, rounds = time.perf_counter(), 0
    while True:
        work()
        rounds += 1
        elapsed = time.perf_counter() - begin
        if elapsed >= PROBE_SECONDS:
            return rounds / elapsed
