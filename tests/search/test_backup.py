"""Backups: consistent beside a writer, whole or not at all."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from isch.errors import FileError, FormatError, LockedError
from isch.hashing.lsh import LSH
from isch.search import backup as backups
from isch.search.folder import building
from isch.search.index import Index
from isch.search.verify import problems

DATA = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
CODES = np.random.default_rng(0).integers(0, 256, (4000, 8), dtype=np.uint8)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    with Index.create(tmp_path / "x.isch", LSH(n_bits=20).fit(DATA), keep_features="float16") as index:
        index.add(DATA[:40], [f"k{i}" for i in range(40)], {"a": 1})
        index.add(DATA[40:])
        index.delete(["k3", 45])
    return tmp_path / "x.isch"


def test_a_backup_gives_the_same_answers_and_needs_no_room(index: Path, tmp_path: Path) -> None:
    with Index.open(index) as opened:
        opened.backup(tmp_path / "y.isch")
        right = opened.search(DATA[:9], 60, rerank="exact")
    names = [*index.glob("segments/*"), index / "model.safetensors"]
    assert all(os.path.samefile(path, tmp_path / "y.isch" / path.relative_to(index)) for path in names)
    shutil.rmtree(index)
    with Index.open(tmp_path / "y.isch") as copied:
        found = copied.search(DATA[:9], 60, rerank="exact")
        assert (found.keys, found.metadata) == (right.keys, right.metadata)
        copied.add(DATA[:1], ["new"])
    assert problems(tmp_path / "y.isch") == []


def test_a_change_of_one_is_none_of_the_other(index: Path, tmp_path: Path) -> None:
    with Index.open(index) as opened:
        opened.backup(tmp_path / "y.isch")
        opened.upsert(DATA[:3], ["k1", "k2", "k4"])
        opened.compact()
    with Index.open(tmp_path / "y.isch") as copied:
        assert len(copied) == 58
        copied.delete(list(copied))
        copied.compact()
    assert problems(index) == problems(tmp_path / "y.isch") == []
    assert len(Index.open(index)) == 58


@pytest.mark.parametrize("links", [True, False])
def test_files_are_copied_where_that_is_asked_for_or_links_are_refused(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:

        def link(*_: object, **__: object) -> None:
            raise OSError(18, "Invalid cross-device link")

        monkeypatch.setattr(os, "link", link)
    with Index.open(index) as opened:
        opened.backup(tmp_path / "y.isch", copy=links)
    for path in [path for path in index.rglob("*") if path.is_file() and not path.name.startswith("lock")]:
        copied = tmp_path / "y.isch" / path.relative_to(index)
        assert copied.read_bytes() == path.read_bytes()
        assert not os.path.samefile(copied, path)
        assert path.name == "catalog.json" or copied.stat().st_mtime_ns == path.stat().st_mtime_ns


@pytest.mark.parametrize("copy", [False, True])
def test_a_backup_beside_a_writer_is_one_of_its_moments(tmp_path: Path, copy: bool) -> None:
    index = Index.create(tmp_path / "x.isch", n_bits=64, rows=CODES[:10])
    moments, stop = [frozenset(index)], threading.Event()

    def write() -> None:
        with Index.open(index.path) as writer:
            for i in range(1, 10_000):
                moments.append((moments[-1] - {i - 1}) | {f"new {i}"})
                writer.upsert(CODES[i : i + 1], [f"new {i}"])
                moments.append(moments[-1] - {i - 1})
                writer.delete([i - 1], missing_ok=True)
                writer.compact()
                if stop.is_set():
                    return

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(8):
            target = tmp_path / f"{number}.isch"
            with Index.open(index.path) as reader:
                reader.backup(target, copy=copy)
            assert problems(target) == []
            held = frozenset(Index.open(target))
            assert any(held in (moment, moment | {n}) for moment in moments for n in range(10))
    finally:
        stop.set()
        thread.join()


def test_nothing_is_made_of_a_damaged_index(index: Path, tmp_path: Path) -> None:
    path = next(index.glob("segments/*.codes"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with Index.open(index) as opened, pytest.raises(FormatError, match=f"^{path}: .* no backup was made"):
        opened.backup(tmp_path / "y.isch")
    path.unlink()
    with pytest.raises(FormatError, match="a file of the index is missing"):
        backups.backup(index, tmp_path / "y.isch")
    path.symlink_to("/etc/hostname")
    with pytest.raises(FileError, match="is a link"):
        backups.backup(index, tmp_path / "y.isch")
    assert [path.name for path in tmp_path.iterdir()] == ["x.isch"]


def test_what_exists_and_what_lies_in_the_index_is_refused(index: Path, tmp_path: Path) -> None:
    (tmp_path / "y.isch").mkdir()
    with Index.open(index) as opened:
        with pytest.raises(FileError, match="exists already"):
            opened.backup(tmp_path / "y.isch")
        with pytest.raises(FileError, match="would lie in the index"):
            opened.backup(index / "y.isch")
        with pytest.raises(FileError, match="does not exist"):
            opened.backup(tmp_path / "no" / "y.isch")
        with building(tmp_path / "z.isch"), pytest.raises(LockedError, match=f"process {os.getpid()} .* is making"):
            opened.backup(tmp_path / "z.isch")
    assert not (index / "y.isch").exists()


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    Index.create(tmp_path / "x.isch", n_bits=64, rows=CODES).close()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (3000, 20_000, 33_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(FileError, match="cannot make .*y.isch"):
                backups.backup(tmp_path / "x.isch", tmp_path / "y.isch", copy=True)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert [path.name for path in tmp_path.iterdir()] == ["x.isch"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_backup_that_is_stopped_leaves_nothing_for_the_next_one(index: Path, tmp_path: Path, how: int) -> None:
    script = f"""
import os, sys, time
from isch.search import backup
from isch.cli.program import run

def stopped(path):
    os.kill(os.getpid(), {int(how)})
    time.sleep(60)

backup.problems = stopped
sys.exit(run(["index", "backup", {str(index)!r}, {str(tmp_path / "y.isch")!r}]))
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert not (tmp_path / "y.isch").exists()
    if how == signal.SIGINT:
        assert [path.name for path in tmp_path.iterdir()] == ["x.isch"]
    backups.backup(index, tmp_path / "y.isch")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.isch", "y.isch"]
    assert problems(index) == problems(tmp_path / "y.isch") == []
