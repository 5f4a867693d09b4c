"""All pairs within a radius, against the plain comparison of every two codes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import isch
from isch.errors import InputError, ParameterError
from isch.join.kernels import Found
from isch.join.pairs import Pairs, _Form, near, pairs_blocks, pairs_within

Array = NDArray[Any]


def plain_pairs(codes: Array, radius: int) -> Pairs:
    """Every two rows compared."""
    distances = np.stack([np.bitwise_count(codes ^ code).sum(axis=1, dtype=np.int32) for code in codes])
    first, second = np.nonzero(np.triu(distances <= radius, 1))
    return Pairs(first, second, distances[first, second])


def clustered(rng: np.random.Generator, n: int, n_bits: int, n_centres: int) -> Array:
    """Codes a few bits from a few centres, so that many pairs are near; padding is zero."""
    bits = rng.integers(0, 2, (n_centres, n_bits), dtype=np.uint8)[rng.integers(0, n_centres, n)]
    flips = rng.random((n, n_bits)) < rng.choice([0, 0.01, 0.05], (n, 1))
    return np.packbits(bits ^ flips, axis=1)


def assert_same(found: Pairs, expected: Pairs) -> None:
    for column, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(column, wanted)


def merged(blocks: list[Pairs]) -> Pairs:
    first, second, distance = (np.concatenate([block[i] for block in blocks]) for i in range(3))
    order = np.lexsort((second, first))
    return Pairs(first[order], second[order], distance[order])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_equal_to_every_two_compared(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n, n_bits = (
        data.draw(st.integers(2, 400)),
        data.draw(st.sampled_from([1, 2, 7, 8, 9, 63, 64, 65, 144, 256, 600, 4100])),
    )
    codes = clustered(rng, n, n_bits, data.draw(st.integers(1, n)))
    radius = data.draw(st.sampled_from([0, 1, 2, 8, n_bits // 8, n_bits // 2, n_bits]))
    expected = plain_pairs(codes, radius)
    assert_same(pairs_within(codes, radius, n_bits=n_bits), expected)
    assert_same(pairs_within(isch.CodeTable(codes), radius), expected)
    if radius <= 8:
        assert_same(pairs_within(codes, radius, method="join"), expected)
    if len(expected.first):
        assert_same(merged(list(pairs_blocks(codes, radius))), expected)


@pytest.fixture(scope="module")
def digits() -> Array:
    """ISCH codes of real digits and of the same shifted by one pixel: skewed, correlated, with near-duplicates."""
    images = load_digits().images[:600].astype(np.float32)
    shifted = np.concatenate([np.roll(images, shift, (1, 2)) for shift in [(0, 0), (0, 1), (1, 0)]])
    rows = shifted.reshape(-1, 64)
    return isch.ISCH(n_bits=48, random_state=0).fit(rows).transform(rows)


@pytest.mark.parametrize("radius", [1, 4, 8])
@pytest.mark.parametrize("method", ["join", "scan"])
def test_real_codes(digits: Array, radius: int, method: str) -> None:
    expected = plain_pairs(digits, radius)
    assert len(expected.first) > 100
    assert_same(pairs_within(digits, radius, method=method), expected)


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_rows_have_no_pairs(n: int) -> None:
    codes = np.zeros((n, 4), np.uint8)
    found = pairs_within(codes, 32)
    assert [len(column) for column in found] == [0, 0, 0]
    assert [column.dtype for column in found] == [np.int64, np.int64, np.int32]
    assert list(pairs_blocks(codes, 32)) == []


def test_two_rows() -> None:
    codes = np.array([[0b1000_0000], [0b0000_0001]], np.uint8)
    assert pairs_within(codes, 1).first.tolist() == []
    assert [column.tolist() for column in pairs_within(codes, 2)] == [[0], [1], [2]]


def test_equal_codes_are_never_counted_out() -> None:
    codes = np.zeros((100_000, 8), np.uint8)
    codes[-1] = 1
    found = near(codes, 8)
    assert found.twins.sizes.tolist() == [99_999, 1]
    assert [column.tolist() for column in found.pairs] == [[0], [1], [8]]
    with pytest.raises(InputError, match="more than 100,000,000 pairs lie within radius 8"):
        pairs_within(codes, 8)


def test_blocks_hold_more_pairs_than_one_block() -> None:
    codes = np.zeros((3000, 4), np.uint8)
    codes[1500:] = np.arange(1500, dtype=np.uint32).view(np.uint8).reshape(-1, 4)
    blocks = list(pairs_blocks(codes, 2))
    assert len(blocks) > 1
    assert all((np.diff(block.first * 3000 + block.second) > 0).all() for block in blocks)
    assert_same(merged(blocks), plain_pairs(codes, 2))


def test_a_result_beyond_the_limit_is_refused_in_one_sentence() -> None:
    codes = np.random.default_rng(0).integers(0, 256, (300, 2), dtype=np.uint8)
    with pytest.raises(InputError, match="more than 1,000 pairs lie within radius 16; take a smaller radius"):
        pairs_within(codes, 16, max_pairs=1000)


@pytest.mark.parametrize(
    ("codes", "radius", "n_bits", "match"),
    [
        (np.zeros((2, 4)), 1, None, "must be packed bytes"),
        (np.zeros((2, 4), np.uint8), -1, None, "radius must be at least 0"),
        (np.zeros((2, 4), np.uint8), 1.5, None, "radius must be a whole number"),
        (np.zeros((2, 4), np.uint8), 1, 33, "codes of 33 bits are 5 bytes wide; got 4 bytes"),
        (np.zeros((2, 4), np.uint8), 1, 0, "n_bits must be at least 1"),
    ],
)
def test_bad_input(codes: Array, radius: Any, n_bits: int | None, match: str) -> None:
    with pytest.raises((InputError, ParameterError), match=match):
        pairs_within(codes, radius, n_bits=n_bits)


def test_rows_too_many_to_pack_are_sorted_all_the_same() -> None:
    found = Found(np.array([5, 2, 2]), np.array([20, 9, 7]), np.array([1, 0, 3], np.int32))
    for form in (_Form(41, 30), _Form(5, 2)):
        columns = form.unpacked(form.packed(found))
        assert [column.tolist() for column in columns] == [[2, 2, 5], [7, 9, 20], [3, 0, 1]]
        assert [column.dtype for column in columns] == [np.int64, np.int64, np.int32]


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = clustered(np.random.default_rng(1), 3000, 256, 40)
    monkeypatch.setenv("ISCH_NUM_THREADS", "1")
    alone = list(pairs_blocks(codes, 12))
    monkeypatch.setenv("ISCH_NUM_THREADS", "3")
    together = list(pairs_blocks(codes, 12))
    assert len(alone) == len(together)
    for one, other in zip(alone, together, strict=True):
        assert_same(one, other)
