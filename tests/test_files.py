import os
import socket
from pathlib import Path

import pytest

from isch import files
from isch.errors import FileError
from isch.files import replacing


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    (tmp_path / "link").symlink_to(tmp_path / "x")
    assert files.regular(str(tmp_path / "link")) == tmp_path / "link"
    with files.reading(tmp_path / "link") as file:
        assert file.read() == b"abc"


SPECIAL = {"pipe": "is a pipe", "socket": "is a socket", "folder": "is a folder", "device": "is a device"}


@pytest.mark.timeout(10)
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_not_a_regular_file_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, linked: bool
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket may not be long
    os.mkfifo("pipe")
    os.mkdir("folder")
    os.symlink("/dev/zero", "device")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    os.symlink(kind, "link")
    path = "link" if linked else kind
    for read in (files.regular, lambda path: files.reading(path).__enter__()):
        with pytest.raises(FileError, match=f"^{path}: {SPECIAL[kind]}, not a regular file$"):
            read(path)


@pytest.mark.timeout(10)
def test_a_pipe_that_takes_the_files_place_after_the_check_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(files, "_check", Path)
    with pytest.raises(FileError, match="is a pipe"), files.reading(tmp_path / "pipe"):
        pass


@pytest.mark.parametrize("name", ["missing", "x/below", "n" * 300, "nul\0", "caf\udce9"])
def test_a_file_that_cannot_be_there_is_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "x").touch()
    for read in (files.regular, lambda path: files.reading(path).__enter__()):
        with pytest.raises(FileError) as raised:
            read(tmp_path / name)
        assert str(raised.value).startswith(f"{files.printable(tmp_path / name)}: ")
        str(raised.value).encode()


def test_an_error_while_reading_is_ours(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(FileError, match="^.*x: Input/output error$"), files.reading(tmp_path / "x"):
        raise OSError(5, "Input/output error")


def test_replaces_the_target_only_when_the_block_succeeds(tmp_path: Path) -> None:
    target = tmp_path / "x.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError), replacing(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    with replacing(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["x.txt"]


def test_interruption_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "x"):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["missing/x", "."])
def test_refuses_an_impossible_target(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileError, match="cannot write"), replacing(tmp_path / name):
        pass


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(FileError, match="cannot write .*No space left"),
        replacing(tmp_path / "x"),
        open("/dev/full", "w") as full,
    ):
        full.write("x" * 100_000)


def test_links_and_permissions_survive(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    with replacing(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="it is a device or pipe, not a file"), replacing(tmp_path / "pipe"):
        pass
    assert (tmp_path / "pipe").is_fifo()


def test_a_file_that_somebody_has_open_is_replaced_when_they_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows, where a file cannot be replaced while it is open."""
    refusals = [PermissionError(13, "in use"), PermissionError(13, "in use")]
    rename = os.replace

    def busy(source: Path, target: Path) -> None:
        if refusals:
            raise refusals.pop()
        rename(source, target)

    monkeypatch.setattr(os, "replace", busy)
    with replacing(tmp_path / "x") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "x").read_text() == "new"
    refusals += [PermissionError(13, "in use")] * 1000
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    with pytest.raises(FileError, match="cannot write .*x: in use"), replacing(tmp_path / "x") as temporary:
        temporary.write_text("newer")
    assert os.listdir(tmp_path) == ["x"]


def test_folders_are_not_synced_where_they_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where opening a folder is refused."""
    opened = os.open

    def no_folders(path: Path, flags: int) -> int:
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied")
        assert flags & os.O_RDWR
        return opened(path, flags)

    (tmp_path / "x").touch()
    monkeypatch.delattr(os, "O_DIRECTORY")
    monkeypatch.setattr(files.os, "open", no_folders)
    files.sync(tmp_path)
    files.sync(tmp_path / "x")
