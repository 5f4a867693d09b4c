from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from isch import progress


def test_silent_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    with progress.task("work", 3) as advance:
        advance(3)
    assert capfd.readouterr() == ("", "")


def test_listeners_hear_every_step() -> None:
    heard: list[tuple[str, int, int]] = []

    class Listener:
        @contextmanager
        def task(self, label: str, total: int, unit: str) -> Iterator[progress.Advance]:
            yield lambda n: heard.append((label, total, n))

    with progress.listen(Listener()), progress.task("work", 3) as advance:
        advance(1)
        advance(2)
    assert heard == [("work", 3, 1), ("work", 3, 2)]
