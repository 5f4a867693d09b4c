"""Indexes of format version 1, which are on people's disks."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isch.errors import FileError, FormatError, IschError
from isch.search import catalog as catalogs
from isch.search import version1
from isch.search.index import Index
from isch.search.verify import problems

GOLDEN = Path(__file__).parents[1] / "golden"
EXPECTED = json.loads((GOLDEN / "index-v1.json").read_text())
QUERIES = np.array(EXPECTED["queries"], np.float32)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN / "index-v1.isch", tmp_path / "x.isch")
    return tmp_path / "x.isch"


def check_answers(index: Index) -> None:
    assert list(index) == EXPECTED["keys"]
    for rerank in ("none", "asymmetric", "exact"):
        results = index.search(QUERIES, k=5, rerank=rerank)
        assert results.keys == EXPECTED[rerank]["keys"]
        np.testing.assert_array_equal(results.distances, EXPECTED[rerank]["distances"])
    assert index.search(QUERIES, k=3, where={"group": 1}).metadata == EXPECTED["where"]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_reading_changes_nothing(old: Path) -> None:
    before = contents(old)
    with Index.open(old) as index:
        check_answers(index)
        assert not index.refresh()
        assert index.verify() == []
    assert contents(old) == before


def test_the_first_change_makes_it_one_of_this_version(old: Path) -> None:
    with Index.open(old) as reader, Index.open(old) as index:
        index.add(QUERIES, keys=["new 0", "new 1", "new 2"])
        assert not (old / version1.FILE).exists()
        assert list(index) == [*EXPECTED["keys"], "new 0", "new 1", "new 2"]
        check_answers(reader)
        index.delete(["new 0", "new 1", "new 2"])
        check_answers(index)
        index.compact()
        check_answers(index)
        assert reader.refresh()
        check_answers(reader)
        assert index.verify() == []


def test_a_journal_that_was_left_belongs_to_it(old: Path) -> None:
    """As after a writer of the old version was killed."""
    with closing(sqlite3.connect(old / version1.FILE)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        text = json.dumps({"group": 1, "note": "later"})
        with connection:
            (item,) = connection.execute("SELECT id FROM items WHERE key = 40").fetchone()
            values = (text, version1.checksum(item, 40, text), item)
            connection.execute("UPDATE items SET metadata = ?, crc = ? WHERE id = ?", values)
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{old / version1.FILE}{suffix}", f"{old}.{suffix}")
    shutil.copyfile(f"{old}.", old / version1.FILE)
    shutil.copyfile(f"{old}.-wal", old / f"{version1.FILE}-wal")
    assert (old / f"{version1.FILE}-wal").stat().st_size > 0
    before = contents(old)
    with Index.open(old) as index:
        item = index.get(40)
        assert item is not None
        assert item.metadata == {"group": 1, "note": "later"}
        assert contents(old) == before
        index.delete([40])
    assert problems(old) == []
    assert sorted(path.name for path in old.iterdir()) == [
        "catalog.json",
        "lock",
        "lock.holder",
        "model.safetensors",
        "segments",
    ]


@pytest.mark.parametrize("stop", [0, 1, 2, 3, 4, 5])
def test_an_upgrade_that_is_stopped_begins_anew(old: Path, monkeypatch: pytest.MonkeyPatch, stop: int) -> None:
    """Stopped as by a power cut: nothing is tidied up."""
    left = [stop]
    rename, sync = os.replace, os.fsync

    def failing(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(5, "Input/output error")
            return real(*arguments)

        return call

    with Index.open(old) as index:
        monkeypatch.setattr(os, "replace", failing(rename))
        monkeypatch.setattr(os, "fsync", failing(sync))
        monkeypatch.setattr(version1, "_remove_new", lambda segments: None)
        with pytest.raises(IschError):
            index.delete(["ключ 5"])
    monkeypatch.undo()
    with Index.open(old) as index:
        check_answers(index)
        index.add(QUERIES)
        assert index.verify() == []
        index.compact()
    assert {path.suffix for path in (old / "segments").iterdir()} == {".codes", ".features", ".items"}
    assert len(list((old / "segments").iterdir())) == 3


def test_an_index_that_is_upgraded_while_it_is_opened(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = version1.convert

    def overtaken(folder: Path, into: Path) -> Any:
        monkeypatch.setattr(version1, "convert", real)
        with Index.open(old) as index:
            index.delete([41])
        return real(folder, into)

    monkeypatch.setattr(version1, "convert", overtaken)
    with Index.open(old) as index:
        assert len(index) == 57
    assert not (old / version1.FILE).exists()


def test_no_room_for_temporary_files_is_one_sentence(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.raises(FileError, match=f"^{old}: No usable temporary directory found$"):
        Index.open(old)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE items SET key = 'other' WHERE key = 40",
        "UPDATE items SET metadata = '{}' WHERE key = 40",
        "DELETE FROM items WHERE key = 40",
        "UPDATE items SET id = 1000 WHERE key = 40",
        "INSERT INTO items VALUES (1000, 'x', NULL, 0)",
        "DELETE FROM segments WHERE first_id = 0",
        "UPDATE segments SET name = '../../x/0123456789abcdef' WHERE first_id = 0",
        "UPDATE segments SET n_rows = 3",
        "UPDATE segments SET digest = 'text'",
        "UPDATE segments SET digest = zeroblob(32)",
        "UPDATE segments SET features_digest = NULL",
        "DELETE FROM dead",
        "UPDATE dead SET bits = zeroblob(8192)",
        "UPDATE dead SET bits = randomblob(8192)",
        "UPDATE dead SET bits = zeroblob(9)",
        "UPDATE dead SET bits = 'text'",
        "UPDATE dead SET chunk = -7",
        "UPDATE dead SET chunk = 9223372036854775807",
        "DELETE FROM meta WHERE name = 'n_bits'",
        "UPDATE meta SET value = 0 WHERE name = 'n_bits'",
        "UPDATE meta SET value = 'x' WHERE name = 'generation'",
        "UPDATE meta SET value = x'00' WHERE name = 'model_digest'",
        "UPDATE meta SET value = 'float64' WHERE name = 'keep_features'",
        "CREATE TRIGGER t AFTER DELETE ON items BEGIN SELECT 1; END",
        "CREATE VIEW v AS SELECT 1",
        "PRAGMA user_version = 9",
        "PRAGMA application_id = 9",
    ],
)
def test_damage_in_every_table_is_found_at_opening(old: Path, statement: str) -> None:
    with closing(sqlite3.connect(old / version1.FILE)) as connection, connection:
        connection.execute(statement)
    with pytest.raises(FormatError) as raised:
        Index.open(old)
    assert problems(old) == [str(raised.value)]
    with pytest.raises(FormatError):
        catalogs.read(old) if (old / catalogs.FILE).exists() else Index.open(old).delete([40])
    assert not (old / catalogs.FILE).exists()


def test_flipped_bytes_are_refused_or_harmless(old: Path) -> None:
    path = old / version1.FILE
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    with Index.open(old) as index:
        right = [(hit.key, hit.distance, hit.metadata) for hits in index.search(QUERIES, k=60) for hit in hits]
    refused = 0
    for place in rng.integers(0, len(whole), 120).tolist():
        path.write_bytes(whole[:place] + bytes([whole[place] ^ int(rng.integers(1, 256))]) + whole[place + 1 :])
        try:
            with Index.open(old) as index:
                found = [(hit.key, hit.distance, hit.metadata) for hits in index.search(QUERIES, k=60) for hit in hits]
        except IschError:
            refused += 1
        else:
            assert found == right
    assert refused > 10
