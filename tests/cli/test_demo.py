"""The README's commands on a bare machine, and the demo's pictures."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the demo needs the extra photos")

from isch.cli.program import run
from isch.errors import FileError
from isch.photos import samples

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "README.md").read_text().split("\n## Two commands\n")[1].split("\n## ")[0]
DEMO, PHOTOS, DEVELOP = re.findall(r"^```\w+\n(.*?)\n```", SECTION, re.MULTILINE | re.DOTALL)
INSTALLING = os.environ.get("ISCH_TEST_INSTALL", "")  # "first": the first command of the README, "all": both
MINUTES = 20


def bare(home: Path, scripts: Path = Path(sys.executable).parent) -> dict[str, str]:
    """The environment of a machine without a display, with an empty home and any free port."""
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "PYTHONPATH", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in hidden and not name.startswith("XDG_")}
    home.mkdir(exist_ok=True)
    return {**kept, "HOME": str(home), "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "ISCH_PORT": "0"}


class Shell:
    """A command as a shell runs it, until it has said where its page is."""

    def __init__(self, command: str, environment: dict[str, str], folder: Path = ROOT) -> None:
        self._process = subprocess.Popen(
            ["bash", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        self.text, self.address = "", ""
        limit = threading.Timer(60 * MINUTES, self._process.kill)
        limit.start()
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.text += line
            if found := re.search(r"http://127\.0\.0\.1:\d+/", line):
                self.address = found[0]
                break
        limit.cancel()

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.address + path, timeout=60) as answer:
            return json.load(answer)

    def interrupt(self) -> int:
        """Press Ctrl-C; gives the exit code."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
        assert self._process.stdout is not None
        if not self._process.stdout.closed:
            self.text += self._process.stdout.read()
            self._process.stdout.close()
        return self._process.wait(60)


def shows_its_searches(text: str) -> None:
    """The three searches of the demo, each with what it must find."""
    like, words, copies = re.split(r"^pictures that may show a lighthouse:$|^looking for copies.*$", text, flags=re.M)
    assert re.search(r"^  0\.\d\d  balloons \d+\.jpg$", like, re.MULTILINE), text
    assert "balloons 4.jpg\n" not in like.split("how far away they are:")[1]
    assert len(re.findall(r"^  lighthouse \d+.*$", words, re.MULTILINE)) >= 3, text
    assert re.search(r"^  cat\S*.*: .*cat", copies, re.MULTILINE), text


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "home"


@pytest.fixture(scope="module")
def demo(home: Path) -> Iterator[Shell]:
    """``isch demo`` as the README writes it, while it serves its page."""
    shell = Shell(DEMO.split("&&")[1], bare(home))
    yield shell
    shell.interrupt()


def test_the_demo_shows_three_searches_and_serves_its_page(demo: Shell) -> None:
    assert demo.address, demo.text
    shows_its_searches(demo.text)
    health = demo.get("api/health")
    assert (health["status"], health["failures"]) == ("ok", 0)
    assert health["items"] == len(samples.samples())
    assert demo.get("api/duplicates")["total"] >= len(samples.PHOTOGRAPHS)


def test_the_demo_reopens_stays_out_of_the_way_and_ends(demo: Shell, home: Path) -> None:
    files = {path: path.stat().st_mtime_ns for path in (home / ".cache" / "isch" / "demo").rglob("*")}
    command = f"{DEMO.split('&&')[1]} --once"
    again = subprocess.run(command, shell=True, env=bare(home), cwd=ROOT, capture_output=True, text=True, check=False)
    assert (again.returncode, "http://" in again.stdout) == (0, False), again.stderr
    assert "drawing" not in again.stderr
    shows_its_searches(again.stdout)
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert demo.interrupt() == 0
    assert "the server has stopped" in demo.text
    assert "Traceback" not in demo.text


