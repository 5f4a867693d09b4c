"""Progress as a user sees it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from isch import progress
from isch.cli import progress as shown

STAGES = """
import sys
from isch import progress
from isch.cli.console import say
from isch.cli.progress import shown
with shown():
    for label, total in (("first", 4), ("second", 2)):
        with progress.task(label, total, "rows") as advance:
            for _ in range(total):
                advance(1)
        say(f"said after {label}")
"""


def test_plain_lines_tell_what_is_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(shown, "LINE_SECONDS", 0)
    with progress.listen(shown.Lines()), progress.task("work", 4, "rows") as advance:
        advance(0)
        advance(2)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("work: 0 of 4 rows, 0 rows/s")
    assert second.startswith("work: 2 of 4 rows, ")
    assert second.endswith(" rows/s, 0 s left")


def test_planned_stages_have_one_time_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In plain lines, in JSON, and as the first line of a display."""
    monkeypatch.setattr(shown, "LINE_SECONDS", 0)
    stages = [("first", 10.0), ("second", 30.0)]
    for reporter in (shown.Lines(), shown.JsonLines()):
        with progress.listen(reporter), progress.planned(stages):
            for label, _ in stages:
                with progress.task(label, 2, "rows") as advance:
                    advance(1)
    first, second, *lines = capsys.readouterr().err.splitlines()
    assert first.startswith("12% of all, ")
    assert "left; first: 1 of 2 rows, " in first
    assert second.startswith("62% of all, ")
    assert second.count(" left") == 1
    told = [json.loads(line) for line in lines]
    assert [line["overall"] for line in told] == [0, 0.125, 0.25, 0.25, 0.625, 1]
    assert [line["seconds_left"] > 0 for line in told] == [True] * 5 + [False]
    with shown.Bars() as bars, progress.listen(bars), progress.planned(stages):
        with progress.task("first", 2) as advance:
            advance(1)
        (task, _) = bars._display.tasks
        assert (task.description, task.completed) == ("all stages", 25)


def test_work_of_unknown_length(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(shown, "LINE_SECONDS", 0)
    with progress.listen(shown.Lines()), progress.task("work", 0) as advance:
        advance(3)
    assert capsys.readouterr().err.startswith("work: 3 steps, ")


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")])
def test_readable(seconds: float, text: str) -> None:
    assert shown.readable(seconds) == text


def test_a_terminal_shows_all_stages_and_output_goes_where_it_belongs(tmp_path: Path) -> None:
    """Stderr is a terminal and stdout a file: what is said lands in the file, the bars on the terminal."""
    pty = pytest.importorskip("pty")
    reader, terminal = pty.openpty()
    with open(tmp_path / "out", "w") as out:
        ran = subprocess.run(
            [sys.executable, "-c", STAGES], stdout=out, stderr=terminal, env=os.environ | {"TERM": "xterm"}
        )
    os.close(terminal)
    display = b""
    while True:
        try:
            part = os.read(reader, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not part:
            break
        display += part
    os.close(reader)
    assert ran.returncode == 0
    assert (tmp_path / "out").read_text() == "said after first\nsaid after second\n"
    assert b"first" in display
    assert b"4/4" in display
    assert b"rows" in display
    assert b"said" not in display


def test_finished_stages_do_not_pile_up() -> None:
    with shown.Bars() as bars, progress.listen(bars):
        for number in range(20):
            with progress.task(f"stage {number}", 1) as advance:
                advance(1)
        assert len(bars._display.tasks) == shown.KEPT_STAGES
