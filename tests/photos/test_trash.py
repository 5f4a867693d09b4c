import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from isch.errors import FileError
from isch.photos import below
from isch.photos.exact import content_hash
from isch.photos.trash import Listed, Removal, Trash


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


def to_trash(removals, log, move):
    return Trash(log.parent / "pictures", log, move).discard(removals)


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
        Trash(pictures, tmp_path / "none" / "log", bin_).discard([removal])
    assert (pictures / "b.jpg").exists()


def test_strange_names_stay_on_one_line(pictures, bin_, tmp_path):
    strange = os.fsdecode(b"line\nbreak \xff <img onerror>.jpg")
    (pictures / strange).write_bytes(b"x")
    to_trash([Removal(listed(pictures, strange), listed(pictures, "a.jpg"))], tmp_path / "log", bin_)
    assert [line["path"] for line in lines(tmp_path / "log")] == [str(pictures / strange)] * 2


SYSTEM = """
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from isch.photos.trash import Listed, Removal, Trash
a, b, log = sys.argv[1:]
(outcome,) = Trash(os.path.dirname(a), log).discard([Removal([Listed.of(b)], [Listed.of(a)])])
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


@pytest.fixture
def desktop(tmp_path, monkeypatch):
    """The trash of freedesktop.org in a folder of the test's own: (the folder, what moves a file there)."""
    data = tmp_path / "data"
    monkeypatch.setenv("XDG_DATA_HOME", str(data))
    files, info = data / "Trash" / "files", data / "Trash" / "info"
    files.mkdir(parents=True)
    info.mkdir()

    def move(path):
        name = os.path.basename(path)
        while (files / name).exists():
            name += "1"
        os.rename(path, files / name)
        (info / f"{name}.trashinfo").write_text("[Trash Info]\n")

    return data / "Trash", move


def moved(trash, *removals, step=None):
    with trash.alone():
        return [outcome.moved for outcome in trash.discard(removals, step)]


def test_undo_brings_back_step_by_step_also_after_a_restart(pictures, desktop, tmp_path):
    folder, move = desktop
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in pictures.iterdir()}
    trash = Trash(pictures, tmp_path / "log", move)
    a, b, c = listed(pictures, "a.jpg", "b.jpg", "c.jpg")
    assert moved(trash, Removal([b], [a])) == [True]
    assert moved(trash, Removal([c], [a])) == [True]
    again = Trash(pictures, tmp_path / "log", move)  # as after a restart
    assert [len(step.entries) for step in again.steps()] == [1, 1]
    assert [outcome.path for outcome in again.undo()] == [c.path]
    assert not (pictures / "b.jpg").exists()
    assert [(outcome.path, outcome.moved) for outcome in Trash(pictures, tmp_path / "log").undo()] == [(b.path, True)]
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in pictures.iterdir()} == before
    assert again.undo() == []
    assert list(folder.glob("*/*")) == []  # neither files nor notes about them stay


def test_requests_of_one_step_come_back_together(pictures, desktop, tmp_path):
    trash = Trash(pictures, tmp_path / "log", desktop[1])
    a, b, c = listed(pictures, "a.jpg", "b.jpg", "c.jpg")
    assert moved(trash, Removal([b], [a]), step="0123") == [True]
    assert moved(trash, Removal([c], [a]), step="0123") == [True]
    assert [outcome.moved for outcome in trash.undo()] == [True, True]
    assert len(list(pictures.iterdir())) == 3


def test_undo_replaces_nothing_and_says_what_stays(pictures, desktop, tmp_path):
    folder, move = desktop
    trash = Trash(pictures, tmp_path / "log", move)
    a, *others = listed(pictures, "a.jpg", "b.jpg", "c.jpg")
    (pictures / "d.jpg").write_bytes(b"d")
    assert moved(trash, Removal([*others, Listed.of(pictures / "d.jpg")], [a])) == [True] * 3
    (pictures / "b.jpg").write_bytes(b"something new")
    (folder / "files" / "d.jpg").write_bytes(b"another")
    reasons = {Path(one.path).name: one.reason for one in trash.undo()}
    assert reasons == {
        "b.jpg": "something else is there now; it stays in the trash as b.jpg",
        "c.jpg": None,
        "d.jpg": "what lies in its place in the trash is another file",
    }
    assert (pictures / "b.jpg").read_bytes() == b"something new"
    assert (folder / "files" / "b.jpg").exists()
    assert trash.steps() == []


def test_undo_makes_a_folder_that_was_removed_and_follows_no_link(pictures, desktop, tmp_path):
    trash = Trash(pictures, tmp_path / "log", desktop[1])
    (pictures / "deep" / "er").mkdir(parents=True)
    (pictures / "deep" / "er" / "d.jpg").write_bytes(b"d")
    (given,) = listed(pictures, "deep/er/d.jpg")
    kept = listed(pictures, "a.jpg")
    for way in ("gone", "link"):
        assert moved(trash, Removal([given], kept)) == [True]
        (pictures / "deep" / "er").rmdir()
        if way == "link":
            (tmp_path / "elsewhere").mkdir()
            (pictures / "deep" / "er").symlink_to(tmp_path / "elsewhere")
        (outcome,) = trash.undo()
        assert outcome.moved == (way == "gone")
    assert "reached through a link" in outcome.reason
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_log_from_a_stranger_moves_nothing_from_elsewhere(pictures, desktop, tmp_path):
    secret = tmp_path / "secret.jpg"
    secret.write_bytes(b"secret")
    (desktop[0] / "files" / "link.jpg").symlink_to(secret)
    line = {"at": 1, "step": "x", "event": "moving", "bytes": 6, "content": content_hash(secret)}
    places = {"secret.jpg": secret, "link.jpg": desktop[0] / "files" / "link.jpg"}
    targets = [pictures / "got.jpg", tmp_path / "outside.jpg", pictures / ".." / "outside.jpg"]
    for place in (*places.values(), None, 5):
        for target in targets:
            entry = {**line, "path": str(target), "to": str(place) if isinstance(place, Path) else place}
            extra = ["[]", "{", "5", json.dumps({**line, "path": 5}), json.dumps({**line, "at": 1e300}), "[" * 100_000]
            (tmp_path / "log").write_text("\n".join([json.dumps(entry), *extra]))
            (outcome,) = Trash(pictures, tmp_path / "log").undo()
            assert not outcome.moved
            assert outcome.reason
            (tmp_path / "log").unlink()
    assert not any(os.path.lexists(target) for target in targets)


