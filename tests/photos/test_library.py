"""A library follows its folder: new, changed, moved and deleted pictures, interrupted or not, few or many."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from isch.errors import InputError, IschError, LockedError
from isch.photos import catalog
from isch.photos import updating as module
from isch.photos.catalog import Filter
from isch.photos.decisions import Decisions
from isch.photos.library import Library
from isch.photos.scan import compare

RNG = np.random.default_rng(0)


def draw(path: Path, seed: int, size: tuple[int, int] = (96, 80)) -> Path:
    """A picture of coloured blocks, a different one for each seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    blocks = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), np.uint8)
    Image.fromarray(blocks).resize(size, Image.Resampling.NEAREST).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in range(6):
        draw(tmp_path / "pictures" / ("a" if i % 2 else "b/c") / f"{i}.png", i)
    return tmp_path / "pictures"


@pytest.fixture
def library(folder: Path, tmp_path: Path) -> Library:
    library = Library(folder, tmp_path / "home")
    library.update()
    return library


def paths(library: Library) -> list[str]:
    return sorted(os.path.relpath(item.path, library.folder) for item in library.catalog.page(Filter(), 0, 1000))


def test_three_pictures_are_enough(tmp_path: Path) -> None:
    for i in range(3):
        draw(tmp_path / "p" / f"{i}.jpg", i)
    library = Library(tmp_path / "p", tmp_path / "home")
    report = library.update()
    assert (report.added, report.learned, library.learned, len(library)) == (3, 0, False, 3)
    hits = library.search(tmp_path / "p" / "1.jpg", k=3)
    assert (hits[0].item.name, hits[0].distance) == ("1.jpg", 0)
    assert len(hits) == 3


