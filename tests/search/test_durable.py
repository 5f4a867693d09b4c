"""What is stored although the system refuses to force it to disk is said to be stored."""

import errno
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isch.errors import FileError, NotDurable
from isch.files import replacing
from isch.search.index import Index

CODES = np.random.default_rng(0).integers(0, 256, (20, 8), dtype=np.uint8)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the system refuse to sync some folders."""
    real = os.fsync

    def start(folder: Path, number: int = errno.EIO) -> None:
        def fsync(handle: int) -> None:
            status = os.fstat(handle)
            if stat.S_ISDIR(status.st_mode) and os.path.samestat(status, folder.stat()):
                raise OSError(number, os.strerror(number))
            real(handle)

        monkeypatch.setattr(os, "fsync", fsync)

    start.end = lambda: monkeypatch.setattr(os, "fsync", real)  # type: ignore[attr-defined]
    return start


def test_a_file_that_has_its_name_is_stored(tmp_path: Path, failing: Any) -> None:
    failing(tmp_path)
    with (
        pytest.raises(NotDurable, match="x: the change is stored, but may not survive a power failure"),
        replacing(tmp_path / "x") as temporary,
    ):
        temporary.write_text("new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_syncs_no_folders_is_no_error(tmp_path: Path, failing: Any, number: int) -> None:
    failing(tmp_path, number)
    with replacing(tmp_path / "x") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "x").read_text() == "new"


def test_a_change_of_an_index_says_that_it_is_there_and_shows_it(tmp_path: Path, failing: Any) -> None:
    with Index.create(tmp_path / "x.isch", n_bits=64, rows=CODES[:5]) as index:
        before = {path.name for path in (index.path / "segments").iterdir()}
        failing(index.path)
        for change in (
            lambda: index.add(CODES[5:10]),
            lambda: index.upsert(CODES[10:11], keys=[3]),
            lambda: index.delete([4]),
            index.compact,
        ):
            with pytest.raises(NotDurable, match="the change is stored"):
                change()
        assert sorted(index) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
        with Index.open(index.path) as again:
            assert list(again) == list(index)
        now = {path.name for path in (index.path / "segments").iterdir()}
        assert before <= now, "the old catalog may come back, and needs its files"
        failing.end()
        index.delete([9])
        assert not before & {path.name for path in (index.path / "segments").iterdir()}
        assert index.verify() == []


def test_a_change_that_is_not_there_is_another_error(tmp_path: Path, failing: Any) -> None:
    with Index.create(tmp_path / "x.isch", n_bits=64, rows=CODES[:5]) as index:
        failing(index.path / "segments")
        with pytest.raises(FileError) as raised:
            index.add(CODES[5:10])
        assert not isinstance(raised.value, NotDurable)
        assert len(Index.open(index.path)) == 5


def test_a_new_index_that_has_its_name_is_stored(tmp_path: Path, failing: Any) -> None:
    failing(tmp_path)
    with pytest.raises(NotDurable, match="x.isch: the change is stored"):
        Index.create(tmp_path / "x.isch", n_bits=64, rows=CODES)
    assert len(Index.open(tmp_path / "x.isch")) == 20
    assert [path.name for path in tmp_path.iterdir()] == ["x.isch"]


def test_a_lock_that_cannot_be_removed_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unlink = Path.unlink

    def refused(path: Path, missing_ok: bool = False) -> None:
        if ".lock" in path.name and not path.name.endswith(".holder"):
            raise PermissionError(errno.EACCES, "Permission denied")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refused)
    Index.create(tmp_path / "x.isch", n_bits=64, rows=CODES).close()
    with pytest.raises(FileError, match="exists already"):
        Index.create(tmp_path / "x.isch", n_bits=64)
    Index.create(tmp_path / "y.isch", n_bits=64).close()
    assert len(Index.open(tmp_path / "x.isch")) == 20
