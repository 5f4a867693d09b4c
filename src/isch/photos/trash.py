"""Copies of pictures go to the system's trash, never further, and a log says where each went.

    outcomes = to_trash([Removal(give_up=[second], keep=[first])], log=folder / "trash.jsonl")

The caller has asked the user. A file is moved only if it has not changed since it was listed, and only while another
copy that is to be kept exists unchanged. A file that cannot be moved stays where it is, and its outcome says why; the
others are still moved. The log has one JSON object per line: what is about to be moved, then what happened to it.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from isch.errors import FileError, IschError, require
from isch.files import printable
from isch.photos.exact import content_hash


@dataclass(frozen=True)
class Listed:
    """A file as it was when it was listed."""

    path: str
    bytes: int
    modified_ns: int
    content: str  # its hash

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> "Listed":
        """The file as it is now."""
        info = os.stat(path)
        return cls(os.fspath(path), info.st_size, info.st_mtime_ns, content_hash(path))


@dataclass(frozen=True)
class Removal:
    """Copies to give up, and the copies of the same picture that are kept."""

    give_up: Sequence[Listed]
    keep: Sequence[Listed]


@dataclass(frozen=True)
class Outcome:
    """What became of one file: where it went if it was moved and that is known, else why it was not moved."""

    path: str
    bytes: int
    content: str
    moved: bool
    to: str | None = None
    reason: str | None = None


Move = Callable[[str], object]


def to_trash(removals: Sequence[Removal], log: str | os.PathLike[str], move: Move | None = None) -> list[Outcome]:
    """Move copies of pictures to the trash.

    Parameters
    ----------
    removals : for each group, what to give up and what is kept
    log : a file of JSON lines, which grows; nothing is moved if it cannot be written
    move : what moves one file; send2trash by default

    Returns
    -------
    list of Outcome
        One for each file to give up, in order.

    Raises
    ------
    FileError
        The log cannot be written.
    MissingExtra
        send2trash is not installed.
    """
    mover = move if move is not None else require("send2trash", "photos").send2trash
    given_up = {os.path.realpath(file.path) for removal in removals for file in removal.give_up}
    outcomes = []
    with _log(log) as record:
        for removal in removals:
            kept = [file for file in removal.keep if os.path.realpath(file.path) not in given_up]
            outcomes += [_give_up(file, kept, mover, record) for file in removal.give_up]
    return outcomes


def _give_up(file: Listed, kept: Sequence[Listed], move: Move, record: Callable[..., None]) -> Outcome:
    about = partial(Outcome, file.path, file.bytes, file.content)
    reason = difference(file) or _nothing_left(kept)
    if reason is not None:
        outcome = about(moved=False, reason=reason)
    else:
        record(event="moving", path=file.path, bytes=file.bytes, content=file.content)
        reason, to = _moved(file.path, move)
        outcome = about(moved=reason is None, to=to, reason=reason)
    record(event="moved" if outcome.moved else "refused", **asdict(outcome))
    return outcome


def _moved(path: str, move: Move) -> tuple[str | None, str | None]:
    """(why it failed, where the file went)."""
    before = os.lstat(path)
    try:
        move(os.path.abspath(path))
    except Exception as error:  # every desktop's trash fails in its own way
        return f"the trash did not take it ({getattr(error, 'strerror', None) or error})", None
    if os.path.lexists(path):
        return "the trash did not take it, and gave no reason", None
    return None, whereabouts(path, before)


def difference(file: Listed) -> str | None:
    """Why a file is no longer the one that was listed; None if it is."""
    try:
        info = os.stat(file.path)
        if (info.st_size, info.st_mtime_ns) != (file.bytes, file.modified_ns):
            return "it has changed since it was listed"
        if content_hash(file.path) != file.content:
            return "its content has changed since it was listed"
    except (OSError, ValueError) as error:
        return f"it cannot be read ({error if isinstance(error, IschError) else getattr(error, 'strerror', error)})"
    return None


def _nothing_left(kept: Sequence[Listed]) -> str | None:
    """Why the picture would be lost; None if a copy to keep is there unchanged."""
    if not kept:
        return "it is the last copy: no other copy of the picture is kept"
    reasons = [difference(file) for file in kept]
    if None in reasons:
        return None
    return f"it may be the last copy: of {printable(kept[0].path)}, which is to be kept, {reasons[0]}"


def whereabouts(path: str, before: os.stat_result) -> str | None:
    """Where a file that lay at ``path`` is in one of the trash folders of freedesktop.org; None if in none."""
    for folder in _trash_folders(path):
        for entry in _entries(folder):
            if entry.inode() == before.st_ino and entry.stat(follow_symlinks=False).st_dev == before.st_dev:
                return entry.path
    return None


def _trash_folders(path: str) -> Iterator[str]:
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    yield os.path.join(home, "Trash", "files")
    mount = os.path.realpath(os.path.dirname(path))
    while not os.path.ismount(mount):
        mount = os.path.dirname(mount)
    user = str(os.getuid()) if hasattr(os, "getuid") else ""
    yield os.path.join(mount, ".Trash", user, "files")
    yield os.path.join(mount, f".Trash-{user}", "files")


def _entries(folder: str) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


@contextmanager
def _log(path: str | os.PathLike[str]) -> Iterator[Callable[..., None]]:
    """A function that adds a line to the log, on disk before it returns."""
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            yield lambda **values: _append(file, {"at": round(time.time(), 3), **values})
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{printable(path)}: the log of the trash cannot be written ({error.strerror})") from error


def _append(file: TextIO, values: dict[str, Any]) -> None:
    file.write(json.dumps(values) + "\n")
    file.flush()
    os.fsync(file.fileno())
