"""What changed in a folder of pictures since it was last looked at."""

import os
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from isch.describe.images import Failure, find
from isch.errors import FileError
from isch.photos.catalog import Catalog, State

MANY = 100  # so many pictures do not vanish all at once, unless a drive is not there


@dataclass
class Changes:
    """The difference between a folder and a catalog; paths as bytes, so that any name can be kept."""

    new: dict[bytes, State] = field(default_factory=dict)
    changed: dict[bytes, tuple[int, State]] = field(default_factory=dict)
    gone: dict[bytes, tuple[int, State]] = field(default_factory=dict)
    unchanged: int = 0
    failures: list[Failure] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.gone)


def compare(folder: Path, catalog: Catalog) -> Changes:
    """Look at every file below a folder; nothing is read but names, sizes and times."""
    listing, known, failed = find(folder), catalog.states(), catalog.failures()
    changes = Changes(failures=list(listing.failures))
    for path, state in _states(listing.paths):
        before = known.pop(path, None)
        if before is None:
            if failed.pop(path, (None,))[0] == state:
                continue
            changes.new[path] = state
        elif before[1] == state:
            changes.unchanged += 1
        else:
            changes.changed[path] = (before[0], state)
    closed = tuple(os.fsencode(os.path.join(failure.name, "")) for failure in listing.failures)
    changes.gone = {path: value for path, value in known.items() if not path.startswith(closed)}
    if len(changes.gone) >= MANY and not (changes.unchanged or changes.changed or changes.new):
        raise FileError(
            f"{folder}: none of the {len(changes.gone)} pictures in the index is there any more; is the drive mounted?"
        )
    catalog.forget_failures(path for path in failed if path not in changes.new and not os.path.lexists(path))
    return changes


def moves(changes: Changes) -> list[tuple[bytes, bytes]]:
    """(old path, new path) of pictures that seem to have moved: same size and time, and only one of each."""
    old: dict[State, list[bytes]] = defaultdict(list)
    new: dict[State, list[bytes]] = defaultdict(list)
    for path, (_, state) in changes.gone.items():
        old[state].append(path)
    for path, state in changes.new.items():
        new[state].append(path)
    return [(old[state][0], new[state][0]) for state in old if len(old[state]) == 1 and len(new[state]) == 1]


def _states(paths: list[str]) -> list[tuple[bytes, State]]:
    """(path, state) of the files that are still there."""
    found = []
    for path in paths:
        try:
            info = os.stat(path)
        except OSError:
            continue
        found.append((os.fsencode(path), State(info.st_size, info.st_mtime_ns)))
    return found
