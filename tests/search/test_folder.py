"""The folder of an index: made whole or not at all, and nothing outside it is ever touched."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isch.errors import FileError, FormatError, IschError, LockedError
from isch.search import version1
from isch.search.folder import building
from isch.search.index import Index
from isch.search.verify import problems

CODES = np.random.default_rng(0).integers(0, 256, (20, 8), dtype=np.uint8)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    with Index.create(tmp_path / "x.isch", n_bits=64) as index:
        index.add(CODES)
        index.delete([3])
    return tmp_path / "x.isch"


def killed_build(path: Path, moment: str) -> None:
    script = f"""
import os, signal
import numpy as np
from isch import Index
from isch.search import folder
from pathlib import Path

def killed(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

moment = {moment!r}
if moment == "making":
    folder.write_empty = killed
    import isch.search.index
    isch.search.index.write_empty = killed
elif moment == "naming":
    os.rename = killed
Index.create({str(path)!r}, rows=np.zeros((30, 8), np.uint8), n_bits=64)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -signal.SIGKILL


def test_the_next_build_of_that_name_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    killed_build(tmp_path / "x.isch", "making")
    killed_build(tmp_path / "x.isch", "naming")
    killed_build(tmp_path / "other.isch", "naming")
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2
    Index.create(tmp_path / "x.isch", n_bits=64).close()
    left = [path.name for path in tmp_path.iterdir() if path.name != "x.isch"]
    assert left
    assert all(name.startswith(".other.isch.") for name in left)


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ("0" * 16 + ".codes")).write_text("precious")
    mine = [
        tmp_path / ".x.isch.12345678",  # by its name it could be ours, but not by what is in it
        tmp_path / ".x.isch.backup",
        tmp_path / ".x.isch.123456789",
        tmp_path / ".y.isch.12345678",
        tmp_path / ".xAisch.12345678",
    ]
    for folder in mine:
        folder.mkdir()
        (folder / "precious").write_text("precious")
    (tmp_path / ".x.isch.87654321").symlink_to(elsewhere)
    (tmp_path / ".x.isch.abcdef00").mkdir()
    (tmp_path / ".x.isch.abcdef00" / "segments").symlink_to(elsewhere)
    Index.create(tmp_path / "x.isch", n_bits=64).close()
    assert all((folder / "precious").read_text() == "precious" for folder in [*mine])
    assert (elsewhere / ("0" * 16 + ".codes")).read_text() == "precious"


