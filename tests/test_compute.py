import os
import threading

import numpy as np
import pytest
from scipy.sparse import csr_array
from threadpoolctl import threadpool_info

from isch import compute, features
from isch.errors import InputError


@pytest.mark.parametrize("threads", ["1", "3"])
def test_parallel_keeps_the_order(monkeypatch: pytest.MonkeyPatch, threads: str) -> None:
    monkeypatch.setenv("ISCH_NUM_THREADS", threads)
    assert list(compute.parallel(lambda i: i * i, range(100))) == [i * i for i in range(100)]


def test_parallel_passes_errors_on() -> None:
    def fail(i: int) -> int:
        if i == 5:
            raise KeyError(i)
        return i

    with pytest.raises(KeyError):
        list(compute.parallel(fail, range(50)))


def test_blas_is_single_threaded_inside_and_restored_outside_whoever_leaves_last() -> None:
    def blas() -> list[int]:
        """Of NumPy and SciPy; faiss brings one over OpenMP, whose setting belongs to each thread."""
        return [pool["num_threads"] for pool in threadpool_info() if pool.get("threading_layer") == "pthreads"]

    before = blas()
    first = compute.parallel(lambda _: blas(), range(10))
    second = compute.parallel(lambda _: blas(), range(10))
    assert set(next(first)) == {1}
    assert set(next(second)) == {1}
    list(first)
    assert set(next(second)) == {1}
    list(second)
    assert blas() == before


def test_works_from_several_threads_and_after_a_fork() -> None:
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda: results.append(sum(compute.parallel(abs, range(200))))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [19900] * 4
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, str(sum(compute.parallel(abs, range(200)))).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 10) == b"19900"


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_mean_is_the_mean(kind: type) -> None:
    X = np.random.default_rng(0).standard_normal((3000, 7))
    np.testing.assert_allclose(compute.mean(features.open(kind(X))), X.mean(axis=0), atol=1e-12)


def test_nan_and_infinity_are_counted_and_located() -> None:
    X = np.zeros((5000, 3), np.float32)
    X[2000, 1], X[4500, 0] = np.nan, np.inf
    with pytest.raises(InputError, match="2 values are NaN or infinity, the first in row 2000"):
        compute.mean(features.open(X))


def test_large_finite_values_are_not_taken_for_infinity() -> None:
    X = np.full((10, 2), 3e38, np.float32)
    np.testing.assert_allclose(compute.mean(features.open(X)), 3e38, rtol=1e-6)


def test_sample_is_sorted_without_repeats_and_everything_if_little() -> None:
    source = features.open(np.zeros((100, 1)))
    rows = compute.sample(source, 30, np.random.default_rng(0))
    assert len(np.unique(rows)) == 30
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(compute.sample(source, 200, np.random.default_rng(0)), np.arange(100))


def test_load_centres_before_narrowing() -> None:
    X = 1e8 + np.random.default_rng(0).standard_normal((50, 4))
    rows = np.array([3, 7, 8])
    loaded = compute.load(features.open(X), rows, X.mean(axis=0))
    np.testing.assert_allclose(loaded, (X - X.mean(axis=0))[rows], atol=1e-6)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_together_keeps_the_order_and_may_be_nested(monkeypatch: pytest.MonkeyPatch, threads: str) -> None:
    monkeypatch.setenv("ISCH_NUM_THREADS", threads)

    def row(i: int) -> list[int]:
        return compute.together(lambda j: i * j, range(7))

    expected = [[i * j for j in range(7)] for i in range(20)]
    assert compute.together(row, range(20)) == expected
    assert list(compute.parallel(row, range(20))) == expected


def test_together_passes_errors_on() -> None:
    for bad in range(4):
        with pytest.raises(ZeroDivisionError):
            compute.together(lambda i, bad=bad: 1 // (i - bad), range(4))  # type: ignore[misc]
