"""One holder at a time: an advisory lock on a file, with a note beside it that says who holds it.

The lock ends with its process, even if that is killed. ``filelock`` does this on every system.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from isch import forks
from isch.errors import FileError, LockedError

POLL_SECONDS = 0.02


@contextmanager
def locked(path: Path, wait: float, doing: str) -> Iterator[None]:
    """Hold the lock at ``path``.

    Parameters
    ----------
    path : Path
        The file to lock; it is made where it does not exist. ``path`` + ``.holder`` names the last holder.
    wait : float
        Seconds to wait for another holder.
    doing : str
        What a holder does, for the error: "process 7 on host DOING".

    Raises
    ------
    LockedError
        Somebody else still holds the lock after ``wait`` seconds.
    FileError
        The file is a link, or cannot be written.
    """
    with forks.importing.entered():
        from filelock import FileLock, Timeout  # takes longer to import than a search takes

    lock = FileLock(path, timeout=max(wait, 0), poll_interval=POLL_SECONDS, thread_local=False)
    try:
        _refuse_link(path)
        lock.acquire()
    except Timeout:
        raise LockedError(f"{path.parent}: {_holder(path)} {doing}") from None
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path.parent}: cannot be written ({error.strerror or error})") from error
    try:
        _sign(path)
        yield
    finally:
        lock.release()


def note(path: Path) -> Path:
    """The file that names the holder of a lock."""
    return path.with_name(path.name + ".holder")


def _refuse_link(path: Path) -> None:
    for file in (path, note(path)):
        if file.is_symlink() or (file.exists() and not file.is_file()):
            raise FileError(f"{file}: expected a regular file to lock; got a link, a folder or a device")


def _sign(path: Path) -> None:
    """Write our name; on a full disk the lock works without it."""
    with suppress(OSError):
        note(path).unlink(missing_ok=True)
        with note(path).open("x") as file:
            json.dump({"pid": os.getpid(), "host": socket.gethostname()}, file)


def _holder(path: Path) -> str:
    try:
        with note(path).open() as file:
            holder = json.loads(file.read(1024))
        return f"process {int(holder['pid'])} on {str(holder['host'])[:100]}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"
