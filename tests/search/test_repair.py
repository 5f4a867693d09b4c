"""Repairs: every undamaged segment stays, what is lost is named, nothing is destroyed."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isch.cli import program
from isch.errors import FileError, FormatError, LockedError
from isch.hashing.lsh import LSH
from isch.locks import locked
from isch.search import catalog as catalogs
from isch.search.index import Index
from isch.search.verify import problems

DATA = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
CONTENT = dict[Any, tuple[bytes, str, bytes]]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three segments of different sizes, keys of both kinds, metadata, features, deletions and a replaced item."""
    path = tmp_path_factory.mktemp("good") / "x.isch"
    with Index.create(path, LSH(n_bits=21).fit(DATA), keep_features="float16") as index:
        index.add(DATA[:30], [f"k{i}" for i in range(30)], {"a": 1})
        index.add(DATA[30:50])
        index.upsert(DATA[50:], [f"k{i}" for i in range(10)], [{"b": i} for i in range(10)])
        index.delete(["k20", 31])
    return path


@pytest.fixture
def index(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "x.isch"))


def content(path: Path) -> CONTENT:
    """All that an index holds."""
    with Index.open(path) as index:
        items = {key: index.get(key) for key in index}
    return {
        key: (item.code.tobytes(), json.dumps(item.metadata), item.features.tobytes())
        for key, item in items.items()
        if item is not None and item.features is not None
    }


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << (place % 8)
    path.write_bytes(data)


def keys_of(good: Path) -> list[set[Any]]:
    """The keys of each segment that are not deleted."""
    with Index.open(good) as index:
        snapshot = index._now
        parts = zip(snapshot.segments, snapshot.live, strict=True)
        return [{key for at, key in s.items.by_row() if live is None or live[at]} for s, live in parts]


def files(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_an_undamaged_index_is_left_as_it_is(index: Path) -> None:
    before = files(index)
    repaired = Index.repair(index)
    assert repaired == (48, [], None)
    assert {name: data for name, data in files(index).items() if "lock" not in name} == {
        name: data for name, data in before.items() if "lock" not in name
    }


@pytest.mark.parametrize("kind", ["codes", "features", "items"])
@pytest.mark.parametrize("how", ["flipped", "cut", "gone", "pipe", "folder"])
def test_a_damaged_segment_is_named_and_moved_aside_and_the_others_stay(
    good: Path, index: Path, kind: str, how: str
) -> None:
    right, row = content(good), catalogs.read(index).segments[1]
    path = index / "segments" / f"{row.name}.{kind}"
    if how == "flipped":
        flip(path, 4120)
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:4100])
    else:
        path.unlink()
        {"gone": lambda: None, "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}[how]()
    whole = {p.name: p.read_bytes() for p in index.glob(f"segments/{row.name}.*") if p.is_file()}
    repaired = Index.repair(index)
    assert repaired.items == 29
    (sentence,) = repaired.found
    assert f"segment {row.name} is lost with 19 items: {path}: " in sentence
    assert repaired.aside == index / "damaged-1"
    assert {name: (repaired.aside / name).read_bytes() for name in whole} == whole
    lost = keys_of(good)[1]
    if kind != "items":
        assert set(map(json.loads, (repaired.aside / f"{row.name}.keys").read_text().splitlines())) == lost
    assert problems(index) == []
    assert content(index) == {key: item for key, item in right.items() if key not in lost}
    with Index.open(index) as opened:
        opened.add(DATA[30:31], [31])
    assert Index.repair(index).found == []


def test_two_repairs_use_two_folders(index: Path) -> None:
    for number in (1, 2):
        row = catalogs.read(index).segments[0]
        flip(index / "segments" / f"{row.name}.codes", 4100)
        assert Index.repair(index).aside == index / f"damaged-{number}"
    assert Index.repair(index).items == 10


def test_deletions_that_are_lost_are_named_and_no_key_is_there_twice(good: Path, index: Path) -> None:
    row = catalogs.read(index).segments[0]
    assert row.dead is not None
    flip(index / "segments" / f"{row.dead.name}.dead", 4096)
    repaired = Index.repair(index)
    assert f"segment {row.name}: 11 items that were deleted can be found again, unless they were" in repaired.found[0]
    assert repaired.aside is not None
    assert [path.name for path in repaired.aside.glob("*.dead")] == [f"{row.dead.name}.dead"]
    assert problems(index) == []
    held = content(index)
    assert set(held) - set(content(good)) == {"k20"}
    assert {key: held[key] for key in content(good)} == content(good)


def harm_the_checksum(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-10] + bytes([data[-10] ^ 1]) + data[-9:])


