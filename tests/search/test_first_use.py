"""Damage is found by the first search that would read it, and a file that is cut does not end the process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isch.errors import FileError, FormatError, ParameterError
from isch.hashing.lsh import LSH
from isch.search import first_use
from isch.search.index import Index
from isch.search.sealed import SegmentFile

DATA = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)

USES: dict[str, Callable[[Index], Any]] = {
    "search": lambda index: index.search(DATA[:2], 3),
    "exact": lambda index: index.search(DATA[:2], 3, rerank="exact"),
    "recall": lambda index: index.search(DATA[:2], 3, recall=0.9),
    "search_codes": lambda index: index.search_codes(index.hasher.transform(DATA[:2]), 3),
    "where": lambda index: index.search(DATA[:2], 3, where={"a": 1}),
    "among": lambda index: index.search(DATA[:2], 3, among=["k1"]),
    "within": lambda index: index.within(DATA[:2], 3),
    "similar": lambda index: index.similar("k1"),
    "get": lambda index: index.get("k1"),
    "in": lambda index: "k1" in index,
    "iter": list,
    "batches": lambda index: list(index.batches()),
    "fields": lambda index: index.fields(),
    "duplicates": lambda index: list(index.duplicates(2)),
    "add": lambda index: index.add(DATA[:1], ["new"]),
    "delete": lambda index: index.delete(["k1"]),
}


@pytest.fixture
def index(tmp_path: Path) -> Path:
    with Index.create(tmp_path / "x.isch", LSH(n_bits=20).fit(DATA), keep_features="float16") as index:
        index.add(DATA, [f"k{i}" for i in range(60)], {"a": 1})
    return tmp_path / "x.isch"


def flip(folder: Path, kind: str, place: int = 4100) -> Path:
    (path,) = folder.glob(f"segments/*.{kind}")
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("use", USES)
def test_no_use_gives_an_answer_from_damaged_items(index: Path, use: str) -> None:
    path = flip(index, "items")
    with Index.open(index) as opened, pytest.raises(FormatError, match=f"{path.name}: the segment is damaged"):
        USES[use](opened)


@pytest.mark.parametrize("use", ["search", "search_codes", "within", "similar", "get", "batches", "duplicates"])
def test_nor_from_damaged_codes(index: Path, use: str) -> None:
    path = flip(index, "codes")
    with Index.open(index) as opened:
        for _ in range(2):
            with pytest.raises(FormatError, match=path.name):
                USES[use](opened)


@pytest.mark.parametrize("use", ["exact", "recall", "get", "batches"])
def test_nor_from_damaged_features(index: Path, use: str) -> None:
    path = flip(index, "features")
    with Index.open(index) as opened:
        opened.search(DATA[:2], rerank="none")
        with pytest.raises(FormatError, match=path.name):
            USES[use](opened)


def test_several_indexes_are_checked_too(index: Path, tmp_path: Path) -> None:
    other = tmp_path / "y.isch"
    Index.create(other, index / "model.safetensors", DATA, keep_features="float16").close()
    path = flip(other, "codes")
    with Index.open([index, other]) as both, pytest.raises(FormatError, match=path.name):
        both.search(DATA[:1])


def test_every_flipped_bit_of_a_body_is_found_or_changes_nothing(index: Path) -> None:
    with Index.open(index) as opened:
        right = opened.search(DATA[:5], 60, rerank="exact")
    (size,) = {path.stat().st_size for path in index.glob("segments/*.codes")}
    for place in range(4096, size, 7):
        flip(index, "codes", place)
        with Index.open(index) as opened, pytest.raises(FormatError):
            opened.search(DATA[:5], 60, rerank="exact")
        flip(index, "codes", place)
    with Index.open(index) as opened:
        assert opened.search(DATA[:5], 60, rerank="exact").keys == right.keys


def test_never_means_that_only_verify_compares(index: Path) -> None:
    flip(index, "codes")
    with Index.open(index, verify="never") as opened:
        assert len(opened.search(DATA[:2], 3)[0]) == 3
        assert len(opened.verify()) == 1


def test_before_means_that_a_search_waits_however_large_a_file_is(index: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(first_use, "AT_ONCE_BYTES", 0)
    path = flip(index, "codes")
    with Index.open(index, verify="before") as opened, pytest.raises(FormatError, match=path.name):
        opened.search(DATA[:2], 3)


def in_time(opened: Index, seconds: float = 60) -> str:
    """What a search says as soon as the background has found the damage."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            opened.search(DATA[:2], 3)
        except FormatError as error:
            return str(error)
    return "nothing was found"


