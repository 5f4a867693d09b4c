"""The kernels that find pairs, each against its plain NumPy twin."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isch.join.buckets import rows_of
from isch.join.kernels import (
    Agreement,
    Found,
    bucket_borders,
    keep_agreeing,
    pairs_of_buckets,
    pairs_of_tiles,
    room,
)
from isch.scan import hamming

Array = NDArray[Any]
Triples = list[tuple[int, int, int]]


def some_words(seed: int, n: int, n_words: int) -> Array:
    """Codes near a few centres, so that some pairs are near."""
    rng = np.random.default_rng(seed)
    words: Array = rng.integers(0, 2**64, (5, n_words), np.uint64)[rng.integers(0, 5, n)]
    for _ in range(3):
        words[np.arange(n), rng.integers(0, n_words, n)] ^= np.uint64(1) << rng.integers(0, 64, n, np.uint64)
    return words


def plain_pairs(words: Array, rows: Array, radius: int) -> Triples:
    distances = np.bitwise_count(words[rows][:, None] ^ words[rows][None]).sum(axis=2)
    return [(int(rows[i]), int(rows[j]), int(distances[i, j])) for i, j in np.argwhere(np.triu(distances <= radius, 1))]


def plain_agrees(words: Array, a: int, b: int, agreement: Agreement) -> bool:
    equal = ((words[a] ^ words[b]) & agreement.masks[: len(agreement.wanted)] == 0).all(axis=1)
    return bool((equal == agreement.wanted).all())


def listed(found: Found, count: int) -> Triples:
    return list(zip(*(column[:count].tolist() for column in found), strict=True))


def anything(n_words: int) -> Agreement:
    return Agreement(np.empty((0, n_words), np.uint64), np.empty(0, np.bool_))


def first_word_only(n_words: int) -> Agreement:
    """Pairs that agree on the upper half of the last word but not on the lower half of the first."""
    masks = np.zeros((2, n_words), np.uint64)
    masks[0, 0], masks[1, -1] = 0xFFFFFFFF, 0xFFFFFFFF << 32
    return Agreement(masks, np.array([False, True]))


@pytest.mark.parametrize("n", [1, 2, 8, 9, 100])
@pytest.mark.parametrize("n_words", [1, 2, 4, 9])
@pytest.mark.parametrize("radius", [0, 4, 64 * 9])
def test_pairs_of_tiles(n: int, n_words: int, radius: int) -> None:
    words = some_words(n, n, n_words)
    tiles, found = hamming.lay_out(words.view(np.uint8)), Found.empty(room(n))
    count, stopped = pairs_of_tiles(tiles, n, 0, 0, len(tiles), radius, found)
    assert stopped == len(tiles)
    assert sorted(listed(found, count)) == plain_pairs(words, np.arange(n), radius)


def test_pairs_of_some_tiles_with_earlier_ones_in_small_steps() -> None:
    words = some_words(3, 100, 2)
    tiles, found, all_found, start = hamming.lay_out(words.view(np.uint8)), Found.empty(300), [], 0
    while start < 9:
        count, start = pairs_of_tiles(tiles, 100, start, 5, 9, 8, found)
        all_found += listed(found, count)
    expected = [pair for pair in plain_pairs(words, np.arange(100), 8) if 40 <= pair[1] < 72]
    assert sorted(all_found) == expected


@pytest.mark.parametrize("n_words", [1, 3, 9])
@pytest.mark.parametrize("agreement", [anything, first_word_only])
@pytest.mark.parametrize("largest", [1, 10, 40, 1000])
def test_pairs_of_buckets(n_words: int, agreement: Any, largest: int) -> None:
    words, rng = some_words(1, 300, n_words), np.random.default_rng(0)
    bucket = np.sort(rng.integers(0, 12, 300) ** 2 // 12).astype(np.uint64)
    keys = np.sort((bucket << np.uint64(9)) | rng.permutation(300).astype(np.uint64))
    rule, rows, expected = agreement(n_words), rows_of(keys, 300), []
    for number in np.unique(bucket):
        inside = rows[bucket == number]
        if len(inside) <= largest:
            expected += [p for p in plain_pairs(words, inside, 6) if plain_agrees(words, p[0], p[1], rule)]
    assert len(expected) > 0 or largest < 40
    found, all_found, start = Found.empty(room(min(largest, 300))), [], 0
    while start < len(keys):
        count, start = pairs_of_buckets(words, keys, (9, largest, 6), start, rule, found)
        all_found += listed(found, count)
    assert sorted(all_found) == sorted(expected)


def test_keep_agreeing() -> None:
    words, rows = some_words(2, 50, 2), np.arange(49, -1, -1)
    first, second = np.triu_indices(50, 1)
    found = Found(first.copy(), second.copy(), np.arange(len(first), dtype=np.int32))
    count = keep_agreeing(words, rows, first_word_only(2), found, len(first))
    expected = [
        (int(rows[a]), int(rows[b]), i)
        for i, (a, b) in enumerate(zip(first, second, strict=True))
        if plain_agrees(words, rows[a], rows[b], first_word_only(2))
    ]
    assert 0 < count < len(first)
    assert listed(found, count) == expected


@pytest.mark.parametrize("largest", [1, 3, 30])
def test_bucket_borders(largest: int) -> None:
    sizes = [1, 5, 3, 4, 1, 30, 31, 2]
    keys = (np.repeat(np.arange(8, dtype=np.uint64), sizes) << np.uint64(7)) | np.arange(77, dtype=np.uint64)
    starts = np.cumsum([0, *sizes])
    expected = [[starts[i], starts[i + 1]] for i in range(8) if sizes[i] > largest]
    assert bucket_borders(keys, 7, largest).tolist() == expected
    assert bucket_borders(keys[:0], 7, largest).tolist() == []
