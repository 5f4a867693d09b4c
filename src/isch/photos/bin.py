"""The trash folders of the desktop: where a file went, and how it comes back.

Folders of freedesktop.org (Linux and others) and of macOS are known. The recycle bin of Windows keeps files under other
names; there, files are restored from the bin itself.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from isch.photos.below import Refused, entered
from isch.photos.exact import content_hash

Inode = tuple[int, int]


def whereabouts(path: str, inode: Inode, size: int) -> str | None:
    """Where a file that lay at ``path`` is in one of the trash folders; None if in none."""
    copied = []
    stem = os.path.splitext(os.path.basename(path))[0]
    for entry in _entries(path):
        with suppress(OSError):
            info = entry.stat(follow_symlinks=False)
            if (info.st_dev, info.st_ino) == inode:
                return entry.path
            if stat.S_ISREG(info.st_mode) and info.st_size == size and entry.name.startswith(stem):
                copied.append((info.st_ctime_ns, entry.path))  # from another drive it comes as a copy
    return max(copied)[1] if copied else None


def restored(top: str, path: str, entry: Mapping[str, Any]) -> None:
    """Bring a file back to ``path`` below ``top``, if nothing is there now.

    Parameters
    ----------
    top, path : str
        The folder of the pictures, and where the file was.
    entry : mapping
        What the log says of it: ``content``, its hash, ``bytes``, ``to`` or ``device`` and ``inode``.

    Raises
    ------
    Refused
        Why it stays where it is.
    """
    place = _place(path, entry)
    folder = entered(top, os.path.dirname(path), make=True)
    try:
        _put_back(place, path, folder)
    except FileExistsError:
        raise Refused(f"something else is there now; it stays in the trash as {os.path.basename(place)}") from None
    except OSError as error:
        raise Refused(f"it could not be brought back from the trash ({error.strerror})") from None
    finally:
        if folder is not None:
            os.close(folder)
    with suppress(OSError):
        os.unlink(_note(place))


def _place(path: str, entry: Mapping[str, Any]) -> str:
    """Where a file is in the trash, if it is still there and the same."""
    place = entry.get("to")
    if not isinstance(place, str):  # the process ended before it could say so
        if os.path.lexists(path):
            raise Refused("it was not moved, or something else is there now")
        inode = (entry.get("device"), entry.get("inode"))
        place = whereabouts(path, inode, int(entry["bytes"]))  # type: ignore[arg-type]  # what is no number is nowhere
    if place is None or os.path.dirname(place) not in _folders(path) or not os.path.lexists(place):
        raise Refused("it is no longer in the trash, or where it lies there is not known")
    try:
        if os.path.islink(place) or content_hash(place) != entry["content"]:
            raise Refused("what lies in its place in the trash is another file")
    except OSError as error:
        raise Refused(f"it cannot be read in the trash ({error.strerror or error})") from None
    return place


def _put_back(place: str, path: str, folder: int | None) -> None:
    """Give a file its old name, if that is free: a link first, which never replaces anything."""
    target = path if folder is None else os.path.basename(path)
    try:
        os.link(place, target, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise
    except (OSError, NotImplementedError):  # a file system without hard links
        if _exists(target, folder):
            raise FileExistsError from None
        os.rename(place, target, dst_dir_fd=folder)
        return
    os.unlink(place)


def _exists(name: str, folder: int | None) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _note(place: str) -> str:
    """The file in which the desktop notes where a file in the trash came from."""
    return os.path.join(os.path.dirname(os.path.dirname(place)), "info", os.path.basename(place) + ".trashinfo")


def _folders(path: str) -> list[str]:
    """Where the trash of this user keeps files that lay at a path."""
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    found = [os.path.join(home, "Trash", "files"), os.path.expanduser("~/.Trash")]
    mount = os.path.realpath(os.path.dirname(path))
    while not os.path.ismount(mount):
        mount = os.path.dirname(mount)
    user = str(os.getuid()) if hasattr(os, "getuid") else ""
    found.append(os.path.join(mount, ".Trash", user, "files"))
    found.append(os.path.join(mount, f".Trash-{user}", "files"))
    return found


def _entries(path: str) -> Iterator[os.DirEntry[str]]:
    for folder in _folders(path):
        with suppress(OSError), os.scandir(folder) as found:
            yield from list(found)
