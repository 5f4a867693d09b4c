"""The home of a photo library, and folders of pictures: what is damaged or foreign is made again, or refused."""

import os
import shutil
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

from attacks import gallery
from attacks.target import Target
from isch.errors import IschError
from isch.photos import homes
from isch.photos.catalog import Filter
from isch.photos.decisions import Decisions
from isch.photos.library import Library
from isch.search.index import Index

N = 3
HASHES = ("a" * 64, "b" * 64)


def draw(folder: Path) -> Path:
    """A few small pictures; the name of one is not UTF-8, where the system allows that."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(N):
        blocks = np.random.default_rng(i).integers(0, 256, (4, 5, 3), np.uint8)
        content = gallery.encoded(np.kron(blocks, np.ones((12, 12, 1), np.uint8)), "png")
        name = f"{i}.png".encode() if i else b"caf\xe9.png"
        try:
            Path(os.fsdecode(os.path.join(os.fsencode(folder), name))).write_bytes(content)
        except OSError:
            (folder / f"{i}.png").write_bytes(content)
    return folder


def make_home(folder: Path) -> Path:
    """A home with decisions; beside it, at a place that does not change, its pictures and another index."""
    place = folder.parent / "place"
    library = Library(draw(place / "pictures"), place / "home")
    library.update()
    with Decisions(library.data / "decisions.sqlite") as decisions:
        decisions.keep_all(HASHES)
    index = library.index
    assert index is not None
    shutil.copytree(index.path, place / "victim.isch")
    library.close()
    return Path(shutil.copytree(place / "home", folder / "home", symlinks=True))


def attempt_home(path: Path) -> Any:
    """Look at the page, bring the library up to date, look again: as a server does, and as the next command does."""
    place = path.parents[1] / "place"
    shutil.rmtree(place / "home", ignore_errors=True)
    path.rename(place / "home")
    library = Library(place / "pictures", place / "home")
    for _ in range(2):
        with suppress(IschError):
            look(library)
        library.update()
    with Decisions(library.data / "decisions.sqlite") as decisions:
        kept = len(decisions.all())
    return {"page": look(library), "decisions": kept, "victim": len(Index.open(place / "victim.isch"))}


def look(library: Library) -> Any:
    """What the page reads."""
    items = library.catalog.page(Filter(), 0, 100)
    library.catalog.labels([item.id for item in items])
    library.catalog.kinds()
    library.catalog.failures()
    for column in ("folder", "camera", "year"):
        library.catalog.values(column)
    for item in items:
        library.similar(item.id, 2)
    found = library.search(library.folder / "1.png", 1)
    return sorted(item.name for item in items), [hit.item.name for hit in found]


CHANGES = {
    "another-index": "UPDATE meta SET value = '../victim.isch' WHERE name = 'index'",
    "index-elsewhere": "UPDATE meta SET value = '/etc' WHERE name = 'index'",
    "index-bytes": "UPDATE meta SET value = x'2e2e' WHERE name = 'index'",
    "last-id": "UPDATE meta SET value = 9223372036854775807 WHERE name = 'last_id'",
    "learned-from": "UPDATE meta SET value = 'many' WHERE name = 'learned_from'",
    "owner": "UPDATE meta SET value = 5 WHERE name = 'folder'",
    "mounts": "UPDATE meta SET value = 5 WHERE name = 'mounts'",
    "path": "UPDATE items SET path = CAST('/etc/passwd.png' AS BLOB) WHERE id = 1",
    "path-above": "UPDATE items SET path = CAST(path || '/../../x.png' AS BLOB) WHERE id = 1",
    "path-text": "UPDATE items SET path = 'x' WHERE id = 1",
    "digest": "UPDATE items SET digest = '../../../executed' WHERE id = 1",
    "date": "UPDATE items SET taken = '2019-99-99' WHERE id = 1",
    "width": "UPDATE items SET width = 'wide'",
    "fingerprint": "UPDATE items SET fingerprint = 5",
    "id": "UPDATE items SET id = 9223372036854775807 WHERE id = 1",
    "kind": "UPDATE labels SET kind = kind + 1000",
    "reason": "INSERT INTO failures VALUES (x'2f78', 1, 1, x'00')",
    "version": "PRAGMA user_version = 99",
    "mark": "PRAGMA application_id = 7",
    "view": "ALTER TABLE items RENAME TO others; CREATE VIEW items AS SELECT * FROM others",
    "trigger": "CREATE TRIGGER t AFTER INSERT ON items BEGIN DELETE FROM items; END",
}


def crafted_homes(folder: Path) -> Iterator[Path]:
    """Homes of a stranger: values that name what is elsewhere, and what is no file."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(folder.parent / "good" / "home", folder / name, symlinks=True))

    for name, sql in CHANGES.items():
        home = copy(name)
        with closing(sqlite3.connect(home / homes.CATALOG)) as connection:
            connection.executescript(sql)
        yield home
    for suffix in ("", "-journal", "-wal", "-shm"):
        home = copy(f"pipe{suffix}")
        (home / f"{homes.CATALOG}{suffix}").unlink(missing_ok=True)
        os.mkfifo(home / f"{homes.CATALOG}{suffix}")
        yield home
    for name in ("decisions.sqlite", homes.SUSPECT, "update.lock", "update.lock.holder"):
        home = copy(f"link-{name}")
        (home / name).unlink(missing_ok=True)
        (home / name).symlink_to("/dev/zero")
        yield home
    home = copy("linked-index")
    (index,) = home.glob("codes-*.isch")
    shutil.rmtree(index)
    index.symlink_to(folder.parent / "place" / "victim.isch")
    yield home
    home = copy("another-index-inside")
    (index,) = home.glob("codes-*.isch")
    shutil.rmtree(index)
    Index.create(index, n_bits=8).close()
    yield home


