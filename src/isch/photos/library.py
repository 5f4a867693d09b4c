"""A folder of pictures kept in step with an index: look, describe, learn codes, search.

    library = Library("~/Pictures")
    library.update()                      # describes what is new, forgets what is gone; may be interrupted at any time
    library.search("cat.jpg", k=20)       # also bytes; library.similar(item) for a picture of the collection

Everything is stored in one folder outside the pictures: ``catalog.sqlite`` describes each picture, an index holds codes
and vectors. A batch of pictures enters the index first and the catalog second. If the process ends between the two, the
next update finds the difference and repairs it.
"""

import os
import shutil
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.codes import unpack
from isch.encoder import Encoder
from isch.errors import FileError, InputError, IschWarning, ParameterError
from isch.features import dense
from isch.files import printable, regular
from isch.locks import locked
from isch.photos import describing, fingerprint, homes, scan
from isch.photos.catalog import Catalog, Filter, Item, State
from isch.photos.describing import Described, Job, Unusable
from isch.photos.exact import content_hash
from isch.search.index import Index
from isch.search.reading import Item as IndexItem
from isch.search.results import Results

N_BITS = 256
LEARN_ROWS = 1024  # pictures from which codes are learned; fewer are found by random codes and ordered by their vectors
LEARN_AGAIN = 4  # codes are learned anew when the collection is so many times as large as when they were learned
BATCH_SECONDS = 5.0  # between two times that described pictures are written


@dataclass(frozen=True)
class Hit:
    """A picture found, and how far its code is: in bits, and by the order the results have (smaller is nearer)."""

    item: Item
    distance: int
    score: float


@dataclass
class Report:
    """What an update did."""

    added: int = 0
    changed: int = 0
    moved: int = 0
    removed: int = 0
    unchanged: int = 0
    learned: int = 0  # pictures that new codes were learned from; 0: none were
    failures: int = 0

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
            "unusable": self.failures,
        }
        return ", ".join(f"{n} {word}" for word, n in counts.items() if n) or "no pictures"


