"""Files that really lie below a folder: no link on the way there, and the same file until it is moved.

    with held(top, path) as file:          # its folder and itself stay open
        file.content()                     # what it holds, read through the open file
        file.check()                       # raises if path no longer leads to this file

Systems whose calls cannot start from an open folder (Windows) compare the real path with the one expected instead.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FROM_FOLDER = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")
OUTSIDE = "it is reached through a link, so it may lie outside the library"
_BLOCK = 1 << 20


class Refused(Exception):
    """Why a file is not moved; the text follows its name and a colon."""


@dataclass(frozen=True)
class Held:
    """An open file below a folder."""

    path: str
    folder: int | None  # the open folder; None where the system knows no such thing
    file: int
    info: os.stat_result

    @property
    def inode(self) -> tuple[int, int]:
        """What identifies the file on this computer, whatever its name."""
        return self.info.st_dev, self.info.st_ino

    def content(self) -> str:
        """SHA-256 of its bytes, in hexadecimal."""
        digest = hashlib.sha256()
        os.lseek(self.file, 0, os.SEEK_SET)
        while block := os.read(self.file, _BLOCK):
            digest.update(block)
        return digest.hexdigest()

    def check(self) -> None:
        """Make sure, just before it is moved, that the path leads here and that nobody has written to the file.

        Raises
        ------
        Refused
            A folder became a link, another file has the name, or the file has changed.
        """
        try:
            if self.folder is not None:
                there = os.stat(os.path.dirname(self.path))
                here = os.fstat(self.folder)
                if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
                    raise Refused(OUTSIDE)
                now = os.stat(os.path.basename(self.path), dir_fd=self.folder, follow_symlinks=False)
            else:
                now = os.lstat(self.path)
        except OSError as error:
            raise Refused(f"it cannot be read ({error.strerror})") from None
        if (now.st_dev, now.st_ino) != self.inode or _state(now) != _state(self.info):
            raise Refused("it has changed since it was listed")

    def claim(self, alone: bool) -> None:
        """Hold off other processes of this computer that would move the file, whatever library they work on."""
        if fcntl is None:
            return
        try:
            fcntl.flock(self.file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused("another process is about to move it, or keeps it for another one") from None
        except OSError:
            return  # a file system without locks


@contextmanager
def held(top: str, path: str) -> Iterator[Held]:
    """The regular file at a path below ``top``, open.

    Raises
    ------
    Refused
        It is not there, cannot be read, is no regular file, or does not lie below the folder.
    """
    folder = entered(top, os.path.dirname(path))
    file = None
    try:
        file = _opened(folder, path)
        info = os.fstat(file)
        if not stat.S_ISREG(info.st_mode):
            raise Refused("it is not a regular file")
        yield Held(path, folder, file, info)
    finally:
        for handle in (file, folder):
            if handle is not None:
                os.close(handle)


def _opened(folder: int | None, path: str) -> int:
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe must not make us wait
    try:
        if folder is None:
            return os.open(path, flags)
        return os.open(os.path.basename(path), flags | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        raise _refusal(error) from None


def entered(top: str, folder: str, make: bool = False) -> int | None:
    """A folder below ``top``, open, entered step by step without following a link; None where that is not possible.

    Parameters
    ----------
    top : str
        It may be a link itself: the user named it.
    folder : str
        ``top`` or a folder below it.
    make : bool
        Whether folders that are missing are made.
    """
    below = os.path.relpath(folder, top)
    parts = [] if below == os.curdir else below.split(os.sep)
    if os.pardir in parts or os.path.isabs(below):
        raise Refused("it does not lie in the library")
    if not FROM_FOLDER:
        if make:
            os.makedirs(folder, exist_ok=True)
        if os.path.normcase(os.path.realpath(folder)) != os.path.normcase(os.path.join(os.path.realpath(top), *parts)):
            raise Refused(OUTSIDE)
        return None
    handle = None
    try:
        handle = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=handle)
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
        return handle
    except OSError as error:
        if handle is not None:
            os.close(handle)
        raise _refusal(error) from None


def _refusal(error: OSError) -> Refused:
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
        return Refused(OUTSIDE)
    return Refused(f"it cannot be read ({error.strerror})")


def _state(info: os.stat_result) -> tuple[int, int]:
    return info.st_size, info.st_mtime_ns
