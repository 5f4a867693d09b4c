import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from isch.cli import program

DIGITS = load_digits()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("features.npy", DIGITS.data.astype(np.float32))
    np.save("y.npy", DIGITS.target)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], line: str) -> tuple[int, str, str]:
    code = program.run(line.split())
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_table_and_commands_that_work(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "advise features.npy --labels y.npy --bytes 8 --recall .9 --plot trade.svg")
    assert code == 0
    assert "1797 rows × 64 features" in out
    assert "precision: results with the query's label" in out
    assert "Advice: " in out
    assert Path("trade.svg").read_text().count("<svg") == 1
    told = out.partition("Advice: ")[2].split("\n")
    commands = [line.removeprefix("  isch ") for line in told if line.startswith("  isch ")]
    assert len(commands) == 3
    for command in commands:
        assert run(capsys, command.replace("QUERIES", "features.npy"))[0] == 0, command


def test_json(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "advise features.npy --bytes 4 --json")
    found: dict[str, Any] = json.loads(out)
    assert code == 0
    assert found["shape"] == [1797, 64]
    assert {cell["n_bits"] for cell in found["cells"]} == {8, 16, 32}
    assert all(0 <= cell["low"] <= cell["recall"] <= cell["high"] <= 1 for cell in found["cells"])
    assert found["best"] in found["cells"]


def test_a_recall_that_is_not_reached_is_told(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no choice reaches the recall" in run(capsys, "advise features.npy --bytes 1 --recall 1")[1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("advise few.npy", "at least 100 rows"),
        ("advise nan.npy", "NaN"),
        ("advise constant.npy", "all rows are equal"),
        ("advise missing.npy", "no such"),
        ("advise features.npy --labels few.npy", "labels must be one per row"),
        ("advise features.npy --labels missing.npy", "missing.npy"),
        ("advise features.npy --bytes 0", "--bytes"),
        ("advise features.npy --recall 1.5", "recall must be above 0 and at most 1"),
        ("advise features.npy --recall nan", "recall must be above 0 and at most 1"),
        ("advise features.npy --plot figure.gif", "must be a .png or .svg file"),
        ("advise features.npy --plot features.npy", "cannot write features.npy"),
        ("advise features.npy --plot y.npy", "y.npy exists already"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    files: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    rows = np.random.default_rng(0).standard_normal((200, 6))
    np.save("few.npy", rows[:50])
    np.save("constant.npy", np.ones((200, 6)))
    rows[7, 2] = np.nan
    np.save("nan.npy", rows)
    before = set(os.listdir())
    code, _, err = run(capsys, line)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert set(os.listdir()) == before