class Library:
    """The pictures below a folder.

    Parameters
    ----------
    folder : path
        Where the pictures are; all its subfolders count. Nothing is ever written there.
    home : path, optional
        Where everything is kept. By default catalog, index and thumbnails lie in the user's cache, and decisions and
        the log of the trash in the user's data, each in a folder of this collection.
    """

    def __init__(self, folder: str | os.PathLike[str], home: str | os.PathLike[str] | None = None) -> None:
        self.folder = Path(folder).expanduser().absolute()
        if not self.folder.is_dir():
            what = "it is a file" if self.folder.exists() else "it does not exist"
            raise FileError(f"{self.folder}: expected a folder of pictures; {what}")
        own = homes.home_of(self.folder)
        self.home = own if home is None else Path(home).expanduser().absolute()
        self.data = homes.data_of(self.folder) if self.home == own else self.home  # decisions, the log of the trash
        self._refuse_inside()
        for place in (self.home, self.data):
            homes.make(place)
        homes.bring_over(self.home, self.data)
        self.catalog = Catalog(self.home / "catalog.sqlite")
        self._check_owner()
        self._swapping = threading.Lock()
        self._index: Index | None = None

    def update(self, wait: float = 0) -> Report:
        """Bring catalog and index up to date with the folder; only what is new or changed is read.

        Parameters
        ----------
        wait : float
            Seconds to wait for another process, or another thread, that is doing so already.

        Raises
        ------
        LockedError
            It takes longer.
        """
        with locked(self.home / "update.lock", wait, "is updating this library"):
            if self.catalog.meta("changing"):
                self._reconcile()
            self._renew()
            changes = scan.compare(self.folder, self.catalog)
            report = Report(unchanged=changes.unchanged)
            if changes:
                self.catalog.set_meta("changing", 1)
                self._follow_moves(changes, report)
                self._forget(changes, report)
                self._describe(changes, report)
                self.catalog.set_meta("changing", 0)
            report.failures = len(self.catalog.failures()) + len(changes.failures)
            report.learned = self._learn()
            return report

    def __len__(self) -> int:
        return self.catalog.count()

    def search(self, picture: Any, k: int = 20, wanted: Filter | None = None) -> list[Hit]:
        """The pictures most like one given as a path, bytes, an array or a PIL image."""
        index = self.index
        return [] if index is None else self.nearest(self.describe(picture), k, wanted)

    def similar(self, number: int, k: int = 20, wanted: Filter | None = None) -> list[Hit]:
        """The pictures most like one of the collection, without itself."""
        hits = self.nearest(np.asarray(self._known(number).features), k + 1, wanted)
        return [hit for hit in hits if hit.item.id != number][:k]

    def warm_up(self) -> None:
        """Load what the first search needs, so that the user does not wait for it."""
        for item in self.catalog.page(Filter(), 0, 1):
            self.similar(item.id, 1)

    def describe(self, picture: Any) -> NDArray[np.float32]:
        """The vector of a picture."""
        if isinstance(picture, str | os.PathLike):
            picture = regular(picture)
        row: NDArray[np.float32] = dense(self._opened().encoder.features(picture).read(0, 1))[0]
        return row

    def bits(self, vector: NDArray[np.float32]) -> NDArray[np.bool_]:
        """The bits of the code of a vector."""
        index = self._opened()
        return unpack(index.encoder.codes(vector), index.n_bits).ravel()

    def code(self, number: int) -> NDArray[np.bool_]:
        """The bits of the code of a picture of the collection."""
        return unpack(self._known(number).code[None], self._opened().n_bits).ravel()

    def nearest(self, vector: NDArray[np.float32], k: int, wanted: Filter | None = None) -> list[Hit]:
        """The pictures whose vectors are most like one."""
        if k < 1:
            raise ParameterError(f"k must be at least 1; got {k}")
        among = self.catalog.numbers(wanted) if wanted else None
        index = self._opened()
        every: dict[str, Any] = {"rerank": "exact", "oversample": max(1, len(index) / k)}
        return self._hits(index.search(vector, k, among=among, **({} if self.learned else every)))

    @property
    def learned(self) -> bool:
        """Whether the codes were learned from this collection; a small one has random codes."""
        return bool(self.catalog.meta("learned_from"))

    @property
    def n_bits(self) -> int:
        """Bits per code; 0 before there is an index."""
        index = self.index
        return 0 if index is None else index.n_bits

    @property
    def index(self) -> Index | None:
        """The index as it is now; None before the first update of a collection."""
        with self._swapping:
            name = self.catalog.meta("index")
            if name is None:
                return None
            if self._index is None or self._index.path.name != name:
                self._index = Index.open(self.home / name)
            self._index.refresh()
            return self._index

    def vectors(self) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
        """(ids, vectors) of all pictures, some at a time."""
        if (index := self.index) is not None:
            for batch in index.batches():
                yield [int(key) for key in batch.keys], np.asarray(batch.features)

    def close(self) -> None:
        """Close the files."""
        if self._index is not None:
            self._index.close()
        self.catalog.close()

    def _opened(self) -> Index:
        if (index := self.index) is None:
            raise InputError(f"{self.folder}: there are no pictures yet")
        return index

    def _known(self, number: int) -> IndexItem:
        if (index := self.index) is None or (known := index.get(number)) is None:
            raise InputError(f"there is no picture {number} in the library")
        return known

    def _hits(self, results: Results) -> list[Hit]:
        found = results[0]
        items = self.catalog.items([int(hit.key) for hit in found])
        return [Hit(items[int(hit.key)], int(hit.distance), float(hit.score or 0)) for hit in found if hit.key in items]

    def _follow_moves(self, changes: scan.Changes, report: Report) -> None:
        """Files that only have another path keep their number and everything known of them."""
        for old, new in scan.moves(changes):
            number, state = changes.gone[old]
            known = self.catalog.item(number)
            if known is not None and _has_content(new, known.digest):
                self.catalog.move(number, new, self._below(new), state)
                del changes.gone[old], changes.new[new]
                report.moved += 1

    def _forget(self, changes: scan.Changes, report: Report) -> None:
        numbers = [number for number, _ in changes.gone.values()]
        if numbers:
            if (index := self.index) is not None:
                index.delete(numbers, missing_ok=True)
            self.catalog.remove(numbers)
            report.removed = len(numbers)

    def _describe(self, changes: scan.Changes, report: Report) -> None:
        first = self.catalog.next_id()
        jobs = [self._job(path, number, state) for path, (number, state) in changes.changed.items()]
        jobs += [self._job(path, first + i, state) for i, (path, state) in enumerate(changes.new.items())]
        waiting: list[Described | Unusable] = []
        due = time.monotonic() + BATCH_SECONDS
        try:
            for results in describing.described(jobs):
                waiting += results
                if time.monotonic() >= due:
                    self._keep(waiting, changes, report)
                    waiting, due = [], time.monotonic() + BATCH_SECONDS
        finally:
            self._keep(waiting, changes, report)

    def _keep(self, results: Sequence[Described | Unusable], changes: scan.Changes, report: Report) -> None:
        """Enter described pictures into the index, then into the catalog."""
        good = [result for result in results if isinstance(result, Described)]
        bad = [result for result in results if isinstance(result, Unusable)]
        if good:
            numbers, vectors = [one.item.id for one in good], np.stack([one.vector for one in good])
            self._ready(vectors).upsert(vectors, numbers)
            self.catalog.add([(one.item, one.fingerprint, one.labels) for one in good])
        lost = [changes.changed[one.job.path][0] for one in bad if one.job.path in changes.changed]
        if lost:
            self._opened().delete(lost, missing_ok=True)
            self.catalog.remove(lost)
        self.catalog.fail((one.job.path, one.job.state, one.reason) for one in bad)
        changed = sum(os.fsencode(one.item.path) in changes.changed for one in good)
        report.changed, report.added = report.changed + changed, report.added + len(good) - changed

    def _ready(self, vectors: NDArray[np.float32]) -> Index:
        """The index; for a new collection one with random codes, which need nothing to learn from."""
        if (index := self.index) is not None:
            return index
        from isch.hashing import hasher

        both = np.concatenate([vectors, -vectors])
        return self._install(Encoder(hasher("lsh", n_bits=N_BITS).fit(both), describing.network()), None, 0)

    def _learn(self) -> int:
        """Learn codes from the stored vectors if the collection has grown enough; returns how many were used."""
        before, count = int(self.catalog.meta("learned_from") or 0), self.catalog.count()
        if count < max(LEARN_ROWS, LEARN_AGAIN * before):
            return 0
        from isch.hashing import hasher

        numbers: list[int] = []
        parts = []
        for some, vectors in self.vectors():
            numbers += some
            parts.append(vectors.astype(np.float16))
        rows = np.concatenate(parts)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IschWarning)  # of few rows: codes are learned anew when there are more
            encoder = Encoder(hasher("isch", n_bits=N_BITS).fit(rows), describing.network())
        self._install(encoder, (numbers, rows), count)
        return count

    def _install(self, encoder: Encoder, rows: tuple[list[int], Any] | None, learned_from: int) -> Index:
        """Put another index in the place of the present one."""
        name, before = f"codes-{token_hex(4)}.isch", self.catalog.meta("index")
        first = {} if rows is None else {"keys": rows[0], "rows": rows[1]}
        Index.create(self.home / name, encoder, keep_features="float16", **first).close()
        with self.catalog.changing() as connection:
            for key, value in (("index", name), ("learned_from", learned_from)):
                connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [key, value])
        if before is not None:
            shutil.rmtree(self.home / before, ignore_errors=True)
        return self._opened()

    def _reconcile(self) -> None:
        """Mend what an interrupted update left: pictures that only the index, or only the catalog, knows."""
        if (index := self.index) is None:
            return
        for stale in self.home.glob("codes-*.isch"):
            if stale != index.path:
                shutil.rmtree(stale, ignore_errors=True)
        listed, known = {int(key) for key in index}, self.catalog.ids()
        if listed != known:
            index.delete(sorted(listed - known), missing_ok=True)
            self.catalog.remove(known - listed)

    def _renew(self) -> None:
        """Look at all pictures again where their fingerprints were made differently."""
        if self.catalog.meta("fingerprints") != fingerprint.VERSION:
            self.catalog.set_meta("changing", 1)
            self.catalog.remove(self.catalog.ids())
            self.catalog.set_meta("fingerprints", fingerprint.VERSION)
            self._reconcile()

    def _job(self, path: bytes, number: int, state: State) -> Job:
        return Job(number, path, state, self._below(path))

    def _below(self, path: bytes) -> str:
        """The folder of a picture, below the top folder."""
        below = os.path.relpath(os.path.dirname(os.fsdecode(path)), self.folder)
        return "" if below == os.curdir else printable(below).replace(os.sep, "/")

    def _refuse_inside(self) -> None:
        if self.home == self.folder or self.home.is_relative_to(self.folder):
            raise InputError(f"{self.home}: the index must not lie inside the folder of pictures {self.folder}")

    def _check_owner(self) -> None:
        """An index folder belongs to one folder of pictures."""
        owner, own = self.catalog.meta("folder"), os.fsencode(self.folder)
        if owner is None:
            self.catalog.set_meta("folder", own)
        elif owner != own:
            raise InputError(f"{self.home} holds the index of {os.fsdecode(owner)}; expected one of {self.folder}")


def _has_content(path: bytes, digest: str) -> bool:
    try:
        return content_hash(os.fsdecode(path)) == digest
    except FileError:
        return False
