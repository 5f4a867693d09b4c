"""The quick form of benchmarks/attack.py, and that it notices what it is there to notice."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "attack.py"


def run(*arguments: str) -> Any:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def engine() -> Any:
    return run(str(Path(__file__).with_name("attack_engine.py")))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("right", {"tried": 3, "right": 3, "notes": 0}),
        ("refused", {"tried": 3, "refused": 3, "notes": 0}),
        ("two_lines", {"tried": 3, "foreign": 3, "notes": 3}),
        ("foreign", {"tried": 3, "foreign": 3, "notes": 3}),
        ("ended", {"tried": 3, "foreign": 3, "notes": 3}),
        ("crashed", {"tried": 2, "crashed": 2, "notes": 2}),
        ("hung", {"tried": 1, "hung": 1, "notes": 1}),
        ("changed", {"tried": 3, "changed": 3, "notes": 0}),
        ("sealed", {"tried": 3, "wrong": 3, "notes": 3}),
        ("reshaped", {"tried": 3, "wrong": 3, "notes": 3}),
        ("executed", {"tried": 3, "refused": 3, "wrong": 1, "notes": 1}),
        ("crafted", {"tried": 4, "right": 3, "wrong": 1, "notes": 1}),
    ],
)
def test_each_outcome_is_counted(engine: Any, target: str, expected: dict[str, int]) -> None:
    assert engine[target] == expected


def test_nothing_that_is_read_can_do_harm() -> None:
    """Feature formats have a longer turn in tests/conformance."""
    report = run(str(SCRIPT), "--flips", "400", "--cuts", "80", "--smears", "80", "--json")
    assert report["notes"] == []
    assert sum(counts["tried"] for counts in report["results"].values()) >= 560