def make_folder(folder: Path) -> Path:
    """Pictures."""
    return draw(folder / "pictures")


def attempt_folder(path: Path) -> Any:
    """The names of the pictures that are found and used."""
    home = path.parents[1] / "home"
    shutil.rmtree(home, ignore_errors=True)
    library = Library(path, home)
    library.update()
    return sorted(item.name for item in library.catalog.page(Filter(), 0, 1000))


def crafted_folders(folder: Path) -> Iterator[Path]:
    """Beside the pictures: what is too large, what never ends, what cannot be read, and what leads elsewhere."""

    def sparse(top: Path) -> None:
        for name, start in (("huge.jpg", b"\xff\xd8\xff\xe0"), ("zeros.png", b""), ("raw.dng", b"II*\0")):
            with (top / name).open("wb") as file:
                file.write(start)
                file.truncate(40 << 30)

    def loops(top: Path) -> None:
        (top / "loop").symlink_to(top)
        (top / "loop.png").symlink_to("loop.png")
        (top / "away").symlink_to("/")
        (top / "dangling.png").symlink_to("nowhere")

    def sockets(top: Path) -> None:
        here = os.getcwd()
        os.chdir(top)  # the path of a socket is short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("s.png")
        os.chdir(here)

    def deep(top: Path) -> None:
        for _ in range(200):
            top /= "d"
            top.mkdir()

    makers: dict[str, Callable[[Path], Any]] = {
        "sparse": sparse,
        "pipe": lambda top: os.mkfifo(top / "pipe.png"),
        "device": lambda top: [(top / "zero.png").symlink_to("/dev/zero"), (top / "tty").symlink_to("/dev/tty")],
        "socket": sockets,
        "loops": loops,
        "unreadable": lambda top: (top / "closed").mkdir(mode=0),
        "deep": deep,
        "folder": lambda top: (top / "folder.png").mkdir(),
        "cache": lambda top: [draw(top / "@eaDir"), draw(top / ".thumbnails"), draw(top / "$RECYCLE.BIN")],
        "tag": lambda top: (top / "CACHEDIR.TAG").symlink_to("/dev/zero"),
    }
    for name, make in makers.items():
        make(draw(folder / name))
        yield folder / name


TARGETS = [
    Target("photos home", make_home, attempt_home, sealed=False, crafted=crafted_homes, mended=True),
    Target("photos folder", make_folder, attempt_folder, sealed=False, crafted=crafted_folders, mended=True),
]
