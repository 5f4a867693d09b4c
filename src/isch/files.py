"""Reading regular files only, and writing files whole or not at all."""

import errno
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from isch.errors import FileError, FormatError, NotDurable

PATIENCE = 2.0  # seconds to wait for a file that somebody has open, on systems that then refuse to replace it

NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP)  # from file systems that keep the entries of folders by themselves

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def regular(path: str | os.PathLike[str]) -> Path:
    """The path, if a regular file is there; nothing is opened, so nothing can hang.

    Every reader of a file that a user names calls this first. Links are followed.

    Raises
    ------
    FileError
        There is nothing, or a folder, pipe, socket or device.
    """
    _check(path)
    return Path(path)


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """The regular file at a path, open for reading bytes; errors of the system become a ``FileError``.

    The open file is checked once more, so that a pipe which takes the file's place in between is refused too.
    """
    _check(path)
    try:
        with open(path, "rb", opener=open_at_once) as file:
            check_regular(path, os.fstat(file.fileno()).st_mode)
            yield file
    except OSError as error:
        raise _unreadable(path, error) from error


def content(path: str | os.PathLike[str], largest: int, kind: str) -> bytes:
    """The bytes of a regular file that should be small.

    Parameters
    ----------
    path : path
        The file.
    largest : int
        How many bytes it may have, a multiple of 1 MiB.
    kind : str
        What it should be, for the error: "a table of results".
    """
    with reading(path) as file:
        raw = file.read(largest + 1)
    if len(raw) > largest:
        raise FormatError(f"{printable(path)}: more than {largest >> 20} MiB; expected {kind}")
    return raw


def _check(path: str | os.PathLike[str]) -> None:
    try:
        check_regular(path, os.stat(path).st_mode)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def check_regular(path: str | os.PathLike[str], mode: int) -> None:
    """Refuse what is not a regular file by its ``st_mode``."""
    if not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "something else")
        raise FileError(f"{printable(path)}: is {kind}, not a regular file")


def printable(path: str | os.PathLike[str]) -> str:
    """A path as valid Unicode; bytes that are not UTF-8 become ``\\xNN``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def open_at_once(path: str, flags: int) -> int:
    """Open without waiting for the other end of a pipe, where the system knows how."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _unreadable(path: str | os.PathLike[str], error: OSError | ValueError) -> FileError:
    if isinstance(error, FileError):
        return error
    return FileError(f"{printable(path)}: {getattr(error, 'strerror', None) or error}")


@contextmanager
def replacing(path: str | os.PathLike[str], durable: bool = True) -> Iterator[Path]:
    """A temporary path beside ``path``; it is renamed to ``path`` if the block succeeds, and deleted if not.

    A link keeps its target, and a file that is replaced keeps its permissions. ``durable=False`` is for files that can
    be made again: they are not forced to disk, and may be empty after a power failure.

    Raises
    ------
    NotDurable
        The file has its name, but the folder could not be forced to disk.
    FileError
        Nothing was written.
    """
    target = Path(path).resolve()
    check_writable(target)
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    temporary = target.with_name(f".{target.stem}.{token_hex(4)}{target.suffix}")
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        if durable:
            sync(temporary)
        if mode is not None:
            temporary.chmod(mode)
        _rename(temporary, target)
    except OSError as error:
        raise (
            error if isinstance(error, FileError) else FileError(f"cannot write {path}: {error.strerror or error}")
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        sync_name(target)


def put(whole: Path, path: str | os.PathLike[str]) -> None:
    """Give a file that is whole another name, as ``replacing`` does: by a link, or a copy where there can be none."""
    with replacing(path) as temporary:
        temporary.unlink()
        try:
            os.link(whole, temporary)
        except OSError:
            shutil.copyfile(whole, temporary)


def check_writable(target: Path) -> None:
    """Refuse a target that cannot be written, before the work begins."""
    if not target.parent.is_dir():
        raise FileError(f"cannot write {target}: the folder {target.parent} does not exist")
    if target.exists() and not target.is_file():
        raise FileError(
            f"cannot write {target}: it is a {'folder' if target.is_dir() else 'device or pipe'}, not a file"
        )
    if not os.access(target.parent, os.W_OK):
        raise FileError(f"cannot write {target}: the folder {target.parent} is not writable")


def sync_name(path: Path) -> None:
    """Force the name that a file or folder has just got to disk.

    Raises
    ------
    NotDurable
        The file has its name, but may lose it.
    """
    try:
        sync(path.parent)
    except OSError as error:
        raise NotDurable(
            f"{printable(path)}: the change is stored, but may not survive a power failure; "
            f"its folder could not be forced to disk ({error.strerror or error})"
        ) from error


def sync(path: Path) -> None:
    """Force a file, or the entries of a folder, to disk. Windows does not open folders and needs no help there."""
    folder = path.is_dir()
    if folder and not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)  # Windows syncs only what is open for writing
    try:
        os.fsync(handle)
    except OSError as error:
        if not (folder and error.errno in NO_FOLDER_SYNC):
            raise
    finally:
        os.close(handle)


def _rename(temporary: Path, target: Path) -> None:
    """Replace the target. Windows refuses while another process has it open, so this tries again for a moment."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return os.replace(temporary, target)
        except PermissionError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.02)


def plain(path: Path) -> Path:
    """The path, if it is a regular file and not a link, as all files are in folders that we write ourselves.

    Raises
    ------
    FileError
        There is a link, folder, pipe, socket or device.
    FileNotFoundError
        There is nothing.
    """
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        raise FileError(f"{printable(path)}: is a link, not a regular file")
    check_regular(path, mode)
    return path
