"""What the user did survives a deleted cache; what earlier versions kept there is moved once."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image

from isch.errors import InputError
from isch.photos import homes
from isch.photos.decisions import Decisions, Verdict
from isch.photos.library import Library

A, B, C = ("a" * 64, "b" * 64, "c" * 64)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = tmp_path / "pictures"
    path.mkdir()
    Image.new("RGB", (8, 8)).save(path / "x.png")
    return path


def test_decisions_and_the_log_lie_in_the_data_folder_under_the_name_of_the_home(folder: Path, tmp_path: Path) -> None:
    library = Library(folder)
    assert library.home.is_relative_to(tmp_path / "cache")
    assert library.data.is_relative_to(tmp_path / "data")
    assert library.home.name == library.data.name
    with Decisions(library.data / "decisions.sqlite") as decisions:
        decisions.keep_all([A, B])
    library.close()
    shutil.rmtree(tmp_path / "cache")
    with Decisions(Library(folder).data / "decisions.sqlite") as decisions:
        assert decisions.verdict(A, B) is Verdict.BOTH


def test_a_home_that_was_chosen_holds_everything(folder: Path, tmp_path: Path) -> None:
    library = Library(folder, tmp_path / "home")
    assert library.data == library.home
    assert not (tmp_path / "data").exists()
    chosen = Library(folder, homes.home_of(folder))  # the name of the usual one is the usual one
    assert chosen.data == homes.data_of(folder)


def older(folder: Path) -> Path:
    """The home of an earlier version, with decisions and a log."""
    home = homes.home_of(folder)
    home.mkdir(parents=True)
    with Decisions(home / "decisions.sqlite") as decisions:
        decisions.keep_all([A, B])
    (home / "trash.jsonl").write_text(json.dumps({"event": "moved"}) + "\n")
    return home


def test_what_lies_in_the_old_place_is_moved_once(folder: Path) -> None:
    home = older(folder)
    library = Library(folder)
    assert not (home / "decisions.sqlite").exists()
    assert not (home / "trash.jsonl").exists()
    assert json.loads((library.data / "trash.jsonl").read_text()) == {"event": "moved"}
    with Decisions(library.data / "decisions.sqlite") as decisions:
        assert decisions.verdict(A, B) is Verdict.BOTH
        decisions.keep_all([A, C])
    shutil.rmtree(home)
    older(folder)
    again = Library(folder)
    with Decisions(again.data / "decisions.sqlite") as decisions:
        assert decisions.verdict(A, C) is Verdict.BOTH  # the newer ones are not replaced
    assert (home / "decisions.sqlite").is_file()


def test_an_interrupted_decision_is_undone_before_the_move(folder: Path, tmp_path: Path) -> None:
    home = older(folder)
    path = home / "decisions.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO decisions VALUES (?, ?, 'keep both', 0, 0)", [(f"{i:064x}", A) for i in range(2000)]
        )
        copies = [shutil.copy(name, tmp_path) for name in sorted(home.glob("decisions.sqlite*"))]
    assert len(copies) == 2  # with the journal of a change that was never finished
    for copy in copies:
        shutil.copy(copy, home)
    with Decisions(Library(folder).data / "decisions.sqlite") as decisions:
        assert [decision.first for decision in decisions.all()] == [A]


def test_damaged_decisions_are_moved_as_they_are(folder: Path) -> None:
    home = older(folder)
    (home / "decisions.sqlite").write_bytes(b"damaged" * 100)
    assert (Library(folder).data / "decisions.sqlite").read_bytes() == b"damaged" * 100


def test_the_folder_used_last(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no folder of pictures was used yet"):
        homes.last()
    homes.remember(folder)
    assert homes.last() == folder
