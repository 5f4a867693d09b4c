"""The benchmark of scale runs at small sizes, and what must hold at any size holds."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SCALE = Path(__file__).parents[1] / "benchmarks" / "scale.py"


@pytest.mark.skipif(sys.platform != "linux", reason="it counts products and memory in a way that Linux has")
def test_scale() -> None:
    ran = subprocess.run([sys.executable, SCALE, "--quick"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    rows = [ast.literal_eval(line) for line in ran.stdout.splitlines()]
    bounded, (plan, speed, *sizes), clustered, killed = rows[:4], rows[4:8], rows[8:10], rows[10:]
    assert [row[0] for row in bounded] == ["fit", "encode"] * 2
    assert all(row[3] < 1 for row in bounded), "more memory than the bound"
    assert 0.8 < plan[2] < 1.2, "other products than planned"
    assert 1 <= plan[4] < 1.5, "other bytes than planned, beyond a look at the first rows"
    assert all(seconds > 0 for seconds in speed[:4])
    assert [row[0] for row in sizes] == ["1,000", "2,000"]
    assert [row[-1] for row in clustered] == [0, 0], "other bits on the cluster"
    assert [row[-1] for row in killed] == ["yes", "yes"], "other bytes after a kill"
    assert [row[1] for row in killed] == [2, 1]