def harm_a_name(path: Path) -> None:
    values = json.loads(path.read_bytes())
    values["segments"][1]["name"] = "0" * 16
    path.write_text(json.dumps(values))


CATALOGS: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:300]),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "nonsense": lambda path: path.write_bytes(b"[" * 100_000),
    "checksum": harm_the_checksum,
    "name": harm_a_name,
}


@pytest.mark.parametrize("how", CATALOGS)
def test_a_damaged_catalog_is_made_anew(good: Path, index: Path, how: str) -> None:
    CATALOGS[how](index / "catalog.json")
    repaired = Index.repair(index)
    assert "it was made anew from the segments" in repaired.found[0]
    assert problems(index) == []
    assert content(index) == content(good)
    with Index.open(index) as opened, Index.open(good) as old:
        assert list(opened) == list(old)
        assert (opened.info()["n_bits"], opened.info()["keep_features"]) == (21, "float16")
        opened.add(DATA[:2])
        assert set(opened) - set(old) == {50 + 10, 50 + 11}
    assert how == "gone" or (index / "damaged-1" / "catalog.json").exists()


def test_a_catalog_and_a_segment_are_damaged(good: Path, index: Path) -> None:
    row = catalogs.read(index).segments[1]
    (index / "catalog.json").unlink()
    flip(index / "segments" / f"{row.name}.codes", 100)
    repaired = Index.repair(index)
    assert [sentence for sentence in repaired.found if f"segment {row.name} is lost with up to 20 items" in sentence]
    lost = keys_of(good)[1]
    assert content(index) == {key: item for key, item in content(good).items() if key not in lost}
    assert problems(index) == []


def test_without_a_catalog_deletions_of_segments_that_look_alike_may_be_lost(tmp_path: Path) -> None:
    codes = np.random.default_rng(0).integers(0, 256, (30, 4), dtype=np.uint8)
    with Index.create(tmp_path / "x.isch", n_bits=30) as index:
        codes[:, -1] &= 0xFC
        for i in range(3):
            index.add(codes[10 * i : 10 * i + 10], [f"{i}-{j}" for j in range(10)])
        index.delete(["0-3", "2-9"])
    (tmp_path / "x.isch" / "catalog.json").unlink()
    repaired = Index.repair(tmp_path / "x.isch")
    assert sum("items that were deleted can be found again" in sentence for sentence in repaired.found) == 3
    assert repaired.aside is not None
    assert len(list(repaired.aside.glob("*.dead"))) == 2
    assert problems(tmp_path / "x.isch") == []
    assert len(Index.open(tmp_path / "x.isch")) == 30


def test_what_cannot_be_repaired_is_left_as_it_is(index: Path, tmp_path: Path) -> None:
    (index / "model.safetensors").rename(tmp_path / "model.safetensors")
    with pytest.raises(FormatError, match="the model of the index is missing"):
        Index.repair(index)
    (index / "catalog.json").rename(tmp_path / "catalog.json")
    before = files(index)
    with pytest.raises(FormatError, match="model"):
        Index.repair(index)
    assert files(index).keys() - {"lock.holder"} == before.keys() - {"lock.holder"}
    with pytest.raises(FileError, match="no such index"):
        Index.repair(tmp_path / "nothing.isch")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FormatError, match="not an ISCH index"):
        Index.repair(tmp_path / "empty")
    (tmp_path / "empty" / "segments").mkdir()
    with pytest.raises(FormatError, match="neither a segment nor a model is left"):
        Index.repair(tmp_path / "empty")


