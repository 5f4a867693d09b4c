"""Threads: results in order, nested, abandoned, after a fork, and without what only Linux has."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info

from isch import compute

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")


def blas() -> list[int]:
    """Threads of NumPy's and SciPy's BLAS; faiss brings one over OpenMP, whose setting belongs to each thread."""
    return [pool["num_threads"] for pool in threadpool_info() if pool.get("threading_layer") == "pthreads"]


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


@pytest.mark.timeout(60)
@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_parallel_may_be_nested(monkeypatch: pytest.MonkeyPatch, threads: str) -> None:
    monkeypatch.setenv("ISCH_NUM_THREADS", threads)

    def inner(j: int) -> int:
        return sum(compute.parallel(abs, range(j)))

    def outer(i: int) -> int:
        return sum(compute.parallel(inner, range(i)))

    assert list(compute.parallel(outer, range(30))) == [sum(sum(range(j)) for j in range(i)) for i in range(30)]


def test_blas_is_single_threaded_inside_and_restored_outside_whoever_leaves_last() -> None:
    before = blas()
    first = compute.parallel(lambda _: blas(), range(10))
    second = compute.parallel(lambda _: blas(), range(10))
    for _ in range(5):
        assert set(next(first)) == set(next(second)) == {1}
    assert {threads for some in (*first, *second) for threads in some} == {1}
    assert blas() == before


def test_blas_is_single_threaded_in_every_thread() -> None:
    def work() -> None:
        with compute.single_threaded_blas():
            found.extend(blas())

    before, found = blas(), list[int]()
    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        work()
    assert set(found) == {1}
    assert blas() == before


def test_a_half_read_generator_holds_nothing() -> None:
    before, release = blas(), threading.Event()
    abandoned = compute.parallel(lambda i: release.wait(20) and i, range(50))
    release.set()
    next(abandoned)
    for _ in range(200):  # what was begun is finished
        if blas() == before:
            break
        threading.Event().wait(0.02)
    assert blas() == before
    assert list(compute.parallel(abs, range(20))) == list(range(20))
    abandoned.close()  # type: ignore[attr-defined]


def test_works_from_several_threads() -> None:
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda: results.append(sum(compute.parallel(abs, range(200))))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [19900] * 4


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


def run(script: str, *, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


FORKS = """
import os, threading, warnings
import numpy as np
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads
from isch import compute, nearest
from isch.scan import numpy_reference
from threadpoolctl import threadpool_info

numpy_reference.allowance = numpy_reference.Allowance(0)  # the kernels are loaded by the first search
if os.environ["LOADED"]:
    import isch.scan.kernels.selection

codes = np.random.default_rng(0).integers(0, 256, (20_000, 16), dtype=np.uint8)
floats = np.random.default_rng(0).standard_normal((5_000, 64), dtype=np.float32)
before = {pool["num_threads"] for pool in threadpool_info()}
stop = threading.Event()

def search():
    while not stop.is_set():
        nearest(codes[:20], codes, 5)

def product():
    while not stop.is_set():
        list(compute.parallel(lambda i: floats[i : i + 500] @ floats.T, range(0, 5000, 500)))

def child():
    rows = nearest(codes[:20], codes, 5)[1]
    good = (rows[:, 0] == np.arange(20)).all() and sum(compute.parallel(abs, range(100))) == 4950
    restored = {pool["num_threads"] for pool in threadpool_info()} == before
    os._exit(0 if good and restored else 1)

threads = [threading.Thread(target=t, daemon=True) for t in (search, search, product)]
for thread in threads:
    thread.start()
for i in range(int(os.environ["FORKS"])):
    pid = os.fork()
    if pid == 0:
        child()
    if os.waitpid(pid, 0)[1] != 0:
        print("bad", i, flush=True)
        os._exit(1)
stop.set()
for thread in threads:
    thread.join()
print("good")
"""


@needs_fork
@pytest.mark.parametrize("meanwhile", ["search", "import", "compile"])
def test_a_child_forked_while_other_threads_search_can_search(meanwhile: str, tmp_path: Path) -> None:
    environment = {"FORKS": "12" if meanwhile == "search" else "1", "LOADED": "" if meanwhile == "import" else "1"}
    if meanwhile == "compile":
        environment |= {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_OPT": "0"}
    assert run(FORKS, environment=environment) == "good\n"


ELSEWHERE = """
import os
for name in ("sched_getaffinity", "fork", "register_at_fork", "process_cpu_count"):
    if hasattr(os, name):
        delattr(os, name)
from isch import compute
print(compute.n_threads() == os.cpu_count(), sum(compute.parallel(abs, range(100))))
os.cpu_count = lambda: None
print(compute.n_threads())
os.process_cpu_count = lambda: 7
print(compute.n_threads())
"""


def test_works_where_the_calls_of_linux_are_missing() -> None:
    assert run(ELSEWHERE, environment={"ISCH_NUM_THREADS": ""}) == "True 4950\n1\n7\n"
