import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from isch.errors import FileError, LockedError
from isch.locks import locked, note


def test_one_holder_at_a_time_and_the_second_is_told_who(tmp_path: Path) -> None:
    path, who = tmp_path / "lock", f"^{tmp_path}: process {os.getpid()} on .* is busy$"
    for _ in range(2):
        with locked(path, 0, "is busy"), pytest.raises(LockedError, match=who), locked(path, 0, "is busy"):
            pass


def test_waiting_takes_the_lock_when_it_is_let_go(tmp_path: Path) -> None:
    script = f"""
import sys, time
from pathlib import Path
from isch.locks import locked
with locked(Path({str(tmp_path / "lock")!r}), 0, "x"):
    print("held", flush=True)
    sys.stdin.readline()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(LockedError, match=f"process {other.pid} on"), locked(tmp_path / "lock", 0.1, "x"):
            pass
        other.stdin.write(b"\n")
        other.stdin.flush()
        with locked(tmp_path / "lock", 30, "x"):
            pass
        other.stdin.close()


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    script = f"""
import os, signal
from pathlib import Path
from isch.locks import locked
with locked(Path({str(tmp_path / "lock")!r}), 0, "x"):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    with locked(tmp_path / "lock", 0, "x"):
        pass


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}', "[" * 1000])
def test_a_note_that_says_nothing_is_no_trouble(tmp_path: Path, content: str) -> None:
    with locked(tmp_path / "lock", 0, "x"):
        note(tmp_path / "lock").write_text(content)
        with pytest.raises(LockedError, match="another process is busy"), locked(tmp_path / "lock", 0, "is busy"):
            pass


@pytest.mark.parametrize("name", ["lock", "lock.holder"])
@pytest.mark.parametrize("kind", ["link", "hard link", "folder", "pipe"])
def test_a_lock_touches_no_file_elsewhere(tmp_path: Path, name: str, kind: str) -> None:
    elsewhere, folder = tmp_path / "precious", tmp_path / "x"
    elsewhere.write_text("precious")
    folder.mkdir()
    path = folder / name
    {
        "link": lambda: path.symlink_to(elsewhere),
        "hard link": lambda: path.hardlink_to(elsewhere),
        "folder": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
    }[kind]()
    refused = nullcontext() if kind == "hard link" else pytest.raises(FileError, match=str(path))
    with refused, locked(folder / "lock", 0, "x"):
        pass
    assert elsewhere.read_text() == "precious"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
def test_a_child_forked_meanwhile_does_not_keep_the_lock(tmp_path: Path) -> None:
    script = f"""
import os, signal, time
from pathlib import Path
from isch.locks import locked
with locked(Path({str(tmp_path / "lock")!r}), 0, "x"):
    child = os.fork()
    if child == 0:
        time.sleep(60)
    Path({str(tmp_path / "child")!r}).write_text(str(child))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], stdout=subprocess.DEVNULL, check=False)
    child = int((tmp_path / "child").read_text())
    try:
        with locked(tmp_path / "lock", 10, "x"):
            pass
    finally:
        os.kill(child, 9)


def test_without_fcntl_a_lock_still_excludes_others(tmp_path: Path) -> None:
    script = f"""
import sys
sys.modules["fcntl"] = None
from pathlib import Path
from isch.errors import LockedError
from isch.locks import locked
path = Path({str(tmp_path / "lock")!r})
for _ in range(2):
    with locked(path, 0, "x"):
        try:
            with locked(path, 0, "x"):
                raise SystemExit("two holders")
        except LockedError:
            pass
"""
    subprocess.run([sys.executable, "-c", script], check=True)
