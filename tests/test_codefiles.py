"""Codes on disk: the same in every form, whoever writes them, however often the work is interrupted."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import isch
from isch import codefiles, compute, features, progress
from isch.codefiles import Encoder
from isch.errors import FileError, InputError
from isch.features import Features, dense
from isch.hashing.projecting import encoding_within

ROWS = np.random.default_rng(0).standard_normal((10_000, 12)).astype(np.float32)


@pytest.fixture
def encoder() -> Encoder:
    return Encoder(isch.LSH(20).fit(ROWS))


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Features:
    monkeypatch.setattr("isch.features.base.SLAB_BYTES", 2 * 1024 * 48)  # two blocks per piece
    np.save(tmp_path / "rows.npy", ROWS)
    return features.open(tmp_path / "rows.npy")


def write(encoder: Encoder, source: Features, path: Path, shards: bool = False) -> None:
    codefiles.write(encoder, source, path, lambda: None, shards=shards)


def read(path: Path) -> NDArray[Any]:
    opened = features.open(path)
    return dense(opened.read(0, len(opened)), None)


FORMS = {"codes.npy": False, "codes.zarr": False, "codes": True}


@pytest.mark.parametrize("name", FORMS)
def test_the_codes_of_transform(name: str, encoder: Encoder, source: Features, tmp_path: Path) -> None:
    write(encoder, source, tmp_path / name, FORMS[name])
    np.testing.assert_array_equal(read(tmp_path / name), encoder.hasher.transform(ROWS))
    assert sorted(os.listdir(tmp_path)) == sorted([name, "rows.npy"])


@pytest.mark.parametrize("name", FORMS)
def test_workers_write_the_same(name: str, encoder: Encoder, source: Features, tmp_path: Path, client: Any) -> None:
    write(encoder, source, tmp_path / name, FORMS[name])
    np.testing.assert_array_equal(read(tmp_path / name), encoder.hasher.transform(ROWS))


class Stopped(Exception):
    pass


@pytest.mark.parametrize("name", FORMS)
def test_interrupted_work_goes_on_where_it_stopped(
    name: str, encoder: Encoder, source: Features, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    work = codefiles.Making.block

    def failing(self: Any, block: Any, start: int) -> Any:
        row = int(np.flatnonzero(ROWS[:, 0] == block[0, 0])[0])
        if row >= stops[-1]:
            raise Stopped
        made.append(row)
        return work(self, block, start)

    monkeypatch.setenv("ISCH_NUM_THREADS", "1")
    monkeypatch.setattr(codefiles.Making, "block", failing)
    stops = [len(ROWS), 6144, 4096]
    while len(stops) > 1:
        with pytest.raises(Stopped):
            write(encoder, source, tmp_path / name, FORMS[name])
        assert not (tmp_path / name).exists()
        stops.pop()
    write(encoder, source, tmp_path / name, FORMS[name])
    assert sorted(set(made)) == list(range(0, len(ROWS), 2048))
    assert len(made) <= 5 + 2  # what was under way at an interruption may have been made twice
    np.testing.assert_array_equal(read(tmp_path / name), encoder.hasher.transform(ROWS))


def test_what_a_killed_process_half_wrote_is_no_shard(encoder: Encoder, source: Features, tmp_path: Path) -> None:
    def kill() -> None:
        (tmp_path / "codes.partial" / "store" / ".00000001.0123abcd.npy").write_bytes(b"half")
        raise Stopped

    with pytest.raises(Stopped):
        codefiles.write(encoder, source, tmp_path / "codes", kill, shards=True)
    write(encoder, source, tmp_path / "codes", shards=True)
    assert sorted(os.listdir(tmp_path / "codes")) == [f"{number:08d}.npy" for number in range(5)]


def test_rows_that_were_not_forced_to_disk_are_made_again(encoder: Encoder, source: Features, tmp_path: Path) -> None:
    begin(encoder, source, tmp_path / "c.npy")
    (tmp_path / "c.npy.partial" / "done").write_text("4096")
    with (tmp_path / "c.npy.partial" / "store").open("r+b") as file:
        file.seek(128 + 3 * 4096)
        file.write(bytes(3 * 2048))
    write(encoder, source, tmp_path / "c.npy")
    np.testing.assert_array_equal(read(tmp_path / "c.npy"), encoder.hasher.transform(ROWS))


def test_one_file_may_lie_behind_a_link_on_a_disk_without_hard_links(
    encoder: Encoder, source: Features, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "another disk")

    (tmp_path / "far").mkdir()
    (tmp_path / "c.npy").symlink_to(tmp_path / "far" / "c.npy")
    for _ in range(2):
        write(encoder, source, tmp_path / "c.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "far" / "c.npy"), encoder.hasher.transform(ROWS))
        assert (tmp_path / "c.npy").is_symlink()
        (tmp_path / "far" / "c.npy").unlink()
        monkeypatch.setattr(os, "link", refuse)


def begin(encoder: Encoder, source: Features, path: Path) -> None:
    """Leave work that only wants its name."""

    def refuse() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        codefiles.write(encoder, source, path, refuse)


def test_what_another_model_or_other_features_began_is_refused(
    encoder: Encoder, source: Features, tmp_path: Path
) -> None:
    begin(encoder, source, tmp_path / "c.npy")
    with pytest.raises(FileError, match=r"c.npy.partial holds codes begun with another model, or of features"):
        write(Encoder(isch.LSH(20, random_state=1).fit(ROWS)), source, tmp_path / "c.npy")
    np.save(tmp_path / "rows.npy", ROWS + 1)
    with pytest.raises(FileError, match=r"delete it to begin anew"):
        write(encoder, features.open(tmp_path / "rows.npy"), tmp_path / "c.npy")


def test_a_damaged_recipe_or_file_is_one_sentence(encoder: Encoder, source: Features, tmp_path: Path) -> None:
    begin(encoder, source, tmp_path / "c.npy")
    for name, damaged in (("store", b"short"), ("done", b"20000"), ("done", b"-1"), ("done", b"")):
        whole = (file := tmp_path / "c.npy.partial" / name).read_bytes()
        file.write_bytes(damaged)
        with pytest.raises(FileError, match=r"store: damaged; delete .*c.npy.partial to begin anew"):
            write(encoder, source, tmp_path / "c.npy")
        assert not (tmp_path / "c.npy").exists()
        file.write_bytes(whole)
    (tmp_path / "c.npy.partial" / "recipe.json").write_text("{")
    with pytest.raises(FileError, match=r"delete it to begin anew"):
        write(encoder, source, tmp_path / "c.npy")


def test_nothing_is_left_when_nothing_was_done(encoder: Encoder, tmp_path: Path) -> None:
    np.save(tmp_path / "bad.npy", np.full((10, 12), np.nan))
    with pytest.raises(InputError, match=r"120 values are NaN"):
        write(encoder, features.open(tmp_path / "bad.npy"), tmp_path / "c.npy")
    assert os.listdir(tmp_path) == ["bad.npy"]


def test_a_folder_that_appeared_meanwhile_is_kept(encoder: Encoder, source: Features, tmp_path: Path) -> None:
    begin(encoder, source, tmp_path / "c.zarr")
    (tmp_path / "c.zarr").mkdir()
    (tmp_path / "c.zarr" / "precious").touch()
    with pytest.raises(FileError, match=r"c.zarr has appeared meanwhile and is kept"):
        write(encoder, source, tmp_path / "c.zarr")
    assert os.listdir(tmp_path / "c.zarr") == ["precious"]


def test_pieces_are_written_by_threads_without_a_client(encoder: Encoder, source: Features, tmp_path: Path) -> None:
    with compute.using(compute.Threads()):
        write(encoder, source, tmp_path / "c.npy")
    np.testing.assert_array_equal(read(tmp_path / "c.npy"), encoder.hasher.transform(ROWS))


MEASURE = """
import sys, threading, time
import isch
from pathlib import Path
from isch import codefiles
from isch.features import base

