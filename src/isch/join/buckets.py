"""Buckets of rows that agree on some of their bits, found by sorting a hash of those bits.

A key has a hash in its upper bits and the row in its lower bits, so sorting keys sorts rows into buckets. Rows that
agree share a bucket. Rows that share a bucket usually agree, but hashes may collide, so callers must compare.
"""

from functools import cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Keys = NDArray[np.uint64]
Rows = NDArray[np.int64]

EVERY = np.empty(0, np.int64)  # in place of a list of rows: all of them


def as_words(codes: NDArray[np.uint8]) -> Words:
    """Packed codes (n, bytes) as 64-bit words (n, words), zero padded; no copy where the bytes allow it.

    Read-only, so that kernels are compiled for one type alone.
    """
    n, n_bytes = codes.shape
    if n_bytes % 8 or codes.ctypes.data % 8:
        padded = np.zeros((n, -(-n_bytes // 8) * 8), np.uint8)
        padded[:, :n_bytes] = codes
        codes = padded
    return read_only(codes.view("<u8").astype(np.uint64, copy=False))


def read_only(words: Words) -> Words:
    """A view that cannot be written to."""
    view = words.view()
    view.flags.writeable = False
    return view


def row_bits(n: int) -> int:
    """Bits that hold the number of any of n rows."""
    return max(1, (n - 1).bit_length())


def sorted_keys(words: Words, rows: Rows, mask: Words) -> Keys:
    """The keys of some rows by the bits of ``mask`` (words,), sorted."""
    used = np.flatnonzero(mask)
    keys = np.empty(len(rows) if len(rows) else len(words), np.uint64)
    fill_keys(words, rows, used, mask[used], _multipliers(words.shape[1])[used], row_bits(len(words)), keys)
    keys.sort()
    return keys


def rows_of(keys: Keys, n: int) -> Rows:
    """The rows of keys, out of n."""
    return (keys & np.uint64((1 << row_bits(n)) - 1)).astype(np.int64)


@cache
def _multipliers(n_words: int) -> Words:
    """Odd numbers, drawn anew by each process, so that nobody can craft collisions. No result depends on them."""
    return np.random.default_rng().integers(0, 2**63, n_words, np.uint64) * np.uint64(2) + np.uint64(1)


@njit(cache=True, nogil=True)
def fill_keys(words, rows, used, mask, multipliers, bits, keys):  # type: ignore[no-untyped-def]
    """The key of each row: a multilinear hash of the words ``used`` under a mask, above the row's own ``bits``."""
    clear = ~((np.uint64(1) << np.uint64(bits)) - np.uint64(1))
    for i in range(len(keys)):
        row = rows[i] if len(rows) else i
        total = np.uint64(0)
        for j in range(len(used)):
            total += (words[row, used[j]] & mask[j]) * multipliers[j]
        keys[i] = (total & clear) | np.uint64(row)
