"""Bringing a library up to date: look, follow moves, forget, describe, learn codes.

A batch of pictures enters the index first and the catalog second. If the process ends between the two, the next update
finds the difference and repairs it.
"""

import os
import shlex
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isch.describe.images import Failure
from isch.encoder import Encoder
from isch.errors import FileError, IschWarning
from isch.files import printable
from isch.photos import describing, fingerprint, homes, scan
from isch.photos.catalog import State
from isch.photos.describing import Described, Job, Unusable
from isch.photos.exact import content_hash
from isch.search.index import Index

if TYPE_CHECKING:
    from isch.photos.library import Library

N_BITS = 256
METHODS = ("lsh", "diffusion")  # of codes: random ones, and those that were learned
LEARN_ROWS = 1024  # pictures from which codes are learned; fewer are found by random codes and ordered by their vectors
LEARN_AGAIN = 4  # codes are learned anew when the collection is so many times as large as when they were learned
BATCH_SECONDS = 5.0  # between two times that described pictures are written


@dataclass
class Report:
    """What an update did."""

    added: int = 0
    changed: int = 0
    moved: int = 0
    removed: int = 0
    unchanged: int = 0
    missing: int = 0  # pictures that vanished all at once, and are kept
    learned: int = 0  # pictures that new codes were learned from; 0: none were
    failures: int = 0
    unread: list[Failure] = field(default_factory=list)  # folders and files that could not be read
    notes: list[str] = field(default_factory=list)  # what the user should know, a sentence each

    @property
    def changes(self) -> int:
        """How many pictures are not as they were."""
        return self.added + self.changed + self.moved + self.removed

    def __str__(self) -> str:
        counts = {
            "new": self.added,
            "changed": self.changed,
            "moved": self.moved,
            "gone": self.removed,
            "unchanged": self.unchanged,
            "missing": self.missing,
            "unusable": self.failures,
            "unreadable": len(self.unread),
        }
        return ", ".join(f"{n} {word}" for word, n in counts.items() if n) or "no pictures"