def test_one_picture_and_none(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    library = Library(tmp_path / "p", tmp_path / "home")
    assert str(library.update()) == "no pictures"
    assert library.search(draw(tmp_path / "q.png", 1)) == []
    draw(tmp_path / "p" / "x.png", 1)
    assert library.update().added == 1
    assert [hit.item.name for hit in library.search(tmp_path / "q.png")] == ["x.png"]


def test_an_update_follows_the_folder(library: Library, folder: Path) -> None:
    numbers = {item.name: item.id for item in library.catalog.page(Filter(), 0, 100)}
    assert str(library.update()) == "6 unchanged"
    draw(folder / "new.png", 50)
    draw(folder / "a" / "1.png", 51, (120, 90))
    (folder / "a" / "3.png").rename(folder / "b" / "moved.png")
    (folder / "a" / "5.png").unlink()
    (folder / "broken.jpg").write_bytes(b"not a picture")
    report = library.update()
    assert (report.added, report.changed, report.moved, report.removed, report.unchanged, report.failures) == (
        1,
        1,
        1,
        1,
        3,
        1,
    )
    assert paths(library) == ["a/1.png", "b/c/0.png", "b/c/2.png", "b/c/4.png", "b/moved.png", "new.png"]
    after = {item.name: item for item in library.catalog.page(Filter(), 0, 100)}
    assert after["moved.png"].id == numbers["3.png"]
    assert after["moved.png"].folder == "b"
    assert (after["1.png"].id, after["1.png"].width) == (numbers["1.png"], 120)
    assert sorted(int(key) for key in library.index or []) == sorted(item.id for item in after.values())
    assert str(library.update()) == "6 unchanged, 1 unusable"
    (folder / "broken.jpg").unlink()
    assert str(library.update()) == "6 unchanged"


def test_a_changed_file_that_cannot_be_used_any_more_is_forgotten(library: Library, folder: Path) -> None:
    (folder / "a" / "1.png").write_bytes(b"damaged")
    report = library.update()
    assert (report.failures, len(library), len(library.index or [])) == (1, 5, 5)


def test_nothing_is_read_when_nothing_changed(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.describing, "described", lambda jobs: pytest.fail("described again"))
    assert library.update().unchanged == 6


def test_similar_leaves_the_picture_itself_out(library: Library, folder: Path) -> None:
    draw(folder / "twin.png", 3)
    library.update()
    twin = next(item for item in library.catalog.page(Filter(), 0, 100) if item.name == "twin.png")
    hits = library.similar(twin.id, k=3)
    assert (hits[0].item.name, hits[0].distance) == ("3.png", 0)
    assert twin.id not in [hit.item.id for hit in hits]
    with pytest.raises(InputError, match="there is no picture 999"):
        library.similar(999)


def test_filters_by_folder_date_and_word(library: Library) -> None:
    catalog = library.catalog
    assert catalog.count(Filter(folder="b")) == 3
    assert catalog.count(Filter(folder="b/c")) == 3
    assert catalog.count(Filter(folder="b/")) == 3
    assert catalog.count(Filter(folder="%")) == 0
    year = time.strftime("%Y")
    assert catalog.count(Filter(since=year, until=year)) == 6
    assert catalog.count(Filter(until="1999")) == 0
    assert catalog.values("folder") == [("a", 3), ("b/c", 3)]
    some = next(iter(catalog.kinds()))
    word = module.describing.words.kinds()[some].names[0]
    page = catalog.page(Filter(word=word), 0, 100)
    assert 1 <= len(page) == catalog.count(Filter(word=word))
    assert catalog.count(Filter(word="qwertyuiop")) == 0
    found = library.search(PICTURE, k=10, wanted=Filter(folder="a"))
    assert {hit.item.folder for hit in found} == {"a"}


PICTURE = RNG.integers(0, 256, (60, 60, 3), np.uint8)


def test_codes_are_learned_when_there_are_enough(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEARN_ROWS", 40)
    monkeypatch.setattr(module, "N_BITS", 16)
    before = {hit.item.name for hit in library.search(PICTURE, k=3)}
    assert len(before) == 3
    for i in range(100, 150):
        draw(folder / "more" / f"{i}.png", i)
    report = library.update()
    assert (report.added, report.learned, library.learned) == (50, 56, True)
    assert (library.index.hasher.name, library.index.n_bits, len(library.index)) == ("diffusion", 16, 56)  # type: ignore[union-attr, arg-type]
    assert library.search(folder / "more" / "120.png", k=1)[0].item.name == "120.png"
    assert len(list(library.home.glob("codes-*.isch"))) == 1
    assert library.update().learned == 0


def test_an_update_mends_what_an_interrupted_one_left(library: Library) -> None:
    index = library.index
    assert index is not None
    lost, orphan = 1, 77
    index.delete([lost])
    index.add(np.zeros((1, 1280), np.float32) + 0.1, keys=[orphan])
    library.catalog.set_meta("changing", 1)
    (library.home / "codes-deadbeef.isch").mkdir()
    (library.home / ".codes-deadbeef.isch.01234567").mkdir()
    (library.home / ".codes-deadbeef.isch.lock").touch()
    (library.home / "codes-of-mine.isch").mkdir()  # a name that no update gives
    report = library.update()
    assert (report.changed, len(library), len(library.index or [])) == (1, 6, 6)
    assert orphan not in (library.index or [])
    assert not list(library.home.glob(".codes*"))
    assert {path.name for path in library.home.glob("codes-*.isch")} == {"codes-of-mine.isch", index.path.name}


def test_pictures_are_looked_at_again_when_fingerprints_change(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.fingerprint, "VERSION", 999)
    assert library.update().changed == 6
    assert str(library.update()) == "6 unchanged"
    assert (len(library), len(library.index or [])) == (6, 6)


def test_two_updates_at_once(library: Library, folder: Path) -> None:
    from isch.locks import locked

    with locked(library.home / "update.lock", 0, "tests"), pytest.raises(LockedError, match="is updating this library"):
        library.update()


def test_names_of_any_kind(tmp_path: Path) -> None:
    names = ["<img src=x onerror=alert(1)>.png", "a..png", "a\nb.png", "ünïcödé 🙂.png", "'; DROP TABLE items;--.png"]
    for i, name in enumerate(names):
        draw(tmp_path / "p" / name, i)
    with Path(os.fsdecode(os.fsencode(tmp_path / "p") + b"/\xff\xfe.png")).open("wb") as file:
        file.write((tmp_path / "p" / names[0]).read_bytes())
    library = Library(tmp_path / "p", tmp_path / "home")
    report = library.update()
    assert report.added == len(library) >= len(names)
    shown = {item.name for item in library.catalog.page(Filter(), 0, 100)}
    assert names[0] in shown
    assert "\\xff\\xfe.png" in shown
    assert str(library.update()) == f"{report.added} unchanged"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: Library(p / "nowhere"), "it does not exist"),
        (lambda p: Library(draw(p / "x.png", 1)), "it is a file"),
        (lambda p: Library(p, p / "inside"), "must not lie inside .*--index"),
    ],
)
def test_bad_folders(make: Callable[[Path], Library], message: str, tmp_path: Path) -> None:
    with pytest.raises(IschError, match=message):
        make(tmp_path)


