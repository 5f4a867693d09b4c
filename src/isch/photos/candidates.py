"""Pairs of pictures that may be copies, found by the search kernels without looking at all pairs.

By perceptual hash: every picture's hash is the stored side; its eight orientations and twelve crops, of the whole and
of what lies inside its borders, are the queries. Stored hashes lie on 256 shelves by their lowest coefficients, and a
query goes only to those where its copies may be. By vector: signs of random projections find pairs with a high cosine.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch import codes as packed
from isch import compute
from isch.codes import Codes
from isch.join.pairs import pairs_blocks
from isch.photos import phash
from isch.photos.fingerprint import INSIDE, WHOLE, Fingerprints
from isch.scan import hamming
from isch.scan.source import Source

PICTURES_AT_ONCE = 8192
N_SHELVES = 256
MOST = 256  # candidates by hash that one picture can have: the nearest
N_SIGNS = 1024
ALIKE = 205  # signs of 1,024 that may differ between vectors with a cosine of 0.8
_ROWS_AT_ONCE = 4096
_COMPARED_AT_ONCE = 1 << 23  # pairs of hashes: so many hits fit into memory even if all are
_SCANNED = 16  # bytes of a hash that the kernels compare; the rest is compared of the few pairs that come so near

Rows = NDArray[np.int64]
Vectors = NDArray[np.floating[Any]]  # (n, d), rows of length 1


class Matches(NamedTuple):
    """Pairs of pictures: ``first[i] < second[i]``, ``distance[i]`` apart, sorted by (first, second)."""

    first: Rows
    second: Rows
    distance: NDArray[np.float32]

    def where(self, chosen: NDArray[np.bool_]) -> "Matches":
        """Some of the pairs."""
        return Matches(self.first[chosen], self.second[chosen], self.distance[chosen])

    def numbers(self, n: int) -> Rows:
        """One number for each pair of n pictures."""
        return self.first * n + self.second

    def without(self, others: "Matches", n: int) -> "Matches":
        """The pairs of n pictures that are not among others."""
        return self.where(~np.isin(self.numbers(n), others.numbers(n)))


def by_hash(fingerprints: Fingerprints, rows: Rows, radius: int) -> Matches:
    """Pairs of the given rows whose hashes come within ``radius`` bits in some orientation, crop and region."""
    if len(rows) < 2:
        return least(0, [])
    shelves, found = _shelves(fingerprints, rows), least(0, [])
    for start in range(0, len(rows), PICTURES_AT_ONCE):
        queries = Queries.of(fingerprints, rows[start : start + PICTURES_AT_ONCE])
        found = least(len(fingerprints), [found, _search(queries, shelves, radius, len(fingerprints))])
    return found


def by_vector(vectors: Vectors, rows: Rows, known: Matches, most: int) -> Matches:
    """Pairs of the given rows whose vectors have a cosine of about 0.8 and more; distance is the signs that differ.

    Pairs that are known are left out, and of the others those that are not among the ``most`` nearest of a picture.
    """
    n, found = len(vectors), least(0, [])
    if len(rows) > 1:
        for pairs in pairs_blocks(signs(vectors, rows), ALIKE):
            block = Matches(rows[pairs.first], rows[pairs.second], pairs.distance.astype(np.float32))
            found = nearest(least(n, [found, block.without(known, n)]), most)
    return found


def signs(vectors: Vectors, rows: Rows) -> Codes:
    """Signs of random projections of the given rows, always the same ones."""
    directions = np.random.default_rng(0).standard_normal((vectors.shape[1], N_SIGNS), np.float32)
    parts = (rows[start : start + _ROWS_AT_ONCE] for start in range(0, len(rows), _ROWS_AT_ONCE))
    return np.concatenate([packed.pack(np.asarray(vectors[part], np.float32) @ directions > 0) for part in parts])


class Shelf(NamedTuple):
    """Stored hashes with the same lowest coefficients, and the picture of each."""

    source: Source
    codes: Codes
    owner: Rows

    @classmethod
    def of(cls, codes: Codes, owner: Rows) -> "Shelf":
        """A shelf with these hashes."""
        seen = np.ascontiguousarray(codes[:, :_SCANNED])
        return cls(Source.of(hamming.lay_out(seen), *seen.shape), codes, owner)


class Queries(NamedTuple):
    """Every orientation and crop of both regions of some pictures."""

    codes: Codes
    shelf: NDArray[np.uint8]
    unsure: NDArray[np.uint8]
    asker: Rows  # the picture of each

    @classmethod
    def of(cls, fingerprints: Fingerprints, rows: Rows) -> "Queries":
        """The queries of the pictures in some rows; equal regions once."""
        some = fingerprints[rows]
        bordered = _bordered(some)
        codes = np.concatenate([some["codes"][:, WHOLE], some["codes"][bordered, INSIDE]])
        unsure = np.concatenate([some["unsure"][:, WHOLE], some["unsure"][bordered, INSIDE]])
        asker = np.repeat(np.concatenate([rows, rows[bordered]]), codes.shape[1])
        turned = phash.orientations(codes.reshape(-1, phash.N_BYTES)).reshape(-1, phash.N_BYTES)
        masks = phash.unsure_orientations(unsure.ravel()).ravel()
        return cls(turned, phash.shelves(turned), masks, np.tile(asker, phash.N_ORIENTATIONS))

    def near(self, chosen: NDArray[np.int32], shelf: Shelf, radius: int) -> Matches:
        """Pairs of the pictures of some queries with those on a shelf."""
        codes = self.codes.view(f"V{phash.N_BYTES}").ravel()[chosen].view(np.uint8).reshape(-1, phash.N_BYTES)
        query, _, row = hamming.within(shelf.source, codes[:, :_SCANNED], radius, np.empty(0, np.uint8)).T
        distance = np.bitwise_count(codes[query] ^ shelf.codes[row]).sum(axis=1, dtype=np.int64)
        one, other = self.asker[chosen[query]], shelf.owner[row]
        pairs = Matches(np.minimum(one, other), np.maximum(one, other), distance.astype(np.float32))
        return pairs.where((one != other) & (distance <= radius))


def _bordered(fingerprints: Fingerprints) -> NDArray[np.bool_]:
    """Which pictures have borders, so that their two regions differ."""
    codes = fingerprints["codes"][:, :, 0]
    return np.asarray((codes[:, WHOLE] != codes[:, INSIDE]).any(axis=1))


def _shelves(fingerprints: Fingerprints, rows: Rows) -> dict[int, Shelf]:
    """The stored hashes: of the whole, and of what is inside the borders where there are some."""
    some = fingerprints[rows]
    bordered = _bordered(some)
    codes = np.concatenate([some["codes"][:, WHOLE, 0], some["codes"][bordered, INSIDE, 0]])
    owner, shelf = np.concatenate([rows, rows[bordered]]), phash.shelves(codes)
    places = ((number, np.flatnonzero(shelf == number)) for number in range(N_SHELVES))
    return {number: Shelf.of(codes[at], owner[at]) for number, at in places if len(at)}


def _search(queries: Queries, shelves: dict[int, Shelf], radius: int, n: int) -> Matches:
    """Pairs of the pictures that ask with all others."""
    offsets, order = routes(queries.shelf, queries.unsure)

    def work(number: int) -> Matches:
        shelf, chosen = shelves[number], order[offsets[number] : offsets[number + 1]]
        step = max(1, _COMPARED_AT_ONCE // len(shelf.owner))
        parts = (chosen[start : start + step] for start in range(0, len(chosen), step))
        return least(n, [nearest(least(n, [queries.near(some, shelf, radius)]), MOST) for some in parts])

    return nearest(least(n, list(compute.parallel(work, shelves, blas=False))), MOST)


@njit(cache=True, nogil=True)
def routes(shelf, unsure):  # type: ignore[no-untyped-def]
    """(offsets, queries): ``queries[offsets[s] : offsets[s + 1]]`` are those whose copies may be on shelf s.

    A query goes to its shelf and to those that differ from it in unsure bits only.
    """
    counts = np.zeros(N_SHELVES + 1, np.int64)
    for query in range(len(shelf)):
        home, free = np.int64(shelf[query]), np.int64(unsure[query])
        for change in range(free + 1):
            counts[(home ^ change) + 1] += change & ~free == 0
    offsets = np.cumsum(counts)
    queries, at = np.empty(offsets[-1], np.int32), offsets.copy()
    for query in range(len(shelf)):
        home, free = np.int64(shelf[query]), np.int64(unsure[query])
        for change in range(free + 1):
            if change & ~free == 0:
                queries[at[home ^ change]] = query
                at[home ^ change] += 1
    return offsets, queries


def least(n: int, parts: Sequence[Matches]) -> Matches:
    """Pairs of n pictures from several lists, each pair once with its least distance, sorted."""
    if not parts:
        return Matches(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
    every = Matches(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    number = every.numbers(n)
    order = np.lexsort((every.distance, number))
    order = order[np.flatnonzero(np.diff(number[order], prepend=-1))]
    return Matches(every.first[order], every.second[order], every.distance[order])


def nearest(matches: Matches, most: int) -> Matches:
    """The pairs that are among the ``most`` nearest of at least one of their two pictures."""
    if len(matches.first) <= most:
        return matches
    picture = np.concatenate([matches.first, matches.second])
    order = np.lexsort((np.tile(matches.distance, 2), picture))
    starts = np.flatnonzero(np.diff(picture[order], prepend=-1))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    return matches.where(np.any((rank < most).reshape(2, -1), axis=0))