def test_an_index_of_a_newer_version_is_not_damaged(index: Path) -> None:
    catalog = index / "catalog.json"
    catalog.write_bytes(catalog.read_bytes().replace(b'"version": 3', b'"version": 99'))
    before = files(index)
    with pytest.raises(FormatError, match="has format version 99"):
        Index.repair(index)
    assert {name: data for name, data in files(index).items() if name in before} == before


def test_a_writer_is_waited_for(index: Path) -> None:
    with locked(index / "lock", 0, "is writing to this index"), pytest.raises(LockedError, match="is writing to this"):
        Index.repair(index, wait=0)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_repair_that_fails_puts_everything_back(
    index: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    row = catalogs.read(index).segments[1]
    flip(index / "segments" / f"{row.name}.codes", 4100)
    before = files(index)

    def fails(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(catalogs, "write", fails)
        with pytest.raises((FileError, KeyboardInterrupt)):
            Index.repair(index)
    after = files(index)
    assert {name: after[name] for name in before} == before
    assert not (index / "damaged-1").exists()
    assert Index.repair(index).items == 29


def test_a_repair_that_is_killed_is_done_by_the_next_one(good: Path, index: Path) -> None:
    row = catalogs.read(index).segments[1]
    flip(index / "segments" / f"{row.name}.codes", 4100)
    script = f"""
import os
from isch import Index
from isch.search import catalog
catalog.write = lambda *_: os.kill(os.getpid(), {int(signal.SIGKILL)})
Index.repair({str(index)!r})
"""
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=120).returncode == -signal.SIGKILL
    repaired = Index.repair(index)
    assert f"segment {row.name} is lost with 19 items" in repaired.found[0]
    assert (index / "damaged-1" / f"{row.name}.codes").exists()
    lost = keys_of(good)[1]
    assert content(index) == {key: item for key, item in content(good).items() if key not in lost}


def test_any_damage_is_repaired_and_costs_no_more_than_its_segment(good: Path, tmp_path: Path) -> None:
    right, owners, rng = content(good), keys_of(good), np.random.default_rng(0)
    rows = catalogs.read(good).segments
    for number, name in enumerate(sorted(name for name in files(good) if name.startswith("segments"))):
        folder = Path(shutil.copytree(good, tmp_path / f"{number}.isch"))
        flip(folder / name, int(rng.integers(0, (folder / name).stat().st_size)))
        repaired = Index.repair(folder)
        assert repaired.found, name
        assert problems(folder) == [], name
        held = content(folder)
        owner = next(keys for row, keys in zip(rows, owners, strict=True) if Path(name).name in row.files)
        assert right.items() - held.items() <= {key: right[key] for key in owner}.items(), name


def test_the_commands(index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.run(["index", "backup", str(index), str(tmp_path / "y.isch")]) == 0
    assert capsys.readouterr().out == f"48 items in {tmp_path / 'y.isch'}, which is verified\n"
    assert program.run(["index", "backup", str(index), str(tmp_path / "y.isch")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert program.run(["index", "repair", str(index)]) == 0
    assert capsys.readouterr() == (f"{index}: all is well\n", "")
    row = catalogs.read(index).segments[1]
    (index / "segments" / f"{row.name}.codes").unlink()
    assert program.run(["index", "repair", str(index)]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{index}: 29 items are kept; what was damaged is in {index / 'damaged-1'}\n"
    assert f"segment {row.name} is lost with 19 items" in printed.err
    assert program.run(["index", "repair", str(tmp_path / "nothing")]) == 2