class Update:
    """One update of a library, whose lock is held.

    Parameters
    ----------
    library : Library
        What is brought up to date.
    prune : bool
        Whether pictures that vanished all at once are forgotten too.
    """

    def __init__(self, library: "Library", prune: bool) -> None:
        self._library, self._catalog, self._prune = library, library.catalog, prune
        self._report = Report()

    def run(self) -> Report:
        """Do it."""
        catalog, report = self._catalog, self._report
        self._library.claim()
        index = self._library.index
        homes.remove_stale(self._library.home, None if index is None else index.path.name)
        if index is not None and (catalog.meta("changing") or len(index) != catalog.count()):
            self._reconcile(index)
        self._renew()
        changes = scan.compare(self._library.folder, catalog, self._library.own)
        report.unchanged, report.unread = changes.unchanged, changes.unread
        self._follow_moves(changes)
        self._withhold(changes)
        if changes:
            catalog.set_meta("changing", 1)
            self._forget(changes)
            self._describe(changes)
            catalog.set_meta("changing", 0)
        report.failures = len(catalog.failures())
        report.learned = self._learn()
        return report

    def _renew(self) -> None:
        """Have all pictures looked at again where their fingerprints were made differently; codes stay meanwhile."""
        if self._catalog.meta("fingerprints") != fingerprint.VERSION:
            self._catalog.outdate(self._catalog.ids())
            self._catalog.set_meta("fingerprints", fingerprint.VERSION)

    def _reconcile(self, index: Index) -> None:
        """Mend what an interrupted update left: pictures that only the index, or only the catalog, knows."""
        with self._library.trusting():
            listed = {self._library.number(key) for key in index}
            known = self._catalog.ids()
            index.delete(sorted(listed - known), missing_ok=True)
        self._catalog.outdate(known - listed)

    def _follow_moves(self, changes: scan.Changes) -> None:
        """Files that only have another path keep their number and everything known of them."""
        for old, new in scan.moves(changes):
            number, state = changes.gone[old]
            known = self._catalog.item(number)
            if known is not None and _has_content(new, known.digest):
                self._catalog.move(number, new, self._below(new), state)
                del changes.gone[old], changes.new[new]
                changes.moved += 1
        self._report.moved = changes.moved

    def _withhold(self, changes: scan.Changes) -> None:
        """Keep pictures whose drive seems not to be there."""
        missing = [] if self._prune else scan.missing(changes, self._library.moved_away)
        for path in missing:
            del changes.gone[path]
        self._report.missing = len(missing)
        if missing:
            folder = printable(self._library.folder)
            self._report.notes.append(
                f"{len(missing):,} of {changes.known:,} pictures are not in {folder} any more; they stay in the index, "
                f"in case a drive is missing, until isch photos index {shlex.quote(folder)} --prune forgets them"
            )

    def _forget(self, changes: scan.Changes) -> None:
        numbers = [number for number, _ in changes.gone.values()]
        if numbers:
            if (index := self._library.index) is not None:
                with self._library.trusting():
                    index.delete(numbers, missing_ok=True)
            self._catalog.remove(numbers)
            self._report.removed = len(numbers)

    def _describe(self, changes: scan.Changes) -> None:
        first = self._catalog.next_id()
        jobs = [self._job(path, number, state) for path, (number, state) in changes.changed.items()]
        jobs += [self._job(path, first + i, state) for i, (path, state) in enumerate(changes.new.items())]
        waiting: list[Described | Unusable] = []
        due = time.monotonic() + BATCH_SECONDS
        try:
            for results in describing.described(jobs):
                waiting += results
                if time.monotonic() >= due:
                    self._keep(waiting, changes)
                    waiting = []
                    due = time.monotonic() + BATCH_SECONDS
        finally:
            self._keep(waiting, changes)

    def _keep(self, results: Sequence[Described | Unusable], changes: scan.Changes) -> None:
        """Enter described pictures into the index, then into the catalog."""
        good = [result for result in results if isinstance(result, Described)]
        bad = [result for result in results if isinstance(result, Unusable) and result.read]
        unread = [result for result in results if isinstance(result, Unusable) and not result.read]
        if good:
            numbers = [one.item.id for one in good]
            vectors = np.stack([one.vector for one in good])
            with self._library.trusting():
                self._ready(vectors).upsert(vectors, numbers)
            self._catalog.add([(one.item, one.fingerprint, one.labels) for one in good])
        lost = [changes.changed[one.job.path][0] for one in bad if one.job.path in changes.changed]
        if lost:
            if (index := self._library.index) is not None:
                with self._library.trusting():
                    index.delete(lost, missing_ok=True)
            self._catalog.remove(lost)
        self._catalog.fail((one.job.path, one.job.state, one.reason) for one in bad)
        self._report.unread += [Failure(os.fsdecode(one.job.path), one.reason) for one in unread]
        changed = sum(os.fsencode(one.item.path) in changes.changed for one in good)
        self._report.changed += changed
        self._report.added += len(good) - changed

    def _ready(self, vectors: NDArray[np.float32]) -> Index:
        """The index; for a new collection one with random codes, which need nothing to learn from."""
        if (index := self._library.index) is not None:
            return index
        from isch.hashing import hasher

        both = np.concatenate([vectors, -vectors])
        return self._install(Encoder(hasher("lsh", n_bits=N_BITS).fit(both), describing.network()), None, 0)

    def _learn(self) -> int:
        """Learn codes from the stored vectors if the collection has grown enough; returns how many were used."""
        index = self._library.index
        count = 0 if index is None else len(index)
        if count < max(LEARN_ROWS, LEARN_AGAIN * self._catalog.number("learned_from")):
            return 0
        from isch.hashing import hasher

        numbers: list[int] = []
        parts = []
        for some, vectors in self._library.vectors():
            numbers += some
            parts.append(vectors.astype(np.float16))
        rows = np.concatenate(parts)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IschWarning)  # of few rows: codes are learned anew when there are more
            encoder = Encoder(hasher("diffusion", n_bits=N_BITS).fit(rows), describing.network())
        self._install(encoder, (numbers, rows), count)
        return count

    def _install(self, encoder: Encoder, rows: tuple[list[int], Any] | None, learned_from: int) -> Index:
        """Put another index in the place of the present one."""
        library = self._library
        name = f"codes-{token_hex(4)}.isch"
        first = {} if rows is None else {"keys": rows[0], "rows": rows[1]}
        Index.create(library.home / name, encoder, keep_features="float16", **first).close()
        with self._catalog.changing() as connection:
            for key, value in (("index", name), ("learned_from", learned_from)):
                connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [key, value])
        homes.remove_stale(library.home, name)
        index = library.index
        assert index is not None
        return index

    def _job(self, path: bytes, number: int, state: State) -> Job:
        return Job(number, path, state, self._below(path))

    def _below(self, path: bytes) -> str:
        """The folder of a picture, below the top folder."""
        below = os.path.relpath(os.path.dirname(os.fsdecode(path)), self._library.folder)
        return "" if below == os.curdir else printable(below).replace(os.sep, "/")


def _has_content(path: bytes, digest: str) -> bool:
    try:
        return content_hash(os.fsdecode(path)) == digest
    except FileError:
        return False
