"""Whatever is damaged or foreign in a library's home is made again from the pictures, and harms nothing beside it."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isch.encoder import Encoder
from isch.errors import FileError, FormatError, InputError
from isch.hashing import hasher
from isch.photos import describing, homes
from isch.photos.catalog import Filter
from isch.photos.database import Damaged
from isch.photos.decisions import Decisions, Verdict
from isch.photos.library import Library
from isch.search.index import Index
from isch.web.thumbnails import Thumbnails

from .test_library import draw

N = 3
A, B = ("a" * 64, "b" * 64)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pictures and a home with decisions."""
    top = tmp_path_factory.mktemp("made")
    for i in range(N):
        draw(top / "pictures" / f"{i}.png", i)
    library = Library(top / "pictures", top / "home")
    library.update()
    with Decisions(library.data / "decisions.sqlite") as decisions:
        decisions.keep_all([A, B])
    library.close()
    return top


@pytest.fixture
def home(made: Path) -> Path:
    """A fresh copy of the home."""
    shutil.rmtree(made / "home copy", ignore_errors=True)
    for old in made.glob("home copy*"):
        shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    return Path(shutil.copytree(made / "home", made / "home copy"))


def opened(home: Path) -> Library:
    return Library(home.parent / "pictures", home)


def answers(library: Library) -> None:
    """All pictures are there and found, and the decisions too."""
    library.update()
    assert sorted(item.name for item in library.catalog.page(Filter(), 0, 100)) == [f"{i}.png" for i in range(N)]
    assert library.search(library.folder / "1.png", k=1)[0].item.name == "1.png"
    with Decisions(library.data / "decisions.sqlite") as decisions:
        assert decisions.verdict(A, B) is Verdict.BOTH


def change(home: Path, sql: str, *values: Any) -> None:
    with closing(sqlite3.connect(home / "catalog.sqlite")) as connection:
        connection.execute(sql, values)
        connection.commit()


def codes(home: Path) -> Path:
    (found,) = home.glob("codes-*.isch")
    return found


WHOLE_CATALOGS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda home: (home / "catalog.sqlite").write_bytes(b""),
    "junk": lambda home: (home / "catalog.sqlite").write_bytes(b"junk" * 100),
    "half a database": lambda home: (home / "catalog.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 4096),
    "deleted": lambda home: (home / "catalog.sqlite").unlink(),
    "version 0": lambda home: change(home, "PRAGMA user_version = 0"),
    "version -1": lambda home: change(home, "PRAGMA user_version = -1"),
    "version 99": lambda home: change(home, "PRAGMA user_version = 99"),
    "another mark": lambda home: change(home, "PRAGMA application_id = 7"),
    "no table": lambda home: change(home, "DROP TABLE labels"),
    "another table": lambda home: change(home, "CREATE TABLE more (x)"),
    "a trigger": lambda home: change(
        home, "CREATE TRIGGER t AFTER INSERT ON items BEGIN DELETE FROM items WHERE id < new.id; END"
    ),
}


@pytest.mark.parametrize("name", WHOLE_CATALOGS)
def test_a_catalog_that_is_not_ours_is_put_aside_and_made_again(home: Path, name: str) -> None:
    WHOLE_CATALOGS[name](home)
    before = (home / "catalog.sqlite").read_bytes() if (home / "catalog.sqlite").exists() else b""
    library = opened(home)
    answers(library)
    assert len(list(home.glob("codes-*.isch"))) == 1
    if before:
        assert (home / "damaged-catalog.sqlite").read_bytes() == before
        (notice,) = library.notices
        assert notice.startswith(f"{home / 'catalog.sqlite'}: ")
        assert notice.endswith("it was put aside, and is made again from the pictures; decisions are kept")
        assert "\n" not in notice
    assert opened(home).notices == []
    assert str(library.update()) == f"{N} unchanged"