def test_a_living_builder_is_not_disturbed(tmp_path: Path) -> None:
    with building(tmp_path / "x.isch") as folder:
        (folder / "segments").mkdir()
        with (
            pytest.raises(LockedError, match=f"process {os.getpid()} on .* is making x.isch"),
            building(tmp_path / "x.isch"),
        ):
            pass
        assert (folder / "segments").is_dir()
        with building(tmp_path / "y.isch"):
            pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.isch", "y.isch"]


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(IschError):
        Index.create(tmp_path / "x.isch", rows=CODES, keys=["a"], n_bits=64)
    with pytest.raises(KeyboardInterrupt), building(tmp_path / "x.isch"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling link"])
def test_what_exists_is_not_replaced(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "x.isch"
    if kind == "file":
        target.touch()
    elif kind == "folder":
        target.mkdir()
    else:
        target.symlink_to(tmp_path if kind == "link" else tmp_path / "nowhere")
    with pytest.raises(FileError, match="it exists already"):
        Index.create(target, n_bits=8)
    assert [path.name for path in tmp_path.iterdir()] == ["x.isch"]


def outside(tmp_path: Path) -> tuple[Path, dict[str, bytes]]:
    """A folder with files that look like those of an index, and what is in them."""
    with Index.create(tmp_path / "outside.isch", n_bits=64) as other:
        other.add(CODES)
        other.delete([0])
    files = [path for path in (tmp_path / "outside.isch").rglob("*") if path.is_file()]
    return tmp_path / "outside.isch", {str(path): path.read_bytes() for path in files}


def use(folder: Path) -> None:
    """Everything that a user may do with an index, whether it works or not."""

    def attempt(action: Any) -> None:
        try:
            action()
        except IschError as error:
            if "\n" in str(error):
                raise AssertionError(str(error)) from error

    def change(name: str, *arguments: Any) -> None:
        with Index.open(folder, wait=0) as index:
            getattr(index, name)(*arguments)

    for name, *arguments in (("search", CODES[:2]), ("delete", [1]), ("add", CODES[:1], ["new"]), ("compact",)):
        attempt(lambda name=name, arguments=arguments: change(name, *arguments))
    problems(folder)


@pytest.mark.parametrize("name", ["segments", "catalog.json", "lock", "lock.holder", "model.safetensors"])
@pytest.mark.parametrize("kind", ["symbolic", "dangling"])
def test_an_index_with_links_is_refused_and_nothing_outside_is_touched(
    index: Path, tmp_path: Path, name: str, kind: str
) -> None:
    other, before = outside(tmp_path)
    if (index / name).is_dir():
        shutil.rmtree(index / name)
    else:
        (index / name).unlink(missing_ok=True)
    target = other / name if kind == "symbolic" else tmp_path / "new"
    (index / name).symlink_to(target)
    use(index)
    assert {path: Path(path).read_bytes() for path in before} == before
    assert not (tmp_path / "new").exists()
    with pytest.raises(FormatError, match="is a link|not an ISCH index"):
        Index.open(index)


@pytest.mark.parametrize("kind", ["codes", "items", "dead"])
def test_a_linked_segment_is_refused(index: Path, tmp_path: Path, kind: str) -> None:
    other, before = outside(tmp_path)
    (mine,) = (index / "segments").glob(f"*.{kind}")
    mine.unlink()
    mine.symlink_to(next((other / "segments").glob(f"*.{kind}")))
    use(index)
    with pytest.raises(FileError, match=f"{mine.name}: is a link, not a regular file"):
        Index.open(index)
    assert {path: Path(path).read_bytes() for path in before} == before


def test_files_of_the_user_among_the_segments_survive(index: Path, tmp_path: Path) -> None:
    precious = ["notes.txt", "photo.codes", "0123456789ABCDEF.codes", "0123456789abcdef.codes.bak", ".hidden"]
    for name in precious:
        (index / "segments" / name).write_text("precious")
        (index / name).write_text("precious")
    (index / "segments" / "0123456789abcdef").mkdir()
    (index / "segments" / "0123456789abcdef.codes").write_text("left by a killed writer")
    (index / "segments" / "fedcba9876543210.items").symlink_to(index / "notes.txt")
    (index / ".catalog.01234567.json").write_text("left by a killed writer")
    use(index)
    for name in precious:
        assert (index / "segments" / name).read_text() == "precious"
        assert (index / name).read_text() == "precious"
    assert (index / "segments" / "0123456789abcdef").is_dir()
    assert not (index / "segments" / "0123456789abcdef.codes").exists()
    assert not (index / "segments" / "fedcba9876543210.items").is_symlink()
    assert not (index / ".catalog.01234567.json").exists()
    assert problems(index) == []


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["catalog.json", "model.safetensors", "lock", "segments", "segments/*.items"])
def test_a_pipe_in_the_place_of_a_file_does_not_hang(index: Path, name: str) -> None:
    path = next(iter(index.glob(name)), index / name)
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    os.mkfifo(path)
    use(index)


def test_a_missing_folder_or_one_without_permission_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such index"):
        Index.open(tmp_path / "nothing.isch")
    with pytest.raises(FormatError, match="not an ISCH index"):
        Index.open(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FormatError, match="not an ISCH index"):
        Index.open(tmp_path / "file")
    with pytest.raises(IschError):
        Index.open(tmp_path / "file" / "below")
    with pytest.raises(IschError):
        Index.open(tmp_path / ("n" * 300))


def test_a_folder_with_both_catalogs_is_of_the_present_version(index: Path) -> None:
    (index / version1.FILE).write_bytes(b"left by an upgrade that was stopped at its end")
    with Index.open(index) as opened:
        assert len(opened) == 19
        opened.delete([5])
    assert not (index / version1.FILE).exists()
