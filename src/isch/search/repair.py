"""Making a damaged index usable: every undamaged segment is kept, the rest is moved aside and named.

Nothing is removed. Damaged files are moved into a new folder in that of the index before a new catalog takes the place
of the old one. A repair that fails moves them back; one that was killed between the two is done by running it again.
"""

import heapq
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch import progress
from isch.errors import IschError, NotDurable
from isch.files import sync
from isch.locks import locked
from isch.search import catalog as catalogs
from isch.search import items as item_files
from isch.search import rebuild
from isch.search.catalog import Catalog, SegmentRow
from isch.search.folder import LOCK, SEGMENTS, checked, model_file
from isch.search.segments import Segment, read_dead, write_dead
from isch.search.snapshot import worded
from isch.search.verify import told

Marks = NDArray[np.bool_]


class Repaired(NamedTuple):
    """What a repair did.

    Parameters
    ----------
    items : int
        Items that the index has now.
    found : list of str
        A sentence for each problem, which says what was lost.
    aside : Path or None
        The folder with the damaged files; None if nothing was wrong.
    """

    items: int
    found: list[str]
    aside: Path | None


def repair(path: Path, wait: float) -> Repaired:
    """Keep what is undamaged of the index at ``path``.

    Parameters
    ----------
    path : Path
        The index.
    wait : float
        Seconds to wait for another writer.

    Raises
    ------
    FormatError
        The model is damaged or missing, or nothing is left to make a catalog from; nothing was changed.
    """
    folder = checked(path, catalog=False)
    with locked(folder / LOCK, wait, "is writing to this index"):
        try:
            return _Repair(folder).done()
        except OSError as error:
            raise worded(error, folder) from error


