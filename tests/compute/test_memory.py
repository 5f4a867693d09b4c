"""A bound on memory: honoured, without any change to the results; too small a one says the least that would do."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import isch
from isch.compute import memory
from isch.errors import FileError, InputError, ParameterError

MEASURE = """
import hashlib, sys, threading, time
import numpy as np
import isch

def anonymous():
    with open("/proc/self/status") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))

def watch():
    while True:
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.002)

options = {"n_atoms": 64, "n_iter": 2, "max_samples": 20_000}
isch.ISCH(16, **options).fit(np.random.default_rng(0).standard_normal((300, 40)))  # loads and compiles
base = anonymous()
peak = [base]
threading.Thread(target=watch, daemon=True).start()
model = isch.ISCH(16, **options).fit(sys.argv[1], memory=sys.argv[2])
print(peak[0] - base, hashlib.sha256(model.projection_.tobytes()).hexdigest())
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say how much memory is whose")
@pytest.mark.filterwarnings("ignore:the dictionary has")
def test_the_bound_is_honoured_and_changes_no_bit(tmp_path: Path) -> None:
    """Peak memory of the process, page cache not counted. The rows that k-means wants are 80 MB."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.standard_normal((20_000, 1000), np.float32).astype(np.float16))
    found = {}
    for bound in ("75MB", "10GB"):
        command = [sys.executable, "-W", "ignore", "-c", MEASURE, str(tmp_path / "x.npy"), bound]
        found[bound] = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(found["75MB"][0]) < 75e6 < int(found["10GB"][0])
    assert found["75MB"][1] == found["10GB"][1]


def test_too_small_a_bound_says_the_least_that_would_do() -> None:
    X = np.random.default_rng(0).standard_normal((500, 200))
    with pytest.raises(
        InputError, match=r"memory = 1 MB is too little for ISCH of 16 bits and 200 feat\S+ .* least"
    ) as got:
        isch.ISCH(16).fit(X, memory="1MB")
    least = re.findall(r"at least (\S+ \S+)$", str(got.value))[0]
    isch.ISCH(16).fit(X, memory=int(memory.n_bytes(least) * 1.01))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4GB", 4 * 10**9), ("1.5 gib", 3 * 2**29), (" 500 MB ", 5 * 10**8), ("12", 12), (7, 7), ("2T", 2 * 10**12)],
)
def test_sizes(text: str | int, expected: int) -> None:
    assert memory.n_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "many", "-4GB", "4XB", "0", "1e9", "9" * 30, "4 GB 2", "nan"])
def test_what_is_no_size_is_one_sentence(text: str) -> None:
    with pytest.raises(ParameterError, match=r"memory must be a size such as 4GB or 500MB; got "):
        memory.n_bytes(text)


def test_large_arrays_lie_in_files_that_nobody_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with memory.bounded("8MB"):
        small, large = memory.empty((1000, 125), np.float64), memory.zeros((1000, 126), np.float64)
    assert small.base is None
    assert large.base is not None
    assert not large.any()
    large[5] = 3
    assert large.sum() == 3 * 126
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_sentence() -> None:
    with memory.bounded("1MB"), pytest.raises(FileError, match=r"no room for 1,000,000 TB that do not fit into memory"):
        memory.empty((10**9, 10**9), np.uint8)


def test_a_bound_holds_inside_its_block_and_half_of_what_is_free_outside() -> None:
    assert memory.bound() == pytest.approx(memory.free() // 2, rel=0.2)
    with memory.bounded("3GB") as outer:
        with memory.bounded(None) as inner:
            assert inner == outer == memory.bound() == 3 * 10**9
        with memory.bounded(5):
            assert memory.bound() == 5
