"""Reading all of an index and comparing it with what it should be."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isch import progress
from isch.errors import FormatError, IschError
from isch.search import catalog as catalogs
from isch.search.catalog import Key
from isch.search.folder import checked, model_file
from isch.search.segments import Segment, read_dead
from isch.search.snapshot import Snapshot, take, worded

Check = Callable[[], object]


def problems(path: Path) -> list[str]:
    """A sentence for each problem of the index at ``path``; writers may go on meanwhile."""
    try:
        snapshot = take(checked(path))
    except IschError as error:
        return _unopened(path) or [str(error)]
    found = told(partial(model_file, snapshot.folder, snapshot.catalog)) if snapshot.catalog.model else []
    with progress.task("verifying", int(snapshot.offsets[-1]), "rows") as advance:
        for i, segment in enumerate(snapshot.segments):
            found += _first(segment.checks()) or told(partial(_check_items, snapshot, i))
            advance(len(segment))
    return found or (told(partial(_check_keys, snapshot)) if len(snapshot.segments) > 1 else [])


def _unopened(folder: Path) -> list[str]:
    """What is wrong with each file that cannot be opened, not with the first alone."""
    try:
        catalog, place = catalogs.read(folder), folder / "segments"
    except OSError:
        return []
    checks: list[Check] = []
    for row in catalog.segments:
        checks += [partial(Segment, place, row, catalog, place), partial(read_dead, place, row)]
    return [sentence for check in checks for sentence in told(check)]


def told(check: Check) -> list[str]:
    """The problem that a check ends with, if any."""
    try:
        check()
    except IschError as error:
        return [str(error)]
    except OSError as error:
        return [str(worded(error, Path()))]
    return []


def _first(checks: Iterable[Check]) -> list[str]:
    """The first problem: after it, the others may not even be readable."""
    for check in checks:
        if problem := told(check):
            return problem
    return []


def _check_items(snapshot: Snapshot, i: int) -> None:
    """Each live row of a segment has an item."""
    segment, live = snapshot.segments[i], snapshot.live[i]
    missing = ~segment.items.present() if live is None else live & ~segment.items.present()
    if missing.any():
        raise FormatError(f"{segment.items.path}: the items are damaged (row {missing.argmax()} has no item)")


def _check_keys(snapshot: Snapshot) -> None:
    """No key is in two segments; in one it cannot be twice."""
    before: Key | None = None
    for _, key in heapq.merge(*map(_live_keys, snapshot.segments, snapshot.live)):
        if key == before:
            raise FormatError(f"{snapshot.folder}: the key {key!r} is there twice")
        before = key


def _live_keys(segment: Segment, live: NDArray[np.bool_] | None) -> Iterator[tuple[bool, Key]]:
    for key, row in segment.items.sorted():
        if live is None or live[row]:
            yield isinstance(key, str), key
