"""What changed in a folder of pictures since it was last looked at."""

import os
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from platformdirs import user_cache_path, user_data_path

from isch.describe.images import Entry, Failure, find
from isch.photos.catalog import Catalog, State

MANY = 10  # pictures that vanish at once, if they are most of all, are missing rather than deleted
_SEPARATOR = os.fsencode(os.sep)
CACHE_TAG = "CACHEDIR.TAG"  # https://bford.info/cachedir/
CACHE_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55"
SKIPPED = {  # what systems keep beside pictures: small versions, trash, snapshots; hidden folders are skipped anyway
    "$recycle.bin",
    "@eadir",
    "@recently-snapshot",
    "@recycle",
    "#recycle",
    "#snapshot",
    "lost+found",
    "system volume information",
}


@dataclass
class Changes:
    """The difference between a folder and a catalog; paths as bytes, so that any name can be kept."""

    new: dict[bytes, State] = field(default_factory=dict)
    changed: dict[bytes, tuple[int, State]] = field(default_factory=dict)
    gone: dict[bytes, tuple[int, State]] = field(default_factory=dict)
    unchanged: int = 0
    moved: int = 0
    known: int = 0  # pictures in the catalog
    unread: list[Failure] = field(default_factory=list)  # folders that could not be read
    unmounted: list[bytes] = field(default_factory=list)  # folders that were drives and are none now

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.gone)


def compare(folder: Path, catalog: Catalog, own: Collection[Path] = ()) -> Changes:
    """Look at every file below a folder; nothing is read but names, sizes and times.

    Parameters
    ----------
    folder : Path
        Where the pictures are.
    catalog : Catalog
        What is known of them.
    own : paths
        Folders of ours, which are skipped.
    """
    mounts = [os.fspath(folder)] if os.path.ismount(folder) else []
    listing = find(folder, _filter(own, mounts))
    known, failed = catalog.states(), catalog.failures()
    changes = Changes(known=len(known), unread=list(listing.failures))
    for path, state in zip(_encoded(listing.paths), listing.states, strict=True):
        if state is None:
            continue
        before = known.pop(path, None)
        if before is None:
            if failed.pop(path, (None,))[0] != state:
                changes.new[path] = State(*state)
        elif before[1] == state[0] and before[2] == state[1]:
            changes.unchanged += 1
        else:
            changes.changed[path] = (before[0], State(*state))
    closed = tuple(os.fsencode(os.path.join(failure.name, "")) for failure in listing.failures)
    for path, (number, size, time) in known.items():
        if path.startswith(closed):
            continue
        if reason := _hidden(path):
            changes.unread.append(Failure(os.fsdecode(path), reason))
        else:
            changes.gone[path] = (number, State(size, time))
    changes.unmounted = _unmounted(catalog, [os.fsencode(mount) for mount in mounts], known)
    catalog.forget_failures(path for path in failed if path not in changes.new and not os.path.lexists(path))
    return changes


def _filter(own: Collection[Path], mounts: list[str]) -> Callable[[Entry], bool]:
    """Whether a subfolder is entered; those on another drive are noted."""
    skipped = {identity for path in (*own, user_cache_path(), user_data_path()) if (identity := _identity(path))}

    def wanted(entry: Entry) -> bool:
        if entry.is_symlink() or entry.name.lower() in SKIPPED or _identity(entry.path) in skipped:
            return False
        if _is_cache(entry.path):
            return False
        if os.path.ismount(entry.path):
            mounts.append(entry.path)
        return True

    return wanted


def _identity(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    with suppress(OSError):
        info = os.stat(path)
        return info.st_dev, info.st_ino
    return None


def _is_cache(folder: str) -> bool:
    """Whether a folder says of itself that all in it can be made again."""
    tag = os.path.join(folder, CACHE_TAG)
    with suppress(OSError):
        if os.path.isfile(tag):
            with open(tag, "rb") as file:
                return file.read(len(CACHE_SIGNATURE)) == CACHE_SIGNATURE
    return False


def _hidden(path: bytes) -> str | None:
    """Why the system does not let us see whether a file is there; None if it does."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return None if os.access(path, os.R_OK) else "it cannot be read"


def _unmounted(catalog: Catalog, mounts: list[bytes], unseen: Collection[bytes]) -> list[bytes]:
    """Drives that were here before, and whose pictures we know, but that are not here now."""
    before = catalog.meta("mounts")
    listed = before.split(b"\0") if isinstance(before, bytes) else []
    missing = [drive for drive in listed if drive and drive not in mounts and _any_below(drive, unseen)]
    now = b"\0".join(sorted({*mounts, *missing}))
    if now != (before or b""):
        catalog.set_meta("mounts", now)
    return missing


def _any_below(folder: bytes, paths: Collection[bytes]) -> bool:
    return any(path.startswith(folder + _SEPARATOR) for path in paths)


def missing(changes: Changes, away: Collection[bytes] = ()) -> list[bytes]:
    """Pictures that are gone in a way that looks like a drive that is not there, rather than like tidying up.

    These are all pictures of a drive that is not mounted any more, and all that are gone if nothing is left in the
    folder or if they are many and more than half.

    Parameters
    ----------
    changes : Changes
        What changed; files that only moved are not among it any more.
    away : paths
        Files that we have moved away ourselves.
    """
    gone = [path for path in changes.gone if path not in away]
    empty = not (changes.unchanged or changes.changed or changes.new or changes.moved)
    if empty or (len(gone) >= MANY and 2 * len(gone) > changes.known):
        return gone
    below = tuple(drive + _SEPARATOR for drive in changes.unmounted)
    return [path for path in gone if path.startswith(below)]


def moves(changes: Changes) -> list[tuple[bytes, bytes]]:
    """(old path, new path) of pictures that seem to have moved: same size and time, and only one of each."""
    old: dict[State, list[bytes]] = defaultdict(list)
    new: dict[State, list[bytes]] = defaultdict(list)
    for path, (_, state) in changes.gone.items():
        old[state].append(path)
    for path, state in changes.new.items():
        new[state].append(path)
    return [(old[state][0], new[state][0]) for state in old if len(old[state]) == 1 and len(new[state]) == 1]


def _encoded(paths: list[str]) -> list[bytes]:
    """The paths as bytes, all at once, which is several times as fast as one by one; no path contains a NUL."""
    return os.fsencode("\0".join(paths)).split(b"\0") if paths else []