def test_a_large_file_is_compared_in_the_background(index: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(first_use, "AT_ONCE_BYTES", 0)
    path = flip(index, "codes")
    with Index.open(index) as opened:
        assert path.name in in_time(opened)
        with pytest.raises(FormatError, match=path.name):
            opened.get("k1")
        opened.refresh()
        with pytest.raises(FormatError, match=path.name):
            opened.search(DATA[:2], 3)


@pytest.mark.parametrize("at_once", [0, 1 << 20])
def test_a_file_is_compared_once(index: Path, monkeypatch: Any, at_once: int) -> None:
    monkeypatch.setattr(first_use, "AT_ONCE_BYTES", at_once)
    compared: list[str] = []
    check = SegmentFile.check

    def counted(file: SegmentFile) -> None:
        compared.append(file.path.suffix)
        check(file)

    monkeypatch.setattr(SegmentFile, "check", counted)
    with Index.open(index) as opened:
        end = time.monotonic() + 60
        while sorted(compared) != [".codes", ".features", ".items"] and time.monotonic() < end:
            opened.search(DATA[:2], 3, rerank="exact")
        for _ in range(3):
            opened.search(DATA[:2], 3, rerank="exact")
            opened.refresh()
    assert sorted(compared) == [".codes", ".features", ".items"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_goes_on_with_what_the_background_had_not_done(index: Path) -> None:
    path = flip(index, "codes")
    script = f"""
import os, threading
import numpy as np
from isch import Index
from isch.search import first_use
first_use.AT_ONCE_BYTES = 0
first_use._Background._work = lambda self: threading.Event().wait()  # a thread that does not get on
opened = Index.open({str(index)!r})
queries = np.zeros((1, 6), np.float32)
opened.search(queries)
work = lambda self: [first_use.prove(file) for file in iter(self._next, None)]
if os.fork() == 0:
    first_use._Background._work = work
    while True:
        try:
            opened.search(queries)
        except Exception as error:
            os._exit(7 if {path.name!r} in str(error) else 8)
os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=120).returncode == 7


def test_a_process_ends_while_the_background_is_at_work(tmp_path: Path) -> None:
    codes = np.random.default_rng(0).integers(0, 256, (300_000, 32), dtype=np.uint8)
    Index.create(tmp_path / "x.isch", n_bits=256, rows=codes).close()
    np.save(tmp_path / "q.npy", codes[:1])
    script = "import isch, numpy; isch.Index.open('x.isch').search(numpy.load('q.npy'))"
    for _ in range(3):
        assert subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False, timeout=120).returncode == 0


@pytest.mark.parametrize("kind", ["codes", "features", "items"])
@pytest.mark.parametrize("size", [0, 4096])
def test_a_file_that_is_cut_under_an_open_reader_is_an_error(index: Path, kind: str, size: int) -> None:
    (path,) = index.glob(f"segments/*.{kind}")
    script = f"""
import os
import isch.errors
import numpy as np
opened, query = isch.Index.open({str(index)!r}), np.zeros((1, 6), np.float32)
opened.search(query, rerank="exact")
os.truncate({str(path)!r}, {size})
for use in (
    lambda: opened.search(query, rerank="exact"),
    lambda: opened.get("k1"),
    lambda: list(opened.batches()),
):
    try:
        use()
    except isch.errors.FormatError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode != -signal.SIGBUS
    assert done.stdout.count(f"{path.name}: the segment was changed while it was open") == 3, done.stderr


def test_a_file_without_a_name_is_compared_where_it_is_mapped(index: Path) -> None:
    with Index.open(index) as opened, Index.open(index) as writer:
        writer.delete(["k3"])
        writer.compact()
        assert len(opened.search(DATA[:1], 60)[0]) == 60


def test_a_disk_that_cannot_be_read_is_an_error(index: Path, monkeypatch: Any) -> None:
    def failing(self: SegmentFile) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(SegmentFile, "check", failing)
    with Index.open(index) as opened, pytest.raises(FileError, match="cannot be read .Input/output error."):
        opened.search(DATA[:1])


def test_other_choices_are_refused(index: Path) -> None:
    with pytest.raises(ParameterError, match="unknown verify 'always'"):
        Index.open(index, verify="always")
    with pytest.raises(ParameterError, match="known: before, first use, never"):
        Index.open([index], verify="")
