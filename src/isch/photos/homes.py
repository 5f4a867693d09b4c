"""Where the libraries of this user are kept, and which one was used last.

What can be made again from the pictures lies in the user's cache: catalog, codes, thumbnails. What the user did lies in
the user's data: decisions and the log of the trash. Both folders have the same name. A home that the user chose holds
everything.
"""

import hashlib
import os
import re
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from platformdirs import user_cache_path, user_data_path

from isch.errors import FileError, FormatError, InputError
from isch.files import content, plain, printable, put, replacing
from isch.locks import locked

WORK = ("decisions.sqlite", "trash.jsonl")  # what the user did; earlier versions kept it in the cache
MOVING_SECONDS = 30.0
CATALOG = "catalog.sqlite"
SUSPECT = "damaged"  # a file that says what a reader found damaged, so that the next update looks at it
_CODES = re.compile(r"codes-[0-9a-f]{8}\.isch")
_BEGUN = re.compile(r"\.codes-[0-9a-f]{8}\.isch\.([0-9a-f]{8}|lock|lock\.holder)")  # by a process that was killed


def home_of(folder: Path) -> Path:
    """The folder in the user's cache that belongs to a folder of pictures."""
    return root() / _name(folder)


def data_of(folder: Path) -> Path:
    """The folder in the user's data that belongs to a folder of pictures."""
    return Path(user_data_path("isch")) / "photos" / _name(folder)


def root() -> Path:
    """Where all libraries are kept."""
    return Path(user_cache_path("isch")) / "photos"


def roots() -> list[Path]:
    """Where libraries are kept, in the cache and in the data."""
    return [root(), Path(user_data_path("isch")) / "photos"]


def make(place: Path) -> None:
    """Make a folder in which a library keeps something."""
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{printable(place)}: the index cannot be kept here ({error.strerror}); choose another folder with --index"
        ) from error


def refuse_links(data: Path) -> None:
    """What the user did is added to regular files only: a link may lead to any file of the user."""
    for name in WORK:
        with suppress(FileNotFoundError):
            plain(data / name)


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


def is_codes(name: object) -> bool:
    """Whether this is a name that updates give to an index."""
    return isinstance(name, str) and _CODES.fullmatch(name) is not None


def is_there(path: Path) -> bool:
    """Whether a folder is there that is no link."""
    return path.is_dir() and not path.is_symlink()


def inside(home: Path, name: str) -> Path:
    """An index in a home."""
    if not is_there(home / name):
        raise FormatError(f"{printable(home / name)}: the index is missing")
    return home / name


def remove_stale(home: Path, current: str | None) -> None:
    """Remove every index but the current one, and those that were only begun; all else in a home stays."""
    for path in home.iterdir():
        if path.name != current and (is_codes(path.name) or _BEGUN.fullmatch(path.name)):
            if is_there(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def files(path: Path) -> list[Path]:
    """A database and what SQLite keeps beside it; the database comes last."""
    return [path.with_name(path.name + suffix) for suffix in ("-journal", "-wal", "-shm", "")]


def set_aside(home: Path, name: str) -> None:
    """Rename a damaged catalog or index, in place of what was put aside before; nothing else is touched."""
    label = "codes.isch" if is_codes(name) else name
    try:
        for path in files(home / name):
            target = home / path.name.replace(name, f"damaged-{label}")
            if is_there(target):
                shutil.rmtree(target)
            else:
                target.unlink(missing_ok=True)
            if os.path.lexists(path):
                os.rename(path, target)
    except OSError as error:
        raise FileError(f"{printable(home / name)}: cannot be put aside ({error.strerror})") from error


def suspect(home: Path, name: str) -> None:
    """Note that a catalog or index is damaged; where that cannot be written, the next reader will find it again."""
    with suppress(OSError):
        (home / SUSPECT).unlink(missing_ok=True)  # a link is not followed
        with (home / SUSPECT).open("x", encoding="utf-8") as file:
            file.write(_identity(home, name))


def suspected(home: Path) -> str | None:
    """The catalog or index that a reader found damaged, if it is still the same one."""
    try:
        name, _, _ = (note := content(plain(home / SUSPECT), 1 << 20, "a note").decode("utf-8")).partition(" ")
    except (OSError, ValueError):
        return None
    known = name == CATALOG or is_codes(name)
    return name if known and note == _identity(home, name) else None


def trust(home: Path) -> None:
    """Nothing is suspected any more."""
    (home / SUSPECT).unlink(missing_ok=True)


def _identity(home: Path, name: str) -> str:
    with suppress(OSError):
        return f"{name} {os.lstat(home / name).st_ino}"
    return name


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
