"""Readers who may not write, readers beside writers, readers of an index that another one replaces."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import isch
from isch.search.index import Index
from isch.search.verify import problems

GOLDEN = Path(__file__).parents[1] / "golden"
CODES = np.random.default_rng(0).integers(0, 256, (40, 8), dtype=np.uint8)


def as_nobody(script: str, index: Path) -> None:
    """Run a script as a user who may write nowhere.

    The interpreter may lie where only root can read, so everything is used once before.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody who may not write")
    before = f"""
import os, tempfile
import filelock, numpy as np
from pathlib import Path
from isch import Index
from isch.errors import FileError, FormatError
path = Path({str(index)!r})
with tempfile.TemporaryDirectory() as place, Index.create(Path(place) / "x", n_bits=64) as index:
    index.add(np.zeros((9, 8), np.uint8), metadata={{"a": 1}})
    index.verify()
    index.search(np.zeros(8, np.uint8), where={{"a": 1}})
Index.open(path).info()
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
"""
    done = subprocess.run([sys.executable, "-c", before + script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def index(everybodys: Path) -> Path:
    with Index.create(everybodys / "x.isch", n_bits=64) as index:
        index.add(CODES, metadata=[{"n": i} for i in range(40)])
        index.delete([3])
    return everybodys / "x.isch"


def test_a_folder_that_cannot_be_written_can_be_read(index: Path) -> None:
    script = """
index = Index.open(path)
assert list(index) == [i for i in range(40) if i != 3] and index.verify() == []
assert sorted(index.search(np.zeros(8, np.uint8), k=50, where={"n": {"<": 5}}).keys[0]) == [0, 1, 2, 4]
for change in (lambda: index.delete([0]), index.compact, lambda: index.add(np.zeros((1, 8), np.uint8))):
    try:
        change()
    except FileError as error:
        assert "cannot be written (Permission denied)" in str(error), error
    else:
        raise SystemExit("it was written")
try:
    Index.create(path.parent / "new.isch", n_bits=8)
except FileError as error:
    assert "cannot be written (Permission denied)" in str(error), error
else:
    raise SystemExit("it was made")
"""
    before = sorted(path.name for path in index.rglob("*"))
    as_nobody(script, index)
    assert sorted(path.name for path in index.parent.iterdir()) == ["x.isch"]
    assert sorted(path.name for path in index.rglob("*")) == before


@pytest.mark.parametrize("name", [".", "segments", "catalog.json", "segments/*.codes", "segments/*.items"])
def test_what_cannot_be_read_is_one_sentence(index: Path, name: str) -> None:
    (hidden,) = [index] if name == "." else index.glob(name)
    hidden.chmod(0)
    script = f"""
try:
    Index.open(path)
except FileError as error:
    assert {str(hidden)!r} in str(error) and "Permission denied" in str(error), error
else:
    raise SystemExit("it was read")
from isch.search.verify import problems
assert "Permission denied" in problems(path)[0], problems(path)
"""
    as_nobody(script, index)


@pytest.mark.parametrize("journal", ["none", "empty", "left"])
def test_an_old_index_that_cannot_be_written_can_be_read(everybodys: Path, journal: str) -> None:
    """Of version 1, also with the journal and the shared memory that a killed writer left."""
    old = everybodys / "old.isch"
    shutil.copytree(GOLDEN / "index-v1.isch", old)
    if journal == "empty":
        (old / "catalog.sqlite-wal").touch()
        (old / "catalog.sqlite-shm").touch()
    elif journal == "left":
        leave_journal(old)
    (everybodys / "temporary").mkdir()
    (everybodys / "temporary").chmod(0o777)
    script = f"""
tempfile.tempdir = {str(everybodys / "temporary")!r}
with Index.open(path) as index:
    assert len(index) == 58 and index.verify() == []
    assert (index.get(40).metadata == {{"late": True}}) == {journal == "left"}
"""
    as_nobody(script, old)
    assert not (old / "catalog.json").exists()


def leave_journal(folder: Path) -> None:
    """Change the metadata of the item 40 and leave that in the journal."""
    script = f"""
import os, signal, sqlite3
from isch.search.version1 import checksum
connection = sqlite3.connect({str(folder / "catalog.sqlite")!r})
connection.execute("PRAGMA wal_autocheckpoint = 0")
((item,),) = connection.execute("SELECT id FROM items WHERE key = 40")
text = '{{"late": true}}'
connection.execute("UPDATE items SET metadata = ?, crc = ? WHERE id = ?", (text, checksum(item, 40, text), item))
connection.commit()
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], check=False)
    assert (folder / "catalog.sqlite-wal").stat().st_size > 0
    assert (folder / "catalog.sqlite-shm").exists()


def test_a_read_only_mount(index: Path) -> None:
    place = index.parent / "mounted"
    place.mkdir()
    steps = (["mount", "--bind", str(index), str(place)], ["mount", "-o", "remount,ro,bind", str(place)])
    if shutil.which("mount") is None or any(
        subprocess.run(s, capture_output=True, check=False).returncode for s in steps
    ):
        subprocess.run(["umount", str(place)], capture_output=True, check=False)
        pytest.skip("mounting is not permitted here")
    try:
        with Index.open(place) as reader, Index.open(index) as writer:
            writer.add(CODES[:3], keys=["a", "b", "c"])
            writer.compact()
            assert len(reader) == 39
            assert reader.refresh()
            assert len(reader) == 42
            assert reader.verify() == []
            with pytest.raises(isch.errors.FileError, match="cannot be written"):
                reader.compact()
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_verify_raises_no_false_alarm_while_others_write(index: Path) -> None:
    stop, found = threading.Event(), list[str]()

    def look() -> None:
        while not stop.is_set():
            found.extend(problems(index))

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    with Index.open(index) as writer:
        for i in range(25):
            writer.add(CODES[:5], keys=[f"{i}-{j}" for j in range(5)])
            writer.delete([f"{i}-0"])
            writer.compact()
    stop.set()
    for thread in threads:
        thread.join()
    assert found == []


def test_another_index_of_the_same_generation_is_noticed(tmp_path: Path) -> None:
    data = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    for name, model in (("x", isch.LSH(n_bits=16, random_state=0)), ("y", isch.ITQ(n_bits=5))):
        with Index.create(tmp_path / f"{name}.isch", model.fit(data)) as made:
            made.add(data, keys=[f"{name}{i}" for i in range(50)])
    with Index.open(tmp_path / "x.isch") as index, Index.open(tmp_path / "y.isch") as expected:
        index.search(data[:3])
        (tmp_path / "x.isch").rename(tmp_path / "z.isch")
        shutil.copytree(tmp_path / "y.isch", tmp_path / "x.isch")
        assert [key[0] for key in index.search(data[:1]).keys[0]] == ["x"] * 10
        assert index.refresh()
        assert (index.n_bits, index.hasher.name) == (5, "itq")
        for ours, theirs in zip(index.search(data[:3]), expected.search(data[:3]), strict=True):
            assert ours == theirs
        assert not index.refresh()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
def test_children_forked_while_threads_search_and_write_can_search(index: Path) -> None:
    script = f"""
import faulthandler, os, threading, warnings
import numpy as np
from isch import Index
warnings.simplefilter("ignore", DeprecationWarning)
index, stop = Index.open({str(index)!r}, wait=60), threading.Event()  # the writer never pauses
codes = np.random.default_rng(0).integers(0, 256, (40, 8), dtype=np.uint8)

def look():
    i = 0
    while not stop.is_set():
        i += 1
        assert index.search(codes[5], k=1, where={{"n": {{"<": 6 + i % 30}}}}).keys == [[5]]
        index.refresh()

def write():
    i = 0
    while not stop.is_set():
        i += 1
        index.add(codes[:1] ^ 255, keys=[f"new {{i}}"])

threads = [threading.Thread(target=look) for _ in range(3)] + [threading.Thread(target=write)]
for thread in threads:
    thread.start()
failed = 0
for i in range(40):
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(90, exit=True)
        right = index.search(codes[7], k=1).keys == index.search(codes[7], k=1, where={{"n": 7}}).keys == [[7]]
        index.refresh()
        right = right and index.search(codes[9], k=1).keys == [[9]]
        if i % 10 == 0:
            index.delete(["new 1"], missing_ok=True)
        os._exit(0 if right else 1)
    failed += os.waitpid(child, 0)[1] != 0
stop.set()
for thread in threads:
    thread.join()
raise SystemExit(failed)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    assert problems(index) == []


def test_a_system_with_other_habits_than_linux(tmp_path: Path) -> None:
    """As on Windows: no fcntl, no fork, folders cannot be opened, and what somebody has open is not removed."""
    script = f"""
import os, sys
sys.modules["fcntl"] = None
for name in ("register_at_fork", "fork", "O_DIRECTORY", "O_NONBLOCK", "O_NOFOLLOW"):
    delattr(os, name)
import numpy as np
from pathlib import Path
from isch import Index
from isch.errors import LockedError
from isch.locks import locked

opened, unlink, in_use = os.open, Path.unlink, set()

def open_files(path, flags, *rest, **named):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", str(path))
    return opened(path, flags, *rest, **named)

def unlink_unused(self, missing_ok=False):
    if self.name in in_use:
        raise PermissionError(13, "in use", str(self))
    unlink(self, missing_ok=missing_ok)

os.open, Path.unlink = open_files, unlink_unused
codes = np.random.default_rng(0).integers(0, 256, (60, 8), dtype=np.uint8)
path = Path({str(tmp_path / "x.isch")!r})
with Index.create(path, rows=codes[:40], n_bits=64) as writer:
    reader = Index.open(path)
    in_use |= {{file.name for file in (path / "segments").iterdir()}}
    writer.delete([3])
    writer.add(codes[40:])
    writer.compact()
    assert len(reader) == 40 and reader.search(codes[3], k=1).keys == [[3]]
    assert in_use <= {{file.name for file in (path / "segments").iterdir()}}
    reader.close()
    in_use.clear()
    with locked(path / "lock", 0, "is busy"):
        try:
            Index.open(path, wait=0).delete([5])
        except LockedError:
            pass
        else:
            raise SystemExit("two writers")
    writer.delete([5])
    assert writer.verify() == [] and len(writer) == 58
    assert sorted(file.suffix for file in (path / "segments").iterdir()) == [".codes", ".dead", ".items"]
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["x.isch"]
