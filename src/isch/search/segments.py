"""Segments: some rows of an index in files that never change. docs/formats.md gives them byte by byte.

A codes file holds packed codes in the layout of the kernels, tiles of 8 rows as uint64 (tile, word, lane). A features
file holds the original vectors of the same rows. Both are memory-mapped. A dead file has one bit per row, set if the
row was deleted since. Keys and metadata are in the items file.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes, width
from isch.errors import FormatError
from isch.lookup.policy import LookupPolicy
from isch.scan.exact import CodeTable
from isch.scan.source import LANES
from isch.search import items
from isch.search.catalog import Catalog, DeadRow, SegmentRow
from isch.search.sealed import CODES, DEAD, FEATURES, ITEMS, READ_BYTES, SegmentFile, SegmentWriter


def gather(table: NDArray[np.uint64], rows: NDArray[np.integer[Any]], n_bytes: int) -> Codes:
    """The packed codes of the given rows of tiles."""
    words = np.ascontiguousarray(table[rows // LANES, :, rows % LANES])
    return np.ascontiguousarray(words.view(np.uint8)[:, :n_bytes])


class Segment:
    """An open segment: codes, items, and features if they are kept.

    Parameters
    ----------
    folder : Path
        Where its codes and features are.
    row : SegmentRow
        What the catalog knows of it.
    catalog : Catalog
        The index it belongs to.
    items_folder : Path
        Where its items are.
    """

    def __init__(self, folder: Path, row: SegmentRow, catalog: Catalog, items_folder: Path) -> None:
        self.row, self.n_bits = row, catalog.n_bits
        self.files = [SegmentFile(folder / f"{row.name}.codes", CODES, (row.n_rows, catalog.n_bits), row.codes)]
        shape = (width(row.n_rows), width(width(catalog.n_bits)), LANES)
        self.tiles: NDArray[np.uint64] = self.files[0].array("<u8", shape)
        self.lookup = LookupPolicy(CodeTable.from_tiles(self.tiles, row.n_rows, width(catalog.n_bits)))
        self.features: NDArray[Any] | None = None
        if row.features is not None:
            columns, kept_type = catalog.kept_columns
            vectors = (row.n_rows, columns)
            self.files.append(SegmentFile(folder / f"{row.name}.features", FEATURES, vectors, row.features))
            self.features = self.files[1].array("<f2" if kept_type == "float16" else "<f4", vectors)
        self.items = items.opened(items_folder / f"{row.name}.items", row.n_rows, row.items_bytes, row.items)
        self.bodies = {file.header.kind: file for file in self.files}
        if isinstance(self.items, items.StoredItems):
            self.bodies[ITEMS] = self.items.file

    def __len__(self) -> int:
        return self.row.n_rows

    @property
    def n_file_bytes(self) -> int:
        """Bytes of its files."""
        return sum(file.header.file_bytes for file in self.files) + self.items.n_bytes

    def codes(self, rows: NDArray[np.integer[Any]]) -> Codes:
        """The packed codes of rows."""
        return gather(self.tiles, rows, width(self.n_bits))

    def checks(self) -> list[Callable[[], None]]:
        """What reads each of its files and raises an error if it is damaged."""
        return [*(file.check for file in self.files), self._check_padding, self.items.check]

    def _check_padding(self) -> None:
        """Nothing is set behind the last bit of a code, nor behind the last row."""
        n_bytes = 8 * self.tiles.shape[1]
        behind = np.arange(8 * n_bytes) >= self.n_bits
        mask = np.packbits(behind).view("<u8").reshape(-1, 1)
        rows_behind = np.arange(LANES) >= len(self) - LANES * (len(self.tiles) - 1)
        step = max(1, READ_BYTES // (LANES * n_bytes))
        some = (self.tiles[start : start + step, -1] & mask[-1] for start in range(0, len(self.tiles), step))
        if any(words.any() for words in some) or self.tiles[-1][:, rows_behind].any():
            raise FormatError(f"{self.files[0].path}: the segment is damaged (bits are set behind the codes)")


def write_dead(folder: Path, name: str, marks: NDArray[np.bool_]) -> DeadRow:
    """Write which rows of a segment are deleted."""
    with SegmentWriter(folder / f"{name}.dead", DEAD, 1, np.uint8) as writer:
        writer.append_marks(marks)
        return DeadRow(name, int(np.count_nonzero(marks)), writer.finish())


def read_dead(folder: Path, row: SegmentRow) -> NDArray[np.bool_] | None:
    """Which rows of a segment are not deleted, checked; None: all."""
    if row.dead is None:
        return None
    file = SegmentFile(folder / f"{row.dead.name}.dead", DEAD, (row.n_rows, 1), row.dead.digest)
    file.check()
    marks = np.unpackbits(file.array("u1", (width(row.n_rows),)), count=row.n_rows).view(np.bool_)
    if np.count_nonzero(marks) != row.dead.count:
        raise FormatError(f"{file.path}: expected {row.dead.count} deleted rows; got {np.count_nonzero(marks)}")
    return ~marks