class _Repair:
    """One repair: what was found, and what is to be moved aside."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.segments = folder, folder / SEGMENTS
        self.found: list[str] = []
        self.damaged: list[Path] = []
        self.lost_keys: dict[str, list[catalogs.Key]] = {}  # by the name of a segment
        self.uncertain = False  # whether a key may be in several segments

    def done(self) -> Repaired:
        """Repair, if anything is wrong."""
        catalog = self._catalog()
        if catalog.model is not None:
            model_file(self.folder, catalog)
        kept = self._kept(catalog)
        rows = [self._marked(*entry) for entry in zip(*self._without_repeated(kept), strict=True)]
        new = replace(catalog, segments=tuple(rows), generation=catalog.generation + 1)
        if not self.found:
            return Repaired(catalog.n_items, [], None)
        sync(self.segments)
        return Repaired(new.n_items, self.found, self._publish(new))

    def _catalog(self) -> Catalog:
        try:
            return catalogs.read(self.folder)
        except FileNotFoundError:
            problem = f"{self.folder / catalogs.FILE}: the catalog is missing"
        except IschError as error:
            problem = str(error)
            rebuild.refuse_newer(self.folder, error)
        rebuilt = rebuild.rebuilt(self.folder)
        self.found += [f"{problem}; it was made anew from the segments", *rebuilt.found]
        self.damaged += rebuilt.damaged
        self.uncertain = True
        return rebuilt.catalog

    def _kept(self, catalog: Catalog) -> list[tuple[Segment, Marks]]:
        """The undamaged segments, and which of their rows are deleted."""
        kept = []
        with progress.task("verifying", sum(row.n_rows for row in catalog.segments), "rows") as advance:
            for row in catalog.segments:
                segment = self._whole(row, catalog)
                if segment is not None:
                    kept.append((segment, self._dead(row, segment)))
                advance(row.n_rows)
        return kept

    def _whole(self, row: SegmentRow, catalog: Catalog) -> Segment | None:
        """A segment, if every byte of it is right."""
        opened: list[Segment] = []
        problems = told(lambda: opened.append(Segment(self.segments, row, catalog, self.segments)))
        for check in opened[0].checks() if opened else ():
            problems = problems or told(check)
        if not problems:
            return opened[0]
        self.found.append(f"segment {row.name} is lost with {row.n_live} items: {problems[0]}")
        self.damaged += [path for name in row.files if os.path.lexists(path := self.segments / name)]
        self._note_keys(row)
        return None

    def _note_keys(self, row: SegmentRow) -> None:
        """The keys of a lost segment, where its items are undamaged: they can be added again."""
        with suppress(IschError, OSError):
            items = item_files.opened(self.segments / f"{row.name}.items", row.n_rows, row.items_bytes, row.items)
            items.check()
            live = read_dead(self.segments, row)
            self.lost_keys[row.name] = [key for at, key in items.by_row() if live is None or live[at]]

    def _dead(self, row: SegmentRow, segment: Segment) -> Marks:
        """Which rows of a segment are deleted, as far as that is known."""
        live: list[Marks | None] = []
        if problems := told(lambda: live.append(read_dead(self.segments, row))):
            assert row.dead is not None
            self.found.append(
                f"segment {row.name}: {row.dead.count} items that were deleted can be found again, unless they were "
                f"replaced: {problems[0]}"
            )
            if os.path.lexists(path := self.segments / f"{row.dead.name}.dead"):
                self.damaged.append(path)
            self.uncertain = True
            return ~segment.items.present()
        return np.zeros(len(segment), np.bool_) if live[0] is None else ~live[0]

    def _without_repeated(self, kept: list[tuple[Segment, Marks]]) -> tuple[list[Segment], list[Marks]]:
        """The same, and of a key that is in several segments only the item that was added last is not deleted."""
        segments, marks = [segment for segment, _ in kept], [dead.copy() for _, dead in kept]
        if self.uncertain:
            for i, segment in enumerate(segments):
                marks[i] |= ~segment.items.present()
            before: tuple[object, int, int] | None = None
            for _, key, i, row in heapq.merge(*(_keys(i, *entry) for i, entry in enumerate(kept))):
                if before is not None and before[0] == key:
                    marks[before[1]][before[2]] = True
                before = key, i, row
        return segments, marks

    def _marked(self, segment: Segment, dead: Marks) -> SegmentRow:
        """The segment in the new catalog, with a new file for its deleted rows if the old one does not say the same."""
        row = segment.row
        if row.dead is not None and self.segments / f"{row.dead.name}.dead" not in self.damaged:
            known = read_dead(self.segments, row)
            if known is not None and (~known == dead).all():
                return row
        return replace(row, dead=write_dead(self.segments, token_hex(8), dead) if dead.any() else None)

    def _publish(self, catalog: Catalog) -> Path:
        """Move what is damaged aside and write the new catalog; gives the folder of what was moved."""
        aside = self._aside()
        moved: list[tuple[Path, Path]] = []
        try:
            if os.path.lexists(old := self.folder / catalogs.FILE) and old not in self.damaged:
                (aside / catalogs.FILE).write_bytes(old.read_bytes())
            for name, keys in self.lost_keys.items():
                (aside / f"{name}.keys").write_text("".join(json.dumps(key) + "\n" for key in keys), "utf-8")
            for path in self.damaged:
                moved.append((path, aside / path.name))
                os.rename(*moved[-1])
            catalogs.write(self.folder, catalog)
        except NotDurable:
            raise
        except BaseException:
            for path, place in moved:
                if os.path.lexists(place):
                    os.rename(place, path)
            for path in aside.iterdir():
                path.unlink()
            aside.rmdir()
            raise
        return aside

    def _aside(self) -> Path:
        """A new folder for what is damaged."""
        for number in range(1, 10_000):
            with suppress(FileExistsError):
                aside = self.folder / f"damaged-{number}"
                aside.mkdir()
                return aside
        raise FileExistsError(f"{self.folder}: too many folders of damaged files")


def _keys(i: int, segment: Segment, dead: Marks) -> Iterator[tuple[bool, catalogs.Key, int, int]]:
    """The keys of a segment in order, and where they are."""
    for key, row in segment.items.sorted():
        if not dead[row]:
            yield isinstance(key, str), key, i, row
