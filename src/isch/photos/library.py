"""A folder of pictures kept in step with an index: look, describe, learn codes, search.

    library = Library("~/Pictures")
    library.update()                      # describes what is new, forgets what is gone; may be interrupted at any time
    library.search("cat.jpg", k=20)       # also bytes; library.similar(item) for a picture of the collection

``catalog.sqlite`` describes each picture, an index holds codes and vectors. Both can be made again from the pictures,
and are, where they are damaged. What is read from them may come from a stranger, so it is checked.
"""

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.codes import unpack
from isch.errors import FileError, FormatError, InputError, ParameterError
from isch.features import dense
from isch.files import printable, regular
from isch.locks import locked
from isch.photos import describing, homes
from isch.photos.catalog import Catalog, Filter, Item
from isch.photos.database import Damaged
from isch.photos.updating import METHODS, Report, Update
from isch.search.index import Index
from isch.search.reading import Item as IndexItem
from isch.search.results import Results


@dataclass(frozen=True)
class Hit:
    """A picture found, and how far its code is: in bits, and by the order the results have (smaller is nearer)."""

    item: Item
    distance: int
    score: float


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
        usual = homes.home_of(self.folder)
        self.home = usual if home is None else Path(home).expanduser().absolute()
        self.data = homes.data_of(self.folder) if self.home == usual else self.home  # decisions, the log of the trash
        self._refuse_inside()
        for place in (self.home, self.data):
            homes.make(place)
        homes.bring_over(self.home, self.data)
        homes.refuse_links(self.data)
        self._mended: list[str] = []
        self._noticed: list[str] = []
        self._away: set[bytes] = set()
        self._swapping = threading.Lock()
        self._index: Index | None = None
        self.catalog = self._cataloged()
        try:
            self.claim()
        except Damaged as error:
            with self._locked(0):
                self._set_aside(error)
            self.claim()

    def update(self, wait: float = 0, prune: bool = False) -> Report:
        """Bring catalog and index up to date with the folder; only what is new or changed is read.

        Pictures that vanish all at once are kept: all of them, more than half of at least ten, or those of a drive that
        was mounted before.

        Parameters
        ----------
        wait : float
            Seconds to wait for another process, or another thread, that is doing so already.
        prune : bool
            Whether to forget pictures that vanished all at once too.

        Raises
        ------
        LockedError
            It takes longer.
        """
        with self._locked(wait):
            try:
                self._examine()
                report = Update(self, prune).run()
            except Damaged as error:
                self._set_aside(error)
                report = Update(self, prune).run()
        self._noticed = report.notes
        self._away.clear()
        return report

    @property
    def notices(self) -> list[str]:
        """What the user should know of the state of the library, a sentence each."""
        return [*self._mended, *self._noticed]

    def forget(self, numbers: Sequence[int], wait: float = 0) -> None:
        """Forget pictures whose files the user moved away, without a look at the folder.

        Raises
        ------
        LockedError
            Another process, or another thread, works on the library for longer than ``wait`` seconds.
        """
        with self._locked(wait):
            self.catalog.remove(numbers)  # if the process ends here, the next update sees that the index has more
            if (index := self.index) is not None:
                with self.trusting():
                    index.delete(numbers, missing_ok=True)

    def away(self, paths: Iterable[str]) -> None:
        """These files were moved away by us, so that it is no surprise that they are gone."""
        self._away.update(map(os.fsencode, paths))

    @property
    def moved_away(self) -> frozenset[bytes]:
        """The files that we moved away."""
        return frozenset(self._away)

    @property
    def own(self) -> list[Path]:
        """Folders of ours, in which no pictures are looked for."""
        return [self.home, self.data, *homes.roots()]

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
        with self.trusting():
            return self._hits(index.search(vector, k, among=among, **({} if self.learned else every)))

    @property
    def learned(self) -> bool:
        """Whether the codes were learned from this collection; a small one has random codes."""
        return bool(self.catalog.number("learned_from"))

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
            if not homes.is_codes(name):
                raise self.catalog.damaged(f"the name {name!r:.40} is not that of an index of ours")
            with self.trusting(name):
                if self._index is None or self._index.path.name != name:
                    self._index = _checked(Index.open(homes.inside(self.home, name)))
                self._index.refresh()
            return self._index

    @contextmanager
    def trusting(self, name: str | None = None) -> Iterator[None]:
        """Take errors of the index for what they are: it is damaged, and is made again."""
        try:
            yield
        except Damaged:
            raise
        except FileError as error:
            index = name or (self._index.path.name if self._index else "")
            if homes.is_there(self.home / index) and not isinstance(error, FormatError):
                raise  # it is in use, or the disk is full
            homes.suspect(self.home, index)
            raise Damaged(str(error), index) from error

    def number(self, key: Any) -> int:
        """The key of an item as the number of a picture."""
        if type(key) is not int:
            raise FormatError(f"{self.home}: the index has the key {key!r:.40}; expected numbers")
        return key

    def vectors(self) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
        """(ids, vectors) of all pictures, some at a time."""
        if (index := self.index) is not None:
            with self.trusting():
                for batch in index.batches():
                    yield [self.number(key) for key in batch.keys], np.asarray(batch.features)

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
        index = self.index
        with self.trusting():
            known = None if index is None else index.get(number)
        if known is None:
            raise InputError(f"there is no picture {number} in the library")
        return known

    def _hits(self, results: Results) -> list[Hit]:
        found = results[0]
        items = self.catalog.items([self.number(hit.key) for hit in found])
        return [Hit(items[hit.key], int(hit.distance), float(hit.score or 0)) for hit in found if hit.key in items]

    def claim(self) -> None:
        """Refuse the index of another folder of pictures; a new one is ours from now on."""
        owner = self.catalog.meta("folder")
        own = os.fsencode(self.folder)
        if owner is None:
            self.catalog.set_meta("folder", own)
        elif not isinstance(owner, bytes):
            raise self.catalog.damaged("it does not say whose it is")
        elif owner != own:
            raise InputError(
                f"{printable(self.home)} holds the index of {printable(os.fsdecode(owner))}; expected one of "
                f"{printable(self.folder)}; give another folder with --index"
            )

    def _cataloged(self) -> Catalog:
        """The catalog, opened; one that is damaged is put aside."""
        path = self.home / homes.CATALOG
        top = os.path.join(self.folder, "")
        try:
            return Catalog(path, top)
        except Damaged:
            with self._locked(0):
                try:
                    return Catalog(path, top)  # another process was faster
                except Damaged as error:
                    self._set_aside(error)
                    return Catalog(path, top)

    def _locked(self, wait: float) -> Any:
        return locked(self.home / "update.lock", wait, "is updating this library")

    def _examine(self) -> None:
        """Look closely at what a reader found damaged since the last update."""
        suspected = homes.suspected(self.home)
        if suspected == homes.CATALOG:
            raise self.catalog.damaged("a part of it could not be read")
        if suspected is not None and (index := self.index) is not None:
            with self.trusting():
                for key in index:
                    self.number(key)
            if problems := index.verify():
                raise Damaged(problems[0], index.path.name)
        homes.trust(self.home)

    def _set_aside(self, error: Damaged) -> None:
        """Put what is damaged aside, so that it is made again."""
        if error.index is None:
            homes.set_aside(self.home, homes.CATALOG)
        else:
            homes.set_aside(self.home, error.index)
            self.catalog.forget_index()
        homes.trust(self.home)
        self._mended.append(f"{error.fact}; it was put aside, and is made again from the pictures; decisions are kept")

    def _refuse_inside(self) -> None:
        inside = self.home == self.folder or self.home.is_relative_to(self.folder)
        if inside and self.home != homes.home_of(self.folder):
            raise InputError(
                f"{printable(self.home)}: the index must not lie inside the folder of pictures "
                f"{printable(self.folder)}; give another folder with --index"
            )
        if any(self.folder.is_relative_to(place) for place in (self.home, self.data, *homes.roots())):
            raise InputError(f"{printable(self.folder)}: here ISCH keeps its own files; expected a folder of pictures")


def _checked(index: Index) -> Index:
    """An index, if it is one that an update makes: by our network, with its vectors, and of our codes."""
    own = describing.network()
    encoder = index.encoder
    described = encoder.describer
    known = described is not None and (described.name, described.get_params()) == (own.name, own.get_params())
    facts = index.info()
    if not known or facts["keep_features"] != "float16" or facts["method"] not in METHODS:
        raise FormatError(f"{index.path}: not the index of a photo library")
    return index