base.SLAB_BYTES = 8 << 20

def anonymous():
    with open("/proc/self/status") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))

def watch():
    while True:
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.002)

encoder = codefiles.Encoder.load(sys.argv[1])
source = encoder.features(sys.argv[2])
next(iter(encoder.encode(source.read(0, 8))))  # loads
base = anonymous()
peak = [base]
threading.Thread(target=watch, daemon=True).start()
codefiles.write(encoder, source, Path(sys.argv[3]), lambda: None, memory=sys.argv[4])
print(peak[0] - base)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say how much memory is whose")
def test_a_bound_on_memory_is_honoured_and_changes_no_bit(tmp_path: Path) -> None:
    """Slabs of a Zarr store are read into memory, here 8 MB each, ahead of the threads that encode them."""
    zarr = pytest.importorskip("zarr")
    rows = np.random.default_rng(0).standard_normal((70_000, 500), np.float32)
    array = zarr.create_array(tmp_path / "x.zarr", shape=rows.shape, chunks=(1024, 500), dtype="f4", compressors=None)
    array[:] = rows
    isch.LSH(64).fit(rows[:100]).save(tmp_path / "model")
    arguments = [str(tmp_path / name) for name in ("model", "x.zarr", "codes.npy")]
    environment = os.environ | {"ISCH_NUM_THREADS": "8"}
    command = [sys.executable, "-c", MEASURE, *arguments, "80MB"]
    assert int(subprocess.run(command, capture_output=True, check=True, env=environment).stdout) < 80e6
    np.testing.assert_array_equal(np.load(tmp_path / "codes.npy"), isch.load(tmp_path / "model").transform(rows))


