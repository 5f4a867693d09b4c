"""Segments are compared with their checksums when they are first read, so that damage becomes an error.

A few megabytes are compared at once, before they are used. More would keep a search waiting, so they are compared in
the background: by one thread, one file after another, each file once in a process.
"""

import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Sequence

from isch import compute
from isch.errors import FileError, IschError, unknown
from isch.forks import Lock
from isch.search.sealed import SegmentFile

FIRST_USE = "first use"
BEFORE = "before"
NEVER = "never"
CHOICES = (FIRST_USE, BEFORE, NEVER)
AT_ONCE_BYTES = 4 << 20  # of bodies: compared in some milliseconds
PATIENCE = 0.02  # how long a search waits for the background, as a share of the time that it took itself
POLL_SECONDS = 0.002


def checked(verify: str) -> str:
    """One of the choices."""
    if verify not in CHOICES:
        raise unknown("verify", verify, CHOICES)
    return verify


def compare(files: Sequence[SegmentFile], verify: str) -> None:
    """Compare those bodies with their checksums that were not compared yet, now or in the background.

    Raises
    ------
    FormatError
        A file is damaged.
    """
    new = [file for file in files if not (file.proved or file.damage)]
    if new and (verify == BEFORE or sum(file.header.body_bytes for file in new) <= AT_ONCE_BYTES):
        list(compute.parallel(prove, new, blas=False))
    elif new:
        _background.add(new)
    refuse_damaged(files)


def wait(files: Sequence[SegmentFile], seconds: float) -> None:
    """Give the background some time, then refuse files that it found damaged."""
    if files:
        _background.add(())  # a fork may have lost its thread
    end = time.perf_counter() + seconds
    while any(not (file.proved or file.damage) for file in files) and time.perf_counter() < end:
        time.sleep(min(POLL_SECONDS, seconds))
    refuse_damaged(files)


def refuse_damaged(files: Iterable[SegmentFile]) -> None:
    """Refuse files that were found damaged."""
    for file in files:
        if file.damage is not None:
            raise type(file.damage)(str(file.damage))


def prove(file: SegmentFile) -> None:
    """Compare a body with its checksum and note the result."""
    try:
        file.check()
    except IschError as error:
        file.damage = FileError(str(error)) if not isinstance(error, FileError) else error
    except OSError as error:
        file.damage = FileError(f"{file.path}: cannot be read ({error.strerror or error})")


class _Background:
    """One thread that compares files, as long as there are any that somebody still has open."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: deque[weakref.ref[SegmentFile]] = deque()
        self._thread: threading.Thread | None = None

    def add(self, files: Iterable[SegmentFile]) -> None:
        """Compare these files too."""
        with self._lock:
            for file in files:
                if not file.queued:
                    file.queued = True
                    self._waiting.append(weakref.ref(file))
            if self._waiting and (self._thread is None or not self._thread.is_alive()):  # a fork leaves no thread
                self._thread = threading.Thread(target=self._work, name="isch-checksums", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while (file := self._next()) is not None:
            prove(file)

    def _next(self) -> SegmentFile | None:
        """The first file that is still open and not compared; it stays in the queue, so that no fork loses it."""
        with self._lock:
            while self._waiting:
                file = self._waiting[0]()
                if file is not None and not (file.proved or file.damage):
                    return file
                self._waiting.popleft()
            self._thread = None
            return None


_background = _Background()
