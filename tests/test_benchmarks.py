"""The benchmark of scale runs at small sizes."""

import subprocess
import sys
from pathlib import Path

import pytest

SCALE = Path(__file__).parents[1] / "benchmarks" / "scale.py"


@pytest.mark.skipif(sys.platform != "linux", reason="it counts products and memory in a way that Linux has")
def test_plans_and_sizes() -> None:
    """What is planned is what is counted: all flops, and no more bytes than a look at the first rows adds."""
    ran = subprocess.run(
        [sys.executable, SCALE, "--quick", "--only", "formula,size"], capture_output=True, text=True, check=True
    )
    plan, *sizes = [line.strip("[]").split(", ") for line in ran.stdout.splitlines()]
    flops, read = float(plan[-9]), float(plan[-7])
    assert 0.8 < flops < 1.2
    assert 1 <= read < 1.5
    assert len(sizes) == 2
