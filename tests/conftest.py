import signal


def pytest_configure() -> None:
    """A job that a shell runs in the background ignores Ctrl-C, and so would the programs that the tests interrupt."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
