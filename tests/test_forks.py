import os
import threading
import time

import pytest

from isch.forks import Gate, Lock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")


def in_child(action: object) -> int:
    """The exit code of a child that does something; it has 20 seconds."""
    import warnings

    with warnings.catch_warnings():  # newer Pythons warn of just what is tested here
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        import signal

        signal.alarm(20)
        try:
            os._exit(0 if action() else 1)  # type: ignore[operator]
        finally:
            os._exit(2)
    return os.waitpid(child, 0)[1]


def test_a_lock_that_another_thread_holds_is_free_in_the_child() -> None:
    lock, held, done = Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()

    def take() -> bool:
        with lock:
            return True

    assert in_child(take) == 0
    done.set()
    thread.join()
    with lock:
        pass


def test_a_fork_waits_for_threads_inside_the_gate() -> None:
    gate, stop, mutex = Gate(), threading.Event(), threading.Lock()

    def work() -> None:
        while not stop.is_set():
            with gate.entered(), mutex:  # as a C library holds its own mutexes
                time.sleep(0.001)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()

    def use() -> bool:
        with gate.entered():
            return mutex.acquire(timeout=5)

    assert [in_child(use) for _ in range(20)] == [0] * 20
    stop.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_a_thread_may_fork_while_it_is_inside() -> None:
    gate = Gate()

    def use() -> bool:
        with gate.entered():
            return True

    with gate.entered(), gate.entered():
        assert in_child(use) == 0
    assert in_child(use) == 0
