from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

from isch import features
from isch.fitting import speeds


def test_no_probe_runs_out_on_a_fast_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at this clock is a ten-thousandth of a second later, so 3,000 rounds fit into a probe."""
    ticks = count()
    monkeypatch.setattr(speeds, "time", SimpleNamespace(perf_counter=lambda: next(ticks) * 1e-4))
    source = features.open(np.ones((5, 3), np.float32))
    assert speeds._read(source) == pytest.approx(5 * 3 * 4 * 1e4, rel=1e-2)


def test_speeds_are_measured() -> None:
    found = speeds.measured(features.open(np.ones((500, 8), np.float32)), 16)
    assert min(found) > 0
