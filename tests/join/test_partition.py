"""Codes cut into parts."""

import numpy as np
import pytest

from isch.join import partition
from isch.join.partition import Spread


@pytest.mark.parametrize(("n_bits", "n_parts"), [(9, 9), (64, 5), (256, 9), (256, 200), (1000, 3)])
def test_each_bit_is_in_one_part_at_most_and_parts_are_even(n_bits: int, n_parts: int) -> None:
    sample = np.random.default_rng(0).random((500, n_bits)) < 0.4
    divided = partition.divided(Spread.of(sample), n_parts)
    bits = np.concatenate(divided)
    assert len(np.unique(bits)) == len(bits) == min(n_bits, partition.MOST_BITS * n_parts)
    assert max(map(len, divided)) - min(map(len, divided)) <= 1


def test_bits_that_vary_are_shared_out_evenly() -> None:
    rng = np.random.default_rng(0)
    sample = np.zeros((500, 60), np.bool_)
    sample[:, :12] = rng.random((500, 12)) < 0.5
    for part in partition.divided(Spread.of(sample), 4):
        assert sum(bit < 12 for bit in part) == 3


def test_bits_that_say_the_same_are_kept_apart() -> None:
    bits = np.random.default_rng(0).random((500, 8)) < 0.5
    for part in partition.divided(Spread.of(np.repeat(bits, 4, axis=1)), 4):
        assert sorted(bit // 4 for bit in part.tolist()) == list(range(8))


@pytest.mark.parametrize("rows", [0, 1])
def test_a_sample_that_says_nothing(rows: int) -> None:
    assert sorted(np.concatenate(partition.divided(Spread.of(np.ones((rows, 10), np.bool_)), 3)).tolist()) == list(
        range(10)
    )


def test_masks_are_in_the_bit_order_of_codes() -> None:
    masks = partition.masks([np.array([0, 9]), np.array([64])], 2)
    expected = np.zeros((2, 16), np.uint8)
    expected[0, 0], expected[0, 1], expected[1, 8] = 0b1000_0000, 0b0100_0000, 0b1000_0000
    np.testing.assert_array_equal(masks.astype("<u8").view(np.uint8), expected)
