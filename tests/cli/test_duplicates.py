"""isch duplicates."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from isch.cli import program
from isch.search.index import Index

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """``isch`` in a folder with an index of six codes, one of them deleted."""
    monkeypatch.chdir(tmp_path)
    with Index.create("x.isch", n_bits=8) as index:
        index.add(np.array([[0], [1], [0], [255], [254], [0]], np.uint8), ["a", "b", "c", 7, "é", "gone"])
        index.delete("gone")

    def run(*arguments: object) -> tuple[int, str, str]:
        code = program.run(["duplicates", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_groups(run: Run) -> None:
    expected = "group\tdiameter\tkey\n0\t1\ta\n0\t1\tb\n0\t1\tc\n1\t1\t7\n1\t1\té\n"
    assert run("x.isch", "--radius", 1) == (0, expected, "")


def test_pairs(run: Run) -> None:
    assert run("x.isch", "--radius", 0, "--pairs") == (0, "first\tsecond\tdistance\na\tc\t0\n", "")


def test_json(run: Run) -> None:
    _, out, _ = run("x.isch", "-r", 1, "--json")
    assert [json.loads(line) for line in out.splitlines()] == [
        {"keys": ["a", "b", "c"], "diameter": 1},
        {"keys": [7, "é"], "diameter": 1},
    ]
    _, out, _ = run("x.isch", "-r", 0, "--json", "--pairs")
    assert json.loads(out) == {"first": "a", "second": "c", "distance": 0}


def test_explain_leaves_the_output_alone(run: Run) -> None:
    code, out, errors = run("x.isch", "-r", 0, "--json", "--explain")
    assert (code, json.loads(out)) == (0, {"keys": ["a", "c"], "diameter": 0})
    assert errors.startswith("isch: 4 distinct codes of 8 bits, radius 0: scan with 6 pairs compared;")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("x.isch", "-r", -1), "'--radius'"), (("nowhere.isch",), "nowhere.isch")],
)
def test_bad_input_is_one_sentence(run: Run, arguments: tuple[object, ...], message: str) -> None:
    code, out, errors = run(*arguments)
    assert (code, out) == (2, "")
    assert message in errors
    assert errors.count("\n") == 1
