"""Equal codes, against numpy.unique."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isch.join import representatives
from isch.join.buckets import as_words, fill_keys, sorted_keys

Array = NDArray[Any]


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
@pytest.mark.parametrize("n_distinct", [1, 30, 1000])
@pytest.mark.parametrize("n_bytes", [1, 8, 13])
def test_find(n: int, n_distinct: int, n_bytes: int) -> None:
    rng = np.random.default_rng(n)
    codes = rng.integers(0, 256, (n_distinct, n_bytes), dtype=np.uint8)[rng.integers(0, n_distinct, n)]
    found = representatives.find(as_words(codes))
    _, leaders, sizes = np.unique(codes, axis=0, return_index=True, return_counts=True)
    order = np.argsort(leaders)
    np.testing.assert_array_equal(found.leaders, leaders[order])
    np.testing.assert_array_equal(found.sizes, sizes[order])
    assert sorted(found.order.tolist()) == list(range(n))
    for code in range(len(found)):
        rows = found.rows(code)
        assert (np.diff(rows) > 0).all()
        assert (codes[rows] == codes[rows[0]]).all()


def test_codes_whose_hashes_collide_are_still_told_apart() -> None:
    words = np.array([[1], [2], [1], [3], [2]], np.uint64)
    leader, same_bucket = np.arange(5), np.arange(5, dtype=np.uint64)
    assert representatives.assign_leaders(words, same_bucket, 3, leader) == 2
    assert leader.tolist() == [0, 1, 0, 3, 1]


def plain_keys(words: Array, rows: Array, mask: Array, multipliers: Array, bits: int) -> Array:
    hashes = ((words[rows] & mask) * multipliers).sum(axis=1, dtype=np.uint64)
    return (hashes >> np.uint64(bits) << np.uint64(bits)) | rows.astype(np.uint64)


@pytest.mark.parametrize("chosen", [[], [3, 7, 40]])
def test_fill_keys(chosen: list[int]) -> None:
    rng = np.random.default_rng(0)
    words, mask, multipliers = (rng.integers(0, 2**64, shape, np.uint64) for shape in ((50, 5), 5, 5))
    rows, used = np.array(chosen, np.int64), np.array([0, 2, 3])
    keys, some = np.empty(len(chosen) or 50, np.uint64), np.zeros(5, np.uint64)
    some[used] = mask[used]
    fill_keys(words, rows, used, mask[used], multipliers[used], 6, keys)
    np.testing.assert_array_equal(keys, plain_keys(words, rows if chosen else np.arange(50), some, multipliers, 6))


def test_rows_that_agree_under_a_mask_share_a_bucket() -> None:
    words = np.random.default_rng(0).integers(0, 2**64, (64, 2), np.uint64)
    words[40:, 1] = words[:24, 1]
    keys = sorted_keys(words, np.empty(0, np.int64), np.array([0, ~np.uint64(0)], np.uint64))
    rows, buckets = keys & np.uint64(63), keys >> np.uint64(6)
    assert sorted(rows.tolist()) == list(range(64))
    place = np.argsort(rows)
    np.testing.assert_array_equal(buckets[place[40:]], buckets[place[:24]])
    assert len(np.unique(buckets)) == 40


@pytest.mark.parametrize("n_bytes", [1, 8, 9, 16])
def test_as_words_takes_any_alignment(n_bytes: int) -> None:
    memory = np.random.default_rng(0).integers(0, 256, 10 * n_bytes + 1, dtype=np.uint8)
    codes = memory[1:].reshape(10, n_bytes)
    words = as_words(codes)
    assert words.flags.aligned
    np.testing.assert_array_equal(words.view(np.uint8)[:, :n_bytes], codes)
    assert not words.view(np.uint8)[:, n_bytes:].any()
