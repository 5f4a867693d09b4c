import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from isch.errors import FileError
from isch.photos.exact import content_hash
from isch.photos.trash import Listed, Removal, to_trash


@pytest.fixture
def bin_(tmp_path):
    """A trash of the test's own: a function that moves a file, as send2trash does."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def move(path):
        os.rename(path, folder / Path(path).name)

    return move


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        (folder / name).write_bytes(b"picture" + name.encode())
    return folder


def listed(folder, *names):
    return [Listed.of(folder / name) for name in names]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_copies_are_moved_and_logged(pictures, bin_, tmp_path):
    give_up, kept = listed(pictures, "b.jpg", "c.jpg"), listed(pictures, "a.jpg")
    outcomes = to_trash([Removal(give_up, kept)], tmp_path / "log.jsonl", bin_)
    assert [outcome.moved for outcome in outcomes] == [True, True]
    assert [path.name for path in pictures.iterdir()] == ["a.jpg"]
    log = lines(tmp_path / "log.jsonl")
    assert [(line["event"], Path(line["path"]).name) for line in log] == [
        ("moving", "b.jpg"),
        ("moved", "b.jpg"),
        ("moving", "c.jpg"),
        ("moved", "c.jpg"),
    ]
    assert log[1]["content"] == give_up[0].content
    assert log[1]["bytes"] == 12


@pytest.mark.parametrize("change", ["bytes", "time", "content", "gone"])
def test_a_file_that_changed_stays(pictures, bin_, tmp_path, change):
    (file,), path = listed(pictures, "b.jpg"), pictures / "b.jpg"
    match change:
        case "bytes":
            path.write_bytes(b"a longer picture than it was")
        case "time":
            os.utime(path, (1, 1))
        case "content":
            path.write_bytes(b"picturebxjpg")
            os.utime(path, ns=(file.modified_ns, file.modified_ns))
        case "gone":
            path.unlink()
    (outcome,) = to_trash([Removal([file], listed(pictures, "a.jpg"))], tmp_path / "log", bin_)
    assert not outcome.moved
    assert ("cannot be read" if change == "gone" else "changed since it was listed") in outcome.reason
    assert path.exists() == (change != "gone")
    assert [line["event"] for line in lines(tmp_path / "log")] == ["refused"]


def test_the_last_copy_is_never_moved(pictures, bin_, tmp_path):
    a, b, c = listed(pictures, "a.jpg", "b.jpg", "c.jpg")
    (pictures / "c.jpg").unlink()
    removals = [Removal([a], []), Removal([b], [c])]
    outcomes = to_trash(removals, tmp_path / "log", bin_)
    assert ["last copy" in outcome.reason for outcome in outcomes] == [True, True]
    assert (pictures / "a.jpg").exists()
    assert (pictures / "b.jpg").exists()


def test_a_copy_kept_here_and_given_up_there_is_not_kept(pictures, bin_, tmp_path):
    a, b = listed(pictures, "a.jpg", "b.jpg")
    outcomes = to_trash([Removal([a], [b]), Removal([b], [a])], tmp_path / "log", bin_)
    assert [outcome.moved for outcome in outcomes] == [False, False]


def test_a_link_to_the_only_file_is_no_copy(pictures, bin_, tmp_path):
    (pictures / "link.jpg").symlink_to(pictures / "a.jpg")
    (tmp_path / "again").symlink_to(pictures)
    for other in (pictures / "link.jpg", tmp_path / "again" / "a.jpg"):
        for give_up, kept in ((pictures / "a.jpg", other), (other, pictures / "a.jpg")):
            (outcome,) = to_trash([Removal([Listed.of(give_up)], [Listed.of(kept)])], tmp_path / "log", bin_)
            assert not outcome.moved
    assert (pictures / "a.jpg").exists()


def test_one_failure_does_not_stop_the_others(pictures, bin_, tmp_path):
    def fussy(path):
        if path.endswith("b.jpg"):
            raise PermissionError(13, "no trash here")
        if path.endswith("c.jpg"):
            return
        bin_(path)

    (pictures / "d.jpg").write_bytes(b"d")
    give_up = listed(pictures, "b.jpg", "c.jpg", "d.jpg")
    outcomes = to_trash([Removal(give_up, listed(pictures, "a.jpg"))], tmp_path / "log", fussy)
    assert [outcome.moved for outcome in outcomes] == [False, False, True]
    assert outcomes[0].reason == "the trash did not take it (no trash here)"
    assert outcomes[1].reason == "the trash did not take it, and gave no reason"


def test_without_a_log_nothing_is_moved(pictures, bin_, tmp_path):
    removal = Removal(listed(pictures, "b.jpg"), listed(pictures, "a.jpg"))
    with pytest.raises(FileError, match="the log of the trash cannot be written"):
        to_trash([removal], tmp_path / "none" / "log", bin_)
    assert (pictures / "b.jpg").exists()


def test_strange_names_stay_on_one_line(pictures, bin_, tmp_path):
    strange = os.fsdecode(b"line\nbreak \xff <img onerror>.jpg")
    (pictures / strange).write_bytes(b"x")
    to_trash([Removal(listed(pictures, strange), listed(pictures, "a.jpg"))], tmp_path / "log", bin_)
    assert [line["path"] for line in lines(tmp_path / "log")] == [str(pictures / strange)] * 2


SYSTEM = """
import sys
from isch.photos.trash import Listed, Removal, to_trash
a, b, log = sys.argv[1:]
(outcome,) = to_trash([Removal([Listed.of(b)], [Listed.of(a)])], log)
print(outcome.moved, outcome.to)
"""


def test_the_systems_trash_takes_it_and_the_log_says_where(pictures, tmp_path):
    pytest.importorskip("send2trash", reason="needs isch[photos]")
    content = content_hash(pictures / "b.jpg")
    command = [sys.executable, "-c", SYSTEM, pictures / "a.jpg", pictures / "b.jpg", tmp_path / "log"]
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **home}, check=True)
    moved, _, to = done.stdout.strip().partition(" ")
    assert moved == "True"
    assert content_hash(to) == content
    assert lines(tmp_path / "log")[-1]["to"] == to
    assert not (pictures / "b.jpg").exists()
