"""What an index promises when things go wrong: kills, full disks, damage, crowds, any order of operations."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from isch.errors import FileError
from isch.search.index import Index
from isch.search.verify import problems

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from index_writer import N_BITS, code, expect  # noqa: E402

STRESS_SECONDS = float(os.environ.get("ISCH_STRESS_SECONDS", "3"))
KILLS = 50


def random_codes(n: int, n_bytes: int = 8, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, (n, n_bytes), dtype=np.uint8)


def held(folder: Path) -> dict[str, int]:
    """The versions by key that an index holds, each checked against its code."""
    with Index.open(folder) as index:
        items = [
            item for batch in index.batches() for item in zip(batch.keys, batch.codes, batch.metadata, strict=True)
        ]
        assert len(items) == len(index)
        assert all(key in index for key, _, _ in items[::9])
    versions = {str(key): metadata["version"] for key, _, metadata in items if metadata}
    assert all(bits.tolist() == code(versions[str(key)]) for key, bits, _ in items)
    return versions


def test_a_writer_killed_at_any_moment_loses_nothing_acknowledged_and_shows_nothing_else(tmp_path: Path) -> None:
    folder, log, rng = tmp_path / "x.isch", tmp_path / "log", np.random.default_rng(0)
    Index.create(folder, n_bits=N_BITS).close()
    state: dict[str, int] = {}
    finished = begun = 0
    script = [sys.executable, str(HERE / "index_writer.py")]
    with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for seed in range(KILLS):
            log.write_text("")
            server.stdin.write(f"{folder} {log} {seed}\n")
            writer = int(server.stdout.readline())
            while log.read_text().count("done") < seed % 4:
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.03))
            os.kill(writer, signal.SIGKILL)
            assert server.stdout.readline() == "gone\n"
            lines = log.read_text().splitlines()
            operations = [json.loads(line[len("begin ") :]) for line in lines if line.startswith("begin ")]
            acknowledged = lines.count("done")
            for operation in operations[:acknowledged]:
                state = expect(state, operation)
            assert problems(folder) == []
            found = held(folder)
            unfinished = [expect(state, operation) for operation in operations[acknowledged:]]
            assert found in [state, *unfinished]
            state = found
            finished, begun = finished + acknowledged, begun + len(operations)
        server.stdin.close()
    assert finished > KILLS
    assert begun - finished > KILLS / 4, "the kills came between operations, not inside them"
    with Index.open(folder) as index:
        index.compact()
        assert sorted(path.suffix for path in (folder / "segments").iterdir()) == [".codes", ".items"]


@contextmanager
def largest_file(n_bytes: int) -> Iterator[None]:
    """A disk that takes no file beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_a_clear_error_and_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "x.isch"
    index = Index.create(folder, n_bits=64)
    index.add(random_codes(1000), keys=[f"old {i}" for i in range(1000)])
    files = sorted(p.name for p in (folder / "segments").iterdir())
    for limit in (5_000, 60_000, 100_000, 150_000, 250_000):
        with largest_file(limit), pytest.raises(FileError, match=str(folder)):
            index.add(random_codes(20_000), keys=[f"new {i}" for i in range(20_000)])
        assert sorted(p.name for p in (folder / "segments").iterdir()) == files
        assert problems(folder) == []
        assert set(index) == {f"old {i}" for i in range(1000)}
    index.add(random_codes(20_000), keys=[f"new {i}" for i in range(20_000)])
    assert len(Index.open(folder)) == 21_000
    assert problems(folder) == []


