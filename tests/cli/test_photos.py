"""isch photos: what is wrong is said in one sentence, before the work."""

import socket
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
    assert capsys.readouterr().err == f"isch: {folder}: there are no pictures in this folder yet\n"