VALUES = {
    "the name of another index": ("UPDATE meta SET value = ? WHERE name = 'index'", "../victim.isch"),
    "a path": ("UPDATE meta SET value = ? WHERE name = 'index'", "/etc"),
    "no text": ("UPDATE meta SET value = ? WHERE name = 'index'", b"codes-00000000.isch"),
    "a number": ("UPDATE meta SET value = ? WHERE name = 'index'", 5),
    "a count": ("UPDATE meta SET value = ? WHERE name = 'learned_from'", "many"),
    "an owner": ("UPDATE meta SET value = ? WHERE name = 'folder'", 5),
    "a picture elsewhere": ("UPDATE items SET path = ? WHERE id = 1", b"/etc/passwd.png"),
    "a picture above": ("UPDATE items SET path = folder || ? WHERE id = 1", b"/../x.png"),
    "a path as text": ("UPDATE items SET path = ? WHERE id = 1", "text"),
    "a digest with a path": ("UPDATE items SET digest = ? WHERE id = 1", "../../../../tmp/x"),
    "a date": ("UPDATE items SET taken = ? WHERE id = 1", "2019-99-99"),
    "a width": ("UPDATE items SET width = ? WHERE id = 1", "wide"),
    "a name that is no text": ("UPDATE items SET camera = ? WHERE id = 1", b"\xff"),
    "a huge id": ("UPDATE items SET id = ? WHERE id = 1", 2**63 - 1),
    "a kind": ("UPDATE labels SET kind = 1000 + kind + ?", 0),
    "a reason": ("INSERT INTO failures VALUES (?, 1, 1, x'00')", b"/x"),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_foreign_value_is_refused_when_it_is_read_and_the_catalog_made_again(home: Path, name: str) -> None:
    victim = home.with_name("home copy's victim.isch")
    shutil.copytree(codes(home), victim)
    sql, value = VALUES[name]
    change(home, sql, value if not isinstance(value, str) else value.replace("victim.isch", victim.name))
    library = opened(home)
    page = read(library)
    answers(library)
    assert read(library) is not None or page is None
    assert len(Index.open(victim)) == N
    assert (home / "damaged-catalog.sqlite").exists()
    assert len([note for note in library.notices if "put aside" in note]) == 1


def test_a_number_that_leaves_none_for_new_pictures_is_refused(home: Path) -> None:
    change(home, "UPDATE meta SET value = ? WHERE name = 'last_id'", 2**63 - 1)
    library = opened(home)
    with pytest.raises(Damaged):
        library.catalog.next_id()
    answers(library)
    assert library.catalog.next_id() == N + 1


def read(library: Library) -> Any:
    """What the page reads, if it is sound."""
    try:
        items = library.catalog.page(Filter(), 0, 100)
        library.catalog.labels([item.id for item in items])
        library.catalog.kinds()
        library.catalog.failures()
        library.catalog.values("camera")
        return [library.similar(item.id, 2) for item in items]
    except (FormatError, InputError):
        return None


def test_the_catalog_of_another_program_is_refused_and_left_alone(home: Path) -> None:
    for path in home.glob("catalog.sqlite*"):
        path.unlink()
    change(home, "CREATE TABLE songs (x)")
    change(home, "PRAGMA application_id = 7")
    before = (home / "catalog.sqlite").read_bytes()
    with pytest.raises(InputError, match="not the catalog of a photo library; choose another folder"):
        opened(home)
    assert (home / "catalog.sqlite").read_bytes() == before


@pytest.mark.parametrize("suffix", ["", "-journal", "-wal", "-shm"])
@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_is_no_file_is_refused_and_nothing_hangs(home: Path, kind: str, suffix: str) -> None:
    path = home / f"catalog.sqlite{suffix}"
    path.unlink(missing_ok=True)
    outside = home.with_name("home copy outside")
    outside.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(outside / "file")
    else:
        path.mkdir()
    with pytest.raises(FileError, match="not a regular file"):
        opened(home)
    assert list(outside.iterdir()) == []


def another(home: Path, **options: Any) -> Path:
    """Another index under the name of ours."""
    path = codes(home)
    shutil.rmtree(path)
    rows = np.random.default_rng(0).standard_normal((4, options.pop("columns", 1280))).astype(np.float32)
    encoder = Encoder(hasher(options.pop("method", "lsh"), n_bits=256).fit(rows), options.pop("describer", None))
    Index.create(path, encoder, rows, **options).close()
    return path


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def linked(home: Path) -> None:
    path = codes(home)
    path.rename(home.with_name("home copy moved.isch"))
    path.symlink_to(home.with_name("home copy moved.isch"))


DAMAGED_CODES: dict[str, Callable[[Path], object]] = {
    "deleted": lambda home: shutil.rmtree(codes(home)),
    "empty": lambda home: (shutil.rmtree(codes(home)), (home / codes_name(home)).mkdir()),
    "a link": linked,
    "no catalog": lambda home: (codes(home) / "catalog.json").unlink(),
    "half a catalog": lambda home: cut(codes(home) / "catalog.json"),
    "no model": lambda home: (codes(home) / "model.safetensors").unlink(),
    "half a model": lambda home: cut(codes(home) / "model.safetensors"),
    "no segment": lambda home: next(codes(home).rglob("*.codes")).unlink(),
    "half a segment": lambda home: cut(next(codes(home).rglob("*.codes"))),
    "half the items": lambda home: cut(next(codes(home).rglob("*.items"))),
    "half the vectors": lambda home: cut(next(codes(home).rglob("*.features"))),
    "without vectors": lambda home: another(home, describer=describing.network()),
    "without a describer": lambda home: another(home, keep_features="float16"),
    "of other columns": lambda home: another(home, keep_features="float16", columns=64),
    "of another method": lambda home: another(
        home, keep_features="float16", method="sklsh", describer=describing.network()
    ),
    "with other keys": lambda home: another(
        home, keep_features="float16", keys=["a", "b", "c", "d"], describer=describing.network()
    ),
}


def codes_name(home: Path) -> str:
    with closing(sqlite3.connect(home / "catalog.sqlite")) as connection:
        return str(connection.execute("SELECT value FROM meta WHERE name = 'index'").fetchone()[0])


@pytest.mark.parametrize("name", DAMAGED_CODES)
def test_an_index_that_is_damaged_is_put_aside_and_made_again(home: Path, name: str) -> None:
    DAMAGED_CODES[name](home)
    library = opened(home)
    ids = library.catalog.ids()
    assert read(library) is None  # the page finds it
    answers(library)
    assert library.catalog.ids() == ids
    (notice,) = library.notices
    assert notice.endswith("it was put aside, and is made again from the pictures; decisions are kept")
    assert "\n" not in notice
    assert len([path for path in home.glob("codes-*.isch") if path.is_dir() and not path.is_symlink()]) == 1
    assert str(library.update()) == f"{N} unchanged"


def test_what_a_reader_finds_is_mended_by_the_next_process(home: Path) -> None:
    segment = next(codes(home).rglob("*.features"))
    content = bytearray(segment.read_bytes())
    content[-2000:] = bytes(2000)
    segment.write_bytes(content)
    homes.suspect(home, codes(home).name)  # as a search does that meets a wrong checksum
    library = opened(home)
    answers(library)
    assert len(library.notices) == 1
    homes.suspect(home, codes(home).name)  # this one is sound
    again = opened(home)
    assert str(again.update()) == f"{N} unchanged"
    assert again.notices == []


def test_a_note_about_an_earlier_file_is_forgotten(home: Path) -> None:
    (home / homes.SUSPECT).write_text("catalog.sqlite 12345")
    library = opened(home)
    assert str(library.update()) == f"{N} unchanged"
    assert not (home / homes.SUSPECT).exists()


def test_a_cache_that_is_deleted_while_the_page_is_open_comes_back(home: Path) -> None:
    library = opened(home)
    assert len(library) == N
    for path in home.iterdir():
        if path.name != "decisions.sqlite":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    answers(library)


def test_a_catalog_that_another_process_replaces_is_opened_anew(home: Path) -> None:
    library = opened(home)
    assert len(library) == N
    other = opened(home)
    other._set_aside(Damaged("the catalog is damaged"))
    assert len(library) == 0
    answers(other)
    assert len(library) == N


def test_nothing_is_written_through_a_link(home: Path) -> None:
    """A home of a stranger could otherwise have any file of the user overwritten."""
    precious = home.with_name("home copy precious.txt")
    precious.write_text("precious")
    (home / homes.SUSPECT).symlink_to(precious)
    homes.suspect(home, homes.CATALOG)
    assert homes.suspected(home) == homes.CATALOG
    homes.trust(home)
    for name in homes.WORK:
        (home / name).unlink(missing_ok=True)
        (home / name).symlink_to(precious)
        with pytest.raises(FileError, match="is a link, not a regular file"):
            opened(home)
        (home / name).unlink()
    small = Thumbnails(home / "thumbnails")
    picture, digest = str(home.parent / "pictures" / "1.png"), "a" * 64
    content = small.get(picture, digest, 256)
    (kept,) = (home / "thumbnails").rglob("*.jpg")
    kept.unlink()
    kept.symlink_to(precious)
    assert small.get(picture, digest, 256) == content
    assert not kept.is_symlink()
    shutil.rmtree(home / "thumbnails")
    elsewhere = home.with_name("home copy elsewhere")
    elsewhere.mkdir()
    (home / "thumbnails").symlink_to(elsewhere)
    assert small.get(picture, digest, 256) == content
    assert list(elsewhere.iterdir()) == []
    assert precious.read_text() == "precious"


def test_other_files_in_a_home_that_was_chosen_stay(home: Path) -> None:
    mine = home / "codes-2024.isch"
    shutil.copytree(codes(home), mine)
    (home / "notes.txt").write_text("mine")
    change(home, "PRAGMA user_version = 99")
    answers(opened(home))
    assert len(Index.open(mine)) == N
    assert (home / "notes.txt").read_text() == "mine"