def test_a_bound_decides_how_many_threads_encode(
    encoder: Encoder, source: Features, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISCH_NUM_THREADS", "8")
    for bound, expected in ((None, 8), ("1GB", 8), ("3MB", 5), ("1.2MB", 1)):
        with encoding_within(encoder.hasher, source, bound):
            assert compute.n_threads() == expected
    assert compute.n_threads() == 8


def test_too_small_a_bound_says_the_least_that_would_do(encoder: Encoder, source: Features, tmp_path: Path) -> None:
    for act in (
        lambda bound: codefiles.write(encoder, source, tmp_path / "c.npy", lambda: None, memory=bound),
        lambda bound: encoder.hasher.transform(source, memory=bound),
    ):
        with pytest.raises(InputError, match=r"memory = 1 kB is too little to encode 12 features by LSH") as got:
            act("1kB")
        act(str(got.value).rpartition("at least ")[2])
    assert sorted(os.listdir(tmp_path)) == ["c.npy", "rows.npy"]


def test_progress_is_of_the_whole_and_knows_what_is_there(
    encoder: Encoder, source: Features, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fractions: list[float] = []

    class Listener:
        @contextmanager
        def task(self, label: str, total: int, unit: str) -> Iterator[progress.Advance]:
            def advance(_: int) -> None:
                plan = progress.whole()
                fractions.append(0.0 if plan is None else plan.fraction)

            yield advance

    def stopping() -> None:
        for number in (1, 3):
            (tmp_path / "codes.partial" / "store" / f"{number:08d}.npy").unlink()
        raise Stopped

    with pytest.raises(Stopped):
        codefiles.write(encoder, source, tmp_path / "codes", stopping, shards=True)
    with progress.listen(Listener()):
        write(encoder, source, tmp_path / "codes", shards=True)
    assert fractions == pytest.approx([1 - 2048 / 10_000, 1])
    np.testing.assert_array_equal(read(tmp_path / "codes"), encoder.hasher.transform(ROWS))
