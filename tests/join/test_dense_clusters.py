"""Crowds of codes, and groups where there are too many pairs to list."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isch.errors import TooManyPairs
from isch.join.buckets import as_words
from isch.join.dense_clusters import crowds, widest
from isch.join.groups import near_groups

Array = NDArray[Any]


def blob(rng: np.random.Generator, n: int, most_flips: int) -> Array:
    """Distinct codes of 256 bits, each a few bits from one centre that is not among them."""
    bits = np.repeat(rng.integers(0, 2, (1, 256), dtype=np.uint8), n, axis=0)
    for _ in range(most_flips):
        bits[np.arange(n), rng.integers(0, 256, n)] ^= 1
    return np.unique(np.packbits(bits, axis=1), axis=0)


def plain_diameter(codes: Array) -> int:
    return max(int(np.bitwise_count(codes ^ code).sum(axis=1).max()) for code in codes)


def test_a_blob_is_one_crowd_and_strangers_are_none() -> None:
    rng = np.random.default_rng(0)
    near, far = blob(rng, 2000, 3), rng.integers(0, 256, (500, 32), dtype=np.uint8)
    codes = np.concatenate([far[:250], near, far[250:]])
    (crowd,) = crowds(as_words(codes), 8)
    np.testing.assert_array_equal(crowd.rows, np.arange(250, 250 + len(near)))
    assert crowd.diameter == plain_diameter(near) == 6
    assert crowds(as_words(far), 8) == []


@pytest.mark.parametrize("n", [1, 2, 300])
def test_widest(n: int) -> None:
    rng = np.random.default_rng(n)
    codes = blob(rng, n, 9)
    words, reach = as_words(codes), np.bitwise_count(codes ^ codes[0]).sum(axis=1, dtype=np.int32)
    rows = np.argsort(-reach, kind="stable")
    assert widest(words, rows, reach[rows]) == (plain_diameter(codes) if n > 1 else 0)


def test_too_many_pairs_are_grouped_all_the_same() -> None:
    rng = np.random.default_rng(0)
    codes = np.concatenate([blob(rng, 3000, 3), blob(rng, 200, 2), rng.integers(0, 256, (100, 32), dtype=np.uint8)])
    codes = rng.permutation(np.concatenate([codes, codes[:50]]))
    found = near_groups(codes, 8, max_pairs=25_000)
    rows = np.concatenate([group.rows for group in found])
    assert len(np.unique(rows)) == len(rows)
    for group in found:
        assert plain_diameter(codes[group.rows]) == group.diameter <= 8
    assert [len(group.rows) for group in found] == [len(group.rows) for group in near_groups(codes, 8)]


def test_what_is_near_but_not_crowded_is_refused() -> None:
    codes = np.random.default_rng(0).permutation(np.arange(2**12, dtype=np.uint16)).view(np.uint8).reshape(-1, 2)
    with pytest.raises(TooManyPairs, match="more than 1,000 pairs lie within radius 1"):
        near_groups(codes, 1, max_pairs=1000)
