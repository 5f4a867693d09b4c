"""All pairs of copies in a library: searched for once for each state of the collection, and kept in its catalog.

So the next start, and every change of the setting, only reads them.
"""

import hashlib
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch import compute, progress
from isch.describe.base import unit_rows
from isch.errors import FileError, InputError
from isch.files import reading
from isch.photos import candidates, exact, fingerprint, matching
from isch.photos.candidates import Matches
from isch.photos.catalog import Item
from isch.photos.fingerprint import FINGERPRINT
from isch.photos.groups import group_matches
from isch.photos.library import Library

_NAME = "copies"
_PIXELS, _PIXELS_KEY = "pixels", "1"
_NOISE = 512
_RECORD = np.dtype([("first", "<i8"), ("second", "<i8"), ("distance", "<f4")])


class Copies(NamedTuple):
    """Pairs of copies; row i of the matches is the picture ``numbers[i]`` with the content ``digests[i]``."""

    revision: str
    numbers: list[int]
    digests: list[str]
    matches: Matches


def find_copies(library: Library) -> Copies:
    """The pairs of copies among the pictures of a library as it is now."""
    catalog = library.catalog
    revision, rows = catalog.at_once(lambda: (catalog.revision(), catalog.digests()))
    numbers, digests = [number for number, _ in rows], [digest for _, digest in rows]
    key = f"{revision} {fingerprint.VERSION} {matching.VERSION}"
    kept = catalog.kept(_NAME, key)
    matches = None if kept is None else _unpacked(kept, len(numbers))
    if matches is None:
        matches = _searched(library, numbers, digests)
        catalog.keep(_NAME, key, _packed(matches))
    return Copies(revision, numbers, digests, matches)


@contextmanager
def compiling() -> Iterator[None]:
    """Compile meanwhile what the search needs, in another process: in a new installation that takes half a minute."""
    command, nowhere = [sys.executable, "-m", "isch.photos.copies"], subprocess.DEVNULL
    with subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere) as process:
        try:
            yield
        finally:
            process.kill()


def warm_up() -> None:
    """Search pictures of noise for copies, which compiles everything and keeps it for other processes."""
    rng = np.random.default_rng(0)
    prints = fingerprint.from_squares(
        rng.integers(0, 256, (_NOISE, fingerprint.SIDE, fingerprint.SIDE, 3), np.uint8), [(1, 1)] * _NOISE
    )
    vectors = unit_rows(rng.standard_normal((_NOISE, 64), np.float32))
    prints[1], vectors[3] = prints[0], vectors[2]  # one pair by its hashes, one that is looked at more closely
    group_matches(matching.find_matches(prints, vectors), _NOISE)


def _searched(library: Library, numbers: list[int], digests: list[str]) -> Matches:
    prints = np.zeros(len(numbers), FINGERPRINT)  # of a picture that is gone by now: nothing, and so without copies
    places = {number: row for row, number in enumerate(numbers)}
    for number, blob in library.catalog.fingerprints():
        if number in places and isinstance(blob, bytes) and len(blob) == FINGERPRINT.itemsize:
            prints[places[number]] = np.frombuffer(blob, FINGERPRINT)[0]
    pixels = Pixels(library, numbers, digests)
    known = exact.identical(prints, digests, pixels)
    pixels.keep()
    return candidates.least(len(numbers), [known, matching.find_matches(prints, _vectors(library, places))])


class Pixels:
    """Hashes of what pictures show: each content is decoded once and its hash kept in the catalog."""

    def __init__(self, library: Library, numbers: list[int], digests: list[str]) -> None:
        self._catalog, self._numbers, self._digests = library.catalog, numbers, digests
        kept = self._catalog.kept(_PIXELS, _PIXELS_KEY) or b""
        self._known = dict(np.frombuffer(kept[: len(kept) // 128 * 128], "S64").reshape(-1, 2).tolist())

    def __call__(self, rows: Iterable[int]) -> dict[int, str]:
        """The hash of the pixels of each row; without those that cannot be read, or have changed meanwhile."""
        wanted = {self._digests[row].encode(): row for row in rows}
        missing = [row for digest, row in wanted.items() if digest not in self._known]
        items = self._catalog.items([self._numbers[row] for row in missing])
        looks = [(row, items[self._numbers[row]]) for row in missing if self._numbers[row] in items]
        with progress.task("comparing pixels", len(looks), "pictures") as advance:
            for row, value in compute.parallel(_look, looks, blas=False):
                advance(1)
                if value is not None:
                    self._known[self._digests[row].encode()] = value.encode()
        return {row: self._known[digest].decode() for digest, row in wanted.items() if digest in self._known}

    def keep(self) -> None:
        """Store the hashes of the pictures that there are."""
        here = {digest.encode() for digest in self._digests}
        rows = [pair for pair in self._known.items() if pair[0] in here]
        self._catalog.keep(_PIXELS, _PIXELS_KEY, np.array(rows, "S64").tobytes())


def _look(wanted: tuple[int, Item]) -> tuple[int, str | None]:
    """(row, the hash of the pixels of an item); None if its file cannot be read or has changed."""
    row, item = wanted
    try:
        with reading(item.path) as file:
            content = file.read(item.bytes + 1)
        same = hashlib.sha256(content).hexdigest() == item.digest
        return row, exact.pixel_hash(content) if same else None
    except (FileError, InputError):
        return row, None


def _vectors(library: Library, places: dict[int, int]) -> NDArray[np.float32] | None:
    """The vectors of all pictures, each in its place."""
    out: NDArray[np.float32] | None = None
    for numbers, vectors in library.vectors():
        if out is None:
            out = np.zeros((len(places), vectors.shape[1]), np.float32)
        known = [i for i, number in enumerate(numbers) if number in places]
        out[[places[numbers[i]] for i in known]] = vectors[known]
    return out


def _packed(matches: Matches) -> bytes:
    records = np.empty(len(matches.first), _RECORD)
    for name, column in zip(Matches._fields, matches, strict=True):
        records[name] = column
    return records.tobytes()


def _unpacked(content: bytes, n: int) -> Matches | None:
    """The pairs as they were kept; None if they are not pairs of n pictures."""
    if len(content) % _RECORD.itemsize:
        return None
    records = np.frombuffer(content, _RECORD)
    first, second, distance = (np.ascontiguousarray(records[name]) for name in Matches._fields)
    sound = (first >= 0) & (first < second) & (second < n) & (distance >= 0) & (distance <= matching.FURTHEST)
    return Matches(first, second, distance) if sound.all() else None


if __name__ == "__main__":
    warm_up()