def test_an_index_belongs_to_one_folder(library: Library, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match="holds the index of"):
        Library(tmp_path / "other", library.home)


def test_a_catalog_of_the_first_version_is_upgraded(library: Library) -> None:
    with closing(sqlite3.connect(library.catalog.path)) as connection:
        connection.executescript(
            "DROP INDEX items_by_path; DROP TABLE looks; ALTER TABLE items DROP COLUMN traits; "
            "ALTER TABLE items DROP COLUMN quality; PRAGMA user_version = 1"
        )
    again = Library(library.folder, library.home)
    assert str(again.update()) == "6 changed"  # what an older version did not keep is found by looking again
    assert str(again.update()) == "6 unchanged"
    with closing(sqlite3.connect(library.catalog.path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (catalog.VERSION,)


SCRIPT = """
import sys
from isch.photos.library import Library
from isch.photos import updating as module
module.BATCH_SECONDS = 0.0
print("go", flush=True)
Library(sys.argv[1], sys.argv[2]).update()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_updates_go_on(tmp_path: Path, how: signal.Signals) -> None:
    for i in range(60):
        draw(tmp_path / "p" / f"{i}.png", i)
    for delay in (0.6, 1.2, 1.8):
        with subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(tmp_path / "p"), str(tmp_path / "home")],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(delay)
            process.send_signal(how)
    library = Library(tmp_path / "p", tmp_path / "home")
    library.update()
    assert (len(library), len(library.index or [])) == (60, 60)
    assert (library.index.verify() if library.index else None) == []
    assert library.search(tmp_path / "p" / "33.png", k=1)[0].item.name == "33.png"


STEPS = """
import os, signal, sys
from isch.photos import homes, library, updating
from isch.photos.catalog import Catalog
from isch.search.index import Index
updating.LEARN_ROWS = 8
owner, name, when = eval(sys.argv[3])
step = getattr(owner, name)
def stopped(*given, **options):
    if when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    step(*given, **options)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(owner, name, stopped)
library.Library(sys.argv[1], sys.argv[2]).update()
"""


def test_killed_between_any_two_steps_nothing_is_lost(tmp_path: Path) -> None:
    """The index, then the catalog: an update is stopped at each step, and the folder changes in between."""
    steps = [("Index", "upsert"), ("Catalog", "add"), ("updating.Update", "_install"), ("Index", "delete")]
    steps += [("Catalog", "remove"), ("homes", "set_aside")]
    for number, (owner, name) in enumerate(steps):
        for i in range(4):
            draw(tmp_path / "p" / f"{number} {i}.png", 10 * number + i)
        if name in ("delete", "remove"):
            (tmp_path / "p" / f"{number - 1} 0.png").unlink()
        if name == "set_aside":
            (tmp_path / "home" / "catalog.sqlite").write_bytes(b"damaged")
            for beside in ("-wal", "-shm"):
                (tmp_path / "home" / f"catalog.sqlite{beside}").unlink(missing_ok=True)
        for when in ("before", "after") if number == 0 else ("after",):
            command = [sys.executable, "-c", STEPS, str(tmp_path / "p"), str(tmp_path / "home")]
            done = subprocess.run([*command, f"({owner}, {name!r}, {when!r})"], stderr=subprocess.DEVNULL)
            assert done.returncode in (-signal.SIGKILL, 0)  # 0: there was nothing left to do
        with Decisions(tmp_path / "home" / "decisions.sqlite") as decisions:
            decisions.keep_all([f"{number:064x}", "f" * 64])
    library = Library(tmp_path / "p", tmp_path / "home")
    library.update()
    assert {item.path for item in library.catalog.page(Filter(), 0, 100)} == set(map(str, library.folder.iterdir()))
    assert {int(key) for key in library.index or []} == library.catalog.ids()
    assert library.search(tmp_path / "p" / "2 1.png", k=1)[0].item.name == "2 1.png"
    with Decisions(library.data / "decisions.sqlite") as decisions:
        assert len(decisions.all()) == len(steps)


def test_comparing_reads_names_and_times_only(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = compare(library.folder, library.catalog)
    assert (bool(changes), changes.unchanged) == (False, 6)


def test_a_folder_that_vanishes_while_open(library: Library, folder: Path) -> None:
    shutil.rmtree(folder)
    with pytest.raises(IschError):
        library.update()
    assert len(library) == 6
