"""One writer at a time: an advisory lock on a file that says who holds it. The kernel frees it when a process ends."""

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from isch.errors import FileError, LockedError

POLL_SECONDS = 0.02


@contextmanager
def locked(path: Path, wait: float) -> Iterator[None]:
    """Hold the lock at ``path``; after ``wait`` seconds of somebody else holding it, say who."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise FileError(f"{path.parent}: the index cannot be written ({error.strerror})") from error
    try:
        _acquire(handle, path, time.monotonic() + wait)
        _sign(handle)
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _acquire(handle: int, path: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise LockedError(f"{path.parent}: {_holder(handle)} is writing to this index") from None
        time.sleep(POLL_SECONDS)


def _sign(handle: int) -> None:
    """Leave our name; on a full disk the lock works without it."""
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)


def _holder(handle: int) -> str:
    try:
        holder = json.loads(os.pread(handle, 1024, 0))
        return f"process {holder['pid']} on {holder['host']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