def test_what_a_crash_left_is_known_and_comes_back(pictures, desktop, tmp_path):
    log = tmp_path / "log"
    a, b = listed(pictures, "a.jpg", "b.jpg")

    def crash(path):
        desktop[1](path)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        moved(Trash(pictures, log, crash), Removal([b], [a]))
    log.write_text(log.read_text() + '{"at": 1700000000, "step')  # and the disk was full
    trash = Trash(pictures, log, desktop[1])
    assert [outcome.moved for outcome in trash.undo()] == [True]
    assert (pictures / "b.jpg").exists()
    assert moved(trash, Removal([b], [a])) == [True]  # what is written next begins on a line of its own
    assert len(trash.steps()) == 1


def test_a_hard_link_is_no_copy(pictures, bin_, tmp_path):
    os.link(pictures / "a.jpg", pictures / "again.jpg")
    a, again = listed(pictures, "a.jpg", "again.jpg")
    for give_up, kept in ((a, again), (again, a)):
        (outcome,) = to_trash([Removal([give_up], [kept])], tmp_path / "log", bin_)
        assert "same file under another name, so giving it up saves nothing" in outcome.reason
    (outcome,) = to_trash([Removal([again], [a, *listed(pictures, "b.jpg")])], tmp_path / "log", bin_)
    assert outcome.moved  # there is a real copy besides


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="needs links")
@pytest.mark.parametrize("which", ["given", "kept"])
@pytest.mark.parametrize("link", ["file", "folder", "folder above", "outside"])
def test_nothing_behind_a_link_or_outside_is_moved_or_counts(pictures, bin_, tmp_path, which, link):
    outside = tmp_path / "outside" / "deep"
    outside.mkdir(parents=True)
    (outside / "x.jpg").write_bytes(b"x")
    place = {
        "file": pictures / "link.jpg",
        "folder": pictures / "link" / "x.jpg",
        "folder above": pictures / "link" / "deep" / "x.jpg",
        "outside": outside / "x.jpg",
    }[link]
    if link == "file":
        place.symlink_to(outside / "x.jpg")
    elif link != "outside":
        (pictures / "link").symlink_to(outside if link == "folder" else outside.parent)
    behind, a = Listed.of(place), Listed.of(pictures / "a.jpg")
    removal = Removal([behind], [a]) if which == "given" else Removal([a], [behind])
    (outcome,) = to_trash([removal], tmp_path / "log", bin_)
    assert not outcome.moved
    assert ("does not lie in the library" if link == "outside" else "through a link") in outcome.reason
    assert (outside / "x.jpg").exists()
    assert (pictures / "a.jpg").exists()


def test_a_folder_that_becomes_a_link_at_the_last_moment_is_noticed(pictures, bin_, tmp_path, monkeypatch):
    """Between reading the file and moving it, somebody puts a link to other pictures in the place of its folder."""
    (pictures / "holiday").mkdir()
    (pictures / "holiday" / "x.jpg").write_bytes(b"x")
    given, kept = Listed.of(pictures / "holiday" / "x.jpg"), Listed.of(pictures / "a.jpg")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.jpg").write_bytes(b"x")
    content = below.Held.content

    def swap(held):
        found = content(held)
        if held.path == kept.path:
            (pictures / "holiday").rename(tmp_path / "away")
            (pictures / "holiday").symlink_to(tmp_path / "outside")
        return found

    monkeypatch.setattr(below.Held, "content", swap)
    (outcome,) = to_trash([Removal([given], [kept])], tmp_path / "log", bin_)
    assert "through a link" in outcome.reason
    assert (tmp_path / "outside" / "x.jpg").exists()


def test_two_requests_that_keep_what_the_other_gives_up_leave_one(pictures, bin_, tmp_path):
    """Also from two libraries with different homes, whose locks know nothing of each other."""
    for homes in (("one", "one"), ("one", "two")):
        for attempt in range(10):
            a, b = pictures / f"{homes[1]}{attempt}a.jpg", pictures / f"{homes[1]}{attempt}b.jpg"
            a.write_bytes(b"the same")
            b.write_bytes(b"the same")
            start = threading.Barrier(2)

            def ask(home, give_up, kept, start=start):
                (tmp_path / home).mkdir(exist_ok=True)
                trash = Trash(pictures, tmp_path / home / "log", bin_)
                removal = Removal([Listed.of(give_up)], [Listed.of(kept)])
                start.wait()
                with trash.alone():
                    return trash.discard([removal])[0]

            with ThreadPoolExecutor(2) as pool:
                futures = [pool.submit(ask, homes[0], a, b), pool.submit(ask, homes[1], b, a)]
                outcomes = [future.result() for future in futures]
            assert sum(outcome.moved for outcome in outcomes) <= 1
            assert a.exists() or b.exists()
