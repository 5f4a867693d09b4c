"""Where the libraries of this user are kept, and which one was used last.

What can be made again from the pictures lies in the user's cache: catalog, codes, thumbnails. What the user did lies in
the user's data: decisions and the log of the trash. Both folders have the same name. A home that the user chose holds
everything.
"""

import hashlib
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from platformdirs import user_cache_path, user_data_path

from isch.errors import FileError, InputError
from isch.files import content, printable, put, replacing
from isch.locks import locked

WORK = ("decisions.sqlite", "trash.jsonl")  # what the user did; earlier versions kept it in the cache
MOVING_SECONDS = 30.0


def home_of(folder: Path) -> Path:
    """The folder in the user's cache that belongs to a folder of pictures."""
    return root() / _name(folder)


def data_of(folder: Path) -> Path:
    """The folder in the user's data that belongs to a folder of pictures."""
    return Path(user_data_path("isch")) / "photos" / _name(folder)


def root() -> Path:
    """Where all libraries are kept."""
    return Path(user_cache_path("isch")) / "photos"


def make(place: Path) -> None:
    """Make a folder in which a library keeps something."""
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{printable(place)}: the index cannot be kept here ({error.strerror})") from error


def bring_over(home: Path, data: Path) -> None:
    """Move what the user did, once, from the cache, where earlier versions kept it, to the user's data."""
    if home == data or not any((home / name).is_file() for name in WORK):
        return
    with locked(home / "moving.lock", MOVING_SECONDS, "is moving decisions"):
        for name in WORK:
            if (home / name).is_file() and not os.path.lexists(data / name):
                if name == WORK[0]:
                    _settle(home / name)
                put(home / name, data / name)
                (home / name).unlink()


def _settle(path: Path) -> None:
    """Let SQLite finish what an interrupted change left beside its file; a damaged file is moved as it is."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()


def remember(folder: Path) -> None:
    """Note the folder of pictures used last."""
    root().mkdir(parents=True, exist_ok=True)
    with replacing(root() / "last") as temporary:
        temporary.write_bytes(os.fsencode(folder))


def last() -> Path:
    """The folder of pictures used last."""
    try:
        folder = Path(os.fsdecode(content(root() / "last", 1 << 20, "the path of a folder")))
    except OSError:
        raise InputError("no folder of pictures was used yet: give one with --folder") from None
    if not folder.is_dir():
        raise FileError(f"{printable(folder)}: the folder of pictures used last is gone: give another with --folder")
    return folder


def _name(folder: Path) -> str:
    mark = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    return f"{folder.name or 'pictures'}-{mark}"
