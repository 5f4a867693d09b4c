"""Groups: bounded, disjoint, deterministic, and against a plain twin of the greedy linkage."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from isch.errors import InputError
from isch.join.groups import Group, groups, near_groups
from isch.join.pairs import Pairs, pairs_within

Array = NDArray[Any]


def plain_groups(distances: Array, diameter: float) -> list[list[int]]:
    """The same linkage, on a full matrix of distances and with sets."""
    n = len(distances)
    member = {i: {i} for i in range(n)}
    pairs = sorted((distances[i, j], i, j) for i in range(n) for j in range(i + 1, n) if distances[i, j] <= diameter)
    for _, i, j in pairs:
        one, other = member[i], member[j]
        if one is not other and all(distances[a, b] <= diameter for a in one for b in other):
            union = one | other
            member.update(dict.fromkeys(union, union))
    return sorted(sorted(group) for group in {id(g): g for g in member.values()}.values() if len(group) > 1)


def matrix(codes: Array) -> Array:
    return np.bitwise_count(codes[:, None] ^ codes[None]).sum(axis=2, dtype=np.int32)


def some_codes(seed: int, n: int, n_centres: int) -> Array:
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (n_centres, 64), dtype=np.uint8)[rng.integers(0, n_centres, n)]
    return np.packbits(bits ^ (rng.random((n, 64)) < 0.04), axis=1)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 80), st.integers(1, 12), st.integers(0, 16))
def test_equal_to_the_plain_linkage(seed: int, n: int, n_centres: int, radius: int) -> None:
    codes = some_codes(seed, n, n_centres)
    distances, found = matrix(codes), groups(pairs_within(codes, radius), n, radius)
    assert [group.rows.tolist() for group in found] == plain_groups(distances, radius)
    assert all(distances[np.ix_(group.rows, group.rows)].max() == group.diameter for group in found)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(4, 300), st.integers(1, 12), st.integers(0, 16))
def test_groups_of_codes_are_bounded_and_disjoint(seed: int, n: int, n_centres: int, radius: int) -> None:
    codes = some_codes(seed, n, n_centres)
    codes[::3] = codes[0]
    distances, found = matrix(codes), near_groups(codes, radius)
    rows = np.concatenate([np.empty(0, np.int64), *(group.rows for group in found)])
    assert len(np.unique(rows)) == len(rows)
    for group in found:
        assert len(group.rows) > 1
        assert distances[np.ix_(group.rows, group.rows)].max() == group.diameter <= radius
    assert any(set(range(0, n, 3)) <= set(group.rows.tolist()) for group in found)


def test_a_chain_is_cut() -> None:
    n = 64
    chain = np.packbits(np.tril(np.ones((n, n), np.uint8), -1), axis=1)
    found = near_groups(chain, 3)
    assert all(group.diameter <= 3 for group in found)
    assert max(len(group.rows) for group in found) <= 4


def test_the_nearest_pairs_are_united_first() -> None:
    pairs = Pairs(np.array([0, 1]), np.array([1, 2]), np.array([8, 1]))
    assert [group.rows.tolist() for group in groups(pairs, 3, 8)] == [[1, 2]]


def test_any_kind_of_distance_in_any_order() -> None:
    pairs = Pairs(np.array([3, 0, 0, 1]), np.array([4, 2, 1, 2]), np.array([0.25, 0.5, 0.125, 0.75]))
    found = groups(pairs, 5, 0.5)
    assert [(group.rows.tolist(), group.diameter) for group in found] == [([0, 1], 0.125), ([3, 4], 0.25)]


def test_equal_codes_are_one_group_however_many() -> None:
    found = near_groups(np.full((100_000, 8), 7, np.uint8), 8)
    assert [(len(group.rows), group.diameter) for group in found] == [(100_000, 0)]


def test_two_large_groups_with_one_pair_missing_stay_apart_quickly() -> None:
    first, second = np.triu_indices(600, 1)
    kept = (first != 299) | (second != 599)
    distance = np.where((first < 300) == (second < 300), 1, 2)
    found = groups(Pairs(first[kept], second[kept], distance[kept]), 600, 2)
    assert [len(group.rows) for group in found] == [300, 300]


@pytest.mark.parametrize("n", [0, 1])
def test_nothing_to_group(n: int) -> None:
    none = np.empty(0, np.int64)
    assert groups(Pairs(none, none, none.astype(np.int32)), n, 3) == []
    assert near_groups(np.zeros((n, 2), np.uint8), 3) == []


@pytest.mark.parametrize(
    ("first", "second", "distance", "match"),
    [
        ([0], [5], [1], r"rows first < second of 0\.\.4"),
        ([2], [1], [1], r"rows first < second of 0\.\.4"),
        ([-1], [1], [1], r"rows first < second of 0\.\.4"),
        ([0, 1], [1], [1], "three columns of one length; got 2, 1, 1"),
    ],
)
def test_bad_pairs(first: list[int], second: list[int], distance: list[int], match: str) -> None:
    with pytest.raises(InputError, match=match):
        groups(Pairs(np.array(first), np.array(second), np.array(distance)), 5, 3)


def test_a_group_names_its_parts() -> None:
    assert Group._fields == ("rows", "diameter")
