"""Pairs of pictures that may be copies, found by the search kernels without looking at all pairs.

By perceptual hash: every picture's hash is the stored side; its eight orientations and three centre crops, of the whole
and of what lies inside its borders, are the queries. By vector: signs of random projections find pairs with a high
cosine, which uneven crops keep.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch import codes as packed
from isch.codes import Codes
from isch.photos import phash
from isch.photos.fingerprint import CROPS, FLAT, INSIDE, WHOLE, Fingerprints
from isch.search.exact import CodeTable, within
from isch.search.pairs import pairs_blocks

PICTURES_AT_ONCE = 512
N_SIGNS = 512
ALIKE = 0.8  # the least cosine of vectors that makes a pair a candidate
_SIGNS_RADIUS = 114  # of 512: cosine 0.8 is 105 bits on average
_ROWS_AT_ONCE = 4096
_PAIRS_AT_ONCE = 16_384

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


def by_hash(fingerprints: Fingerprints, radius: int) -> Matches:
    """All pairs of pictures whose hashes come within ``radius`` bits in some orientation, crop and region."""
    rows = np.flatnonzero(fingerprints["contrast"] >= FLAT)
    if len(rows) < 2:
        return least(0, [])
    stored, owner = _stored(fingerprints, rows)
    table = CodeTable(stored)
    return least(len(fingerprints), [_search(fingerprints, some, table, owner, radius) for some in _parts(rows)])


def by_vector(vectors: Vectors, rows: Rows) -> Matches:
    """Pairs of the given rows whose vectors have a cosine of at least ``ALIKE``; distance is 1 − cosine."""
    if len(rows) < 2:
        return least(0, [])
    blocks = [
        _alike(vectors, rows[pairs.first], rows[pairs.second])
        for pairs in pairs_blocks(signs(vectors, rows), _SIGNS_RADIUS)
    ]
    return least(len(vectors), blocks)


def signs(vectors: Vectors, rows: Rows) -> Codes:
    """Signs of random projections of the given rows, always the same ones."""
    directions = np.random.default_rng(0).standard_normal((vectors.shape[1], N_SIGNS), np.float32)
    parts = (rows[start : start + _ROWS_AT_ONCE] for start in range(0, len(rows), _ROWS_AT_ONCE))
    return np.concatenate([packed.pack(np.asarray(vectors[part], np.float32) @ directions > 0) for part in parts])


def _alike(vectors: Vectors, first: Rows, second: Rows) -> Matches:
    """Those of some pairs whose vectors are alike."""
    cosine = np.empty(len(first), np.float32)
    for start in range(0, len(first), _PAIRS_AT_ONCE):
        some = slice(start, start + _PAIRS_AT_ONCE)
        one, other = (np.asarray(vectors[rows[some]], np.float32) for rows in (first, second))
        cosine[some] = np.einsum("ij,ij->i", one, other)
    kept = cosine >= ALIKE
    return Matches(first[kept], second[kept], 1 - cosine[kept])


def _stored(fingerprints: Fingerprints, rows: Rows) -> tuple[Codes, Rows]:
    """(codes, the picture of each): the whole, and what is inside the borders where that differs."""
    codes = fingerprints["codes"][rows, :, 0]
    bordered = (codes[:, WHOLE] != codes[:, INSIDE]).any(axis=1)
    return np.concatenate([codes[:, WHOLE], codes[bordered, INSIDE]]), np.concatenate([rows, rows[bordered]])


def _parts(rows: Rows) -> Iterator[Rows]:
    return (rows[start : start + PICTURES_AT_ONCE] for start in range(0, len(rows), PICTURES_AT_ONCE))


def _search(fingerprints: Fingerprints, rows: Rows, table: CodeTable, owner: Rows, radius: int) -> Matches:
    """Pairs of some pictures with all others."""
    queries, asker = variants(fingerprints, rows)
    hits = within(queries, table, radius)
    one, other = np.repeat(asker, np.diff(hits.offsets)), owner[hits.rows]
    kept = one != other
    one, other, distance = one[kept], other[kept], hits.distances[kept].astype(np.float32)
    return least(len(fingerprints), [Matches(np.minimum(one, other), np.maximum(one, other), distance)])


def variants(fingerprints: Fingerprints, rows: Rows) -> tuple[Codes, Rows]:
    """(codes, the picture of each): every orientation and crop of both regions, equal regions once."""
    codes = fingerprints["codes"][rows]
    bordered = (codes[:, WHOLE, 0] != codes[:, INSIDE, 0]).any(axis=1)
    both = np.concatenate([codes[:, WHOLE], codes[bordered, INSIDE]])
    asker = np.concatenate([rows, rows[bordered]])
    turned = phash.orientations(both.reshape(-1, phash.N_BYTES)).reshape(-1, phash.N_BYTES)
    return turned, np.tile(np.repeat(asker, len(CROPS)), phash.N_ORIENTATIONS)


def least(n: int, parts: Sequence[Matches]) -> Matches:
    """Pairs of n pictures from several lists, each pair once with its least distance, sorted."""
    if not parts:
        return Matches(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
    every = Matches(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    number = every.numbers(n)
    order = np.lexsort((every.distance, number))
    order = order[np.flatnonzero(np.diff(number[order], prepend=-1))]
    return Matches(every.first[order], every.second[order], every.distance[order])
