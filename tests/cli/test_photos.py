"""isch photos: what is wrong is said in one sentence, before the work."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from isch.cli import program
from isch.photos.library import Library


def test_a_port_in_use_is_refused_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, home = tmp_path / "pictures", tmp_path / "home"
    folder.mkdir()
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert program.run(["photos", str(folder), "--index", str(home), "--no-browser", "--port", port]) == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; try --port 0" in capsys.readouterr().err
    assert not home.exists()


def test_a_search_without_pictures_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder, home = tmp_path / "pictures", tmp_path / "home"
    folder.mkdir()
    Library(folder, home).close()
    assert program.run(["photos", "search", "any.jpg", "--folder", str(folder), "--index", str(home)]) == 2
    assert capsys.readouterr().err == f"isch: {folder}: the index holds no pictures; isch photos index looks for them\n"


@pytest.fixture
def emptied(tmp_path: Path) -> tuple[Path, Path]:
    """A folder whose only pictures are gone, and its home."""
    folder, home = tmp_path / "pictures", tmp_path / "home"
    folder.mkdir()
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    library = Library(folder, home)
    library.update()
    library.close()
    (folder / "a.png").unlink()
    return folder, home


def test_without_a_terminal_missing_pictures_stay(emptied: tuple[Path, Path], tmp_path: Path) -> None:
    folder, home = emptied
    command = [sys.executable, "-m", "isch", "photos", "index", str(folder), "--index", str(home)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, input="y\n")
    assert done.stdout.startswith(f"{folder}: 1 missing\n")
    assert done.stderr.startswith(f"isch: 1 of 1 pictures are not in {folder} any more; they stay in the index")
    done = subprocess.run([*command, "--prune"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{folder}: 1 gone\n"
    assert done.stderr == ""


@pytest.mark.parametrize(("answer", "left"), [("n", 1), ("", 1), ("y", 0)])
def test_at_a_terminal_somebody_is_asked(
    emptied: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, left: int
) -> None:
    pty = pytest.importorskip("pty", reason="Windows has no such terminals")
    folder, home = emptied
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    terminal = Path(os.ttyname(theirs))
    with terminal.open() as keyboard, terminal.open("w") as screen:
        monkeypatch.setattr(sys, "stdin", keyboard)
        monkeypatch.setattr(sys, "stderr", screen)
        assert program.run(["photos", "index", str(folder), "--index", str(home)]) == 0
    assert "forget them now? [y/N]" in os.read(ours, 10_000).decode()
    assert len(Library(folder, home)) == left