def test_a_small_tmpfs_that_fills_up(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a tmpfs is not permitted here")
    try:
        with Index.create(disk / "x.isch", n_bits=64) as index:
            index.add(random_codes(1000))
            with pytest.raises(FileError, match=r"[Nn]o space|full|I/O"):
                index.add(random_codes(100_000))
            assert len(index) == 1000
            index.delete([3])
            assert problems(index.path) == []
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << (position % 8)
    path.write_bytes(data)


@pytest.fixture
def settled(tmp_path: Path) -> Path:
    """An index with a model, features and deletions."""
    from isch.hashing.lsh import LSH

    data = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
    with Index.create(tmp_path / "x.isch", LSH(n_bits=20).fit(data), keep_features="float16") as index:
        index.add(data, keys=[f"k{i}" for i in range(60)], metadata={"a": 1})
        index.delete(["k3", "k4"])
        index.compact()
        index.delete(["k7"])
    assert problems(tmp_path / "x.isch") == []
    return tmp_path / "x.isch"


FILES = [
    "catalog.json",
    "model.safetensors",
    *(f"segments/*.{kind}" for kind in ("codes", "features", "items", "dead")),
]


@pytest.mark.parametrize("pattern", FILES)
def test_a_flipped_byte_anywhere_in_a_file_is_found_and_the_file_named(settled: Path, pattern: str) -> None:
    (path,) = settled.glob(pattern)
    size = path.stat().st_size
    ends = {0, 8, 12, 16, 56, 90, 4000, 4064, 4095, 4096, size - 1}
    some = np.random.default_rng(1).integers(0, size, 60).tolist()
    for position in sorted({p for p in ends if p < size} | set(some)):
        flip(path, position)
        found = problems(settled)
        assert len(found) >= 1, f"byte {position} of {path.name}"
        assert path.name in found[0]
        flip(path, position)
    assert problems(settled) == []


@pytest.mark.parametrize("pattern", [*FILES[:1], *FILES[2:]])
def test_a_truncated_or_missing_segment_is_refused_at_opening(settled: Path, pattern: str) -> None:
    (path,) = settled.glob(pattern)
    data = path.read_bytes()
    for size in (0, 100, 4096, len(data) - 1, len(data) + 1):
        path.write_bytes((data + b"\0")[:size])
        with pytest.raises(FileError, match=path.name):
            Index.open(settled)
        assert any(path.name in problem for problem in problems(settled))
    path.unlink()
    with pytest.raises(FileError, match="is missing|not an ISCH index"):
        Index.open(settled)


@pytest.mark.parametrize("role", ["read", "look"])
def test_four_readers_and_a_writer(everybodys: Path, role: str) -> None:
    if role == "look" and os.geteuid() != 0:
        pytest.skip("only root can become somebody who may not write")
    folder = everybodys / "x.isch"
    folder.with_suffix(".states").mkdir()
    folder.with_suffix(".states").chmod(0o777)
    Index.create(folder, n_bits=64).close()
    start = [sys.executable, str(HERE / "index_stress.py")]
    seconds = str(STRESS_SECONDS)
    roles = [["write", str(folder), seconds, "0"], *([role, str(folder), seconds, str(i)] for i in range(1, 5))]
    crowd = [
        subprocess.Popen(start + role, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for role in roles
    ]
    while any(process.poll() is None for process in crowd) and not any(process.poll() for process in crowd):
        time.sleep(0.05)
    for process in crowd:
        process.kill()  # none is left, unless one failed
    outcomes = [process.communicate() for process in crowd]
    for process, (_, errors) in zip(crowd, outcomes, strict=True):
        assert process.returncode in (0, -signal.SIGKILL), errors
    assert [process.returncode for process in crowd] == [0] * 5
    assert min(int(output) for output, _ in outcomes[1:]) >= 6
    assert problems(folder) == []


class IndexMachine(RuleBasedStateMachine):
    """Any order of operations, against a dictionary."""

    keys = st.lists(st.one_of(st.integers(-3, 20), st.sampled_from(["a", "1", "../x", "'; DROP TABLE items; --"])))
    unique = keys.map(lambda some: list(dict.fromkeys(some))).filter(len)

    @initialize()
    def make(self) -> None:
        import tempfile

        self.home = tempfile.TemporaryDirectory()
        self.path = Path(self.home.name) / "x.isch"
        self.index = Index.create(self.path, n_bits=64)
        self.model: dict[Any, tuple[bytes, dict[str, int]]] = {}
        self.version = 0
        self.reader = Index.open(self.path)
        self.seen = dict(self.model)

    def fresh(self, keys: list[Any]) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], list[dict[str, int]]]:
        self.version += 1
        return random_codes(len(keys), seed=self.version), [{"n": self.version % 3} for _ in keys]

    @rule(keys=unique)
    def add(self, keys: list[Any]) -> None:
        codes, metadata = self.fresh(keys)
        if set(keys) & set(self.model):
            with pytest.raises(ValueError, match="already in the index"):
                self.index.add(codes, keys, metadata)
            return
        self.index.add(codes, keys, metadata)
        self.model |= {key: (c.tobytes(), m) for key, c, m in zip(keys, codes, metadata, strict=True)}

    @rule(keys=unique)
    def upsert(self, keys: list[Any]) -> None:
        codes, metadata = self.fresh(keys)
        self.index.upsert(codes, keys, metadata)
        for key, c, m in zip(keys, codes, metadata, strict=True):
            self.model.pop(key, None)
            self.model[key] = (c.tobytes(), m)

    @rule(keys=unique)
    def delete(self, keys: list[Any]) -> None:
        assert self.index.delete(keys, missing_ok=True) == len(set(keys) & set(self.model))
        for key in keys:
            self.model.pop(key, None)

    @rule()
    def compact(self) -> None:
        self.index.compact()
        assert self.index.info()["deleted"] == 0
        assert self.index.info()["segments"] == min(1, len(self.model))

    @rule()
    def reopen(self) -> None:
        self.index.close()
        self.index = Index.open(self.path)

    @rule()
    def refresh(self) -> None:
        self.reader.refresh()
        self.seen = dict(self.model)

    @precondition(lambda self: self.version)
    @rule(k=st.integers(1, 30), n=st.one_of(st.none(), st.integers(0, 3)), seed=st.integers(0, 100))
    def search(self, k: int, n: int | None, seed: int) -> None:
        query = random_codes(1, seed=seed)[0]
        for index, model in ((self.index, self.model), (self.reader, self.seen)):
            allowed = [(key, c) for key, (c, m) in model.items() if n is None or m["n"] == n]
            bits = [int(np.bitwise_count(np.frombuffer(c, np.uint8) ^ query).sum()) for _, c in allowed]
            order = sorted(range(len(allowed)), key=lambda i: (bits[i], i))[:k]
            hits = index.search(query, k, where=None if n is None else {"n": n})[0]
            assert [(hit.key, hit.distance) for hit in hits] == [(allowed[i][0], bits[i]) for i in order]

    @invariant()
    def holds_what_the_dictionary_holds(self) -> None:
        if hasattr(self, "index"):
            assert list(self.index) == list(self.model)
            assert list(self.reader) == list(self.seen)

    def teardown(self) -> None:
        if hasattr(self, "index"):
            assert self.index.verify() == []
            for key, (c, m) in self.model.items():
                item = self.index.get(key)
                assert item is not None
                assert (item.code.tobytes(), item.metadata) == (c, m)
            self.index.close()
            self.reader.close()
            self.home.cleanup()


TestAnyOrderOfOperations = IndexMachine.TestCase
TestAnyOrderOfOperations.settings = settings(
    max_examples=15, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
