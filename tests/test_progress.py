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


def test_stages_make_one_whole() -> None:
    """Inner tasks belong to their stage; stages that are passed over count as done; others are ignored."""
    plan = progress.Whole([("a", 10.0), ("b", 20.0), ("c", 30.0), ("b", 40.0)])
    assert plan.fraction == 0
    with plan.stage("a", 4) as advance, plan.stage("b", 1) as inner:
        inner(1)
        advance(1)
        assert plan.fraction == pytest.approx(0.025)
    assert plan.fraction == pytest.approx(0.1)
    with plan.stage("c", 0) as advance:
        advance(5)
        assert plan.fraction == pytest.approx(0.3)
    with plan.stage("unknown", 2) as advance:
        advance(2)
    with plan.stage("b", 2) as advance:
        advance(1)
        assert plan.fraction == pytest.approx(0.8)
        advance(7)
    assert plan.fraction == pytest.approx(1)
    assert plan.seconds_left == pytest.approx(0)


def test_the_time_left_follows_the_plan_first_and_the_clock_later(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    plan = progress.Whole([("stored", 50.0), ("a", 60.0), ("b", 60.0)])
    assert plan.seconds_left == pytest.approx(170)
    with plan.stage("a", 60) as advance:
        now += 60
        advance(30)
        assert plan.seconds_left == pytest.approx(90 * 62 / 32)


def test_a_plan_within_a_plan_changes_nothing() -> None:
    class Silent:
        @contextmanager
        def task(self, label: str, total: int, unit: str) -> Iterator[progress.Advance]:
            yield lambda _: None

    with progress.planned([("a", 1.0)]):
        assert progress.whole() is None  # nobody listens
    with progress.listen(Silent()), progress.planned([("a", 1.0)]):
        outer = progress.whole()
        with progress.planned([("b", 1.0)]):
            assert progress.whole() is outer
    assert progress.whole() is None