def test_one_s_own_folder(tmp_path: Path) -> None:
    missing = subprocess.run(
        PHOTOS, shell=True, env=bare(tmp_path / "home"), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (missing.returncode, missing.stdout) == (2, "")
    assert re.search(r"Pictures: there is no such folder; .*isch photos FOLDER.* isch demo", missing.stderr)
    (tmp_path / "home" / "Pictures").mkdir()
    samples.drawn("clock", 0).save(tmp_path / "home" / "Pictures" / "clock.jpg")
    shell = Shell(PHOTOS, bare(tmp_path / "home"))
    assert shell.get("api/items")["items"][0]["name"] == "clock.jpg"
    assert shell.interrupt() == 0


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of this repository and nothing else."""
    folder = tmp_path_factory.mktemp("clone") / "isch"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def new(folder: Path) -> dict[str, str]:
    """The environment with a new virtual environment and an empty home; pip keeps its settings."""
    venv.create(folder / "venv", with_pip=True)
    settings = [Path.home() / ".config" / "pip" / "pip.conf", Path.home() / ".pip" / "pip.conf"]
    found = next((str(path) for path in settings if path.is_file()), os.devnull)
    return {"PIP_CONFIG_FILE": os.environ.get("PIP_CONFIG_FILE", found)} | bare(
        folder / "home", folder / "venv" / "bin"
    )


@pytest.mark.skipif(not INSTALLING, reason="installs what it needs anew; ISCH_TEST_INSTALL=first asks for it")
@pytest.mark.timeout(60 * MINUTES + 60)
def test_the_first_command_in_a_new_environment(clone: Path, tmp_path: Path) -> None:
    shell = Shell(DEMO, new(tmp_path), clone)
    assert shell.address, shell.text
    shows_its_searches(shell.text)
    assert shell.get("api/health")["items"] == len(samples.samples())
    shell.interrupt()
    assert "the server has stopped" in shell.text
    wheel = tmp_path / "venv" / "lib"
    brought = sum(path.stat().st_size for path in wheel.rglob("isch/photos/samples/*.jpg"))
    assert 0 < brought <= 3 << 20


@pytest.mark.skipif(INSTALLING != "all", reason="installs everything anew; ISCH_TEST_INSTALL=all asks for it")
@pytest.mark.timeout(60 * MINUTES + 60)
def test_the_second_command_in_a_new_environment(clone: Path, tmp_path: Path) -> None:
    """All tests run beside this one, so that here only a few do."""
    environment = {**new(tmp_path), "PYTEST_ADDOPTS": "tests/test_codes.py tests/test_public.py"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(
        ["bash", "-c", DEVELOP], cwd=clone, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_nothing_of_the_user_is_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("precious")
    (tmp_path / "file").write_text("precious")
    for name, reason in (("mine", "files that the demo did not write"), ("file", "it is a file")):
        assert run(["demo", "--once", "--folder", str(tmp_path / name)]) == 2
        assert reason in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["diary.txt", "file", "mine"]
    assert (tmp_path / "mine" / "diary.txt").read_text() == "precious"


def test_the_pictures_appear_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def few(fails: bool) -> list[samples.Sample]:
        def broken() -> Any:
            raise OSError(28, "No space left on device")

        good = [
            samples.Sample(f"photographs/{name}.jpg", lambda n=name: samples.photograph(n))
            for name in ("cat", "flower")
        ]
        return [*good, samples.Sample("scenes/x.jpg", broken)] if fails else good

    monkeypatch.setattr(samples, "samples", lambda: few(fails=True))
    with pytest.raises(FileError, match="No space left"):
        samples.write(tmp_path / "demo")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(samples, "samples", lambda: few(fails=False))
    (tmp_path / "demo").mkdir()
    samples.write(tmp_path / "demo")
    assert (tmp_path / "demo" / "SOURCES.txt").is_file()
    assert sorted(path.name for path in (tmp_path / "demo" / "photographs").iterdir()) == ["cat.jpg", "flower.jpg"]
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_every_picture_has_a_source_and_is_drawn_alike_each_time() -> None:
    sources = (ROOT / "src/isch/photos/samples/SOURCES.txt").read_text()
    for path in (ROOT / "src/isch/photos/samples").glob("*.jpg"):
        assert re.search(rf"^{path.name} .*?(CC0|ublic domain)", sources, re.MULTILINE | re.DOTALL), path
    for name in samples.PHOTOGRAPHS:
        assert f"\n{name}.jpg " in sources
    assert samples.drawn("maze", 1).tobytes() == samples.drawn("maze", 1).tobytes()
    assert samples.drawn("maze", 1).tobytes() != samples.drawn("maze", 2).tobytes()
