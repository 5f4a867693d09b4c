"""The planner: what it takes, when, and what it says."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isch.errors import ParameterError
from isch.join import partition, planner
from isch.join.buckets import as_words
from isch.join.partition import Division, Spread
from isch.join.planner import estimated, plan

Array = NDArray[Any]


def random_words(n: int, n_bits: int) -> Array:
    return as_words(np.random.default_rng(0).integers(0, 256, (n, n_bits // 8), dtype=np.uint8))


def test_few_codes_are_scanned() -> None:
    made = plan(random_words(2000, 256), 256, 8)
    assert made.method == "scan"
    assert str(made) == (
        "2,000 distinct codes of 256 bits, radius 8: scan with 2e+06 pairs compared; "
        "there are so few that nothing else is quicker"
    )


def test_many_codes_and_a_small_radius_are_joined() -> None:
    made = plan(random_words(100_000, 256), 256, 8)
    assert made.method == "join"
    assert made.division is not None
    assert len(made.division.masks) == 9
    assert made.cost.compared_pairs < 1e6
    assert "join on 9 parts of the codes, up to 1 at once, with about 9e+05 rows sorted" in str(made)


@pytest.mark.parametrize("radius", [100, 255, 256])
def test_a_large_radius_is_scanned(radius: int) -> None:
    made = plan(random_words(50_000, 256), 256, radius)
    assert made.method == "scan"
    assert made.why == "a join would take longer"


def test_codes_with_few_bits_that_vary_are_scanned() -> None:
    rng = np.random.default_rng(0)
    codes = np.zeros((60_000, 32), np.uint8)
    codes[:, :2] = np.arange(60_000, dtype=np.uint16).view(np.uint8).reshape(-1, 2)
    codes[:, 2] = rng.integers(0, 2, 60_000)
    assert plan(as_words(codes), 256, 12).method == "scan"


def test_large_buckets_are_divided_by_several_parts_at_once() -> None:
    codes = np.zeros((200_000, 32), np.uint8)
    codes[:, 5:12] = np.random.default_rng(0).integers(0, 256, (200_000, 7))
    made = plan(as_words(codes), 256, 8)
    assert made.division is not None
    assert made.division.depth > 1


@pytest.mark.parametrize("method", ["join", "scan"])
@pytest.mark.parametrize("n", [0, 1, 2, 500])
def test_a_method_can_be_asked_for(method: str, n: int) -> None:
    assert plan(random_words(n, 64), 64, 3, method).method == method


def test_more_parts_than_bits_cannot_be_joined() -> None:
    assert plan(random_words(500, 8), 8, 8, "join").method == "scan"


def test_an_unknown_method() -> None:
    with pytest.raises(ParameterError, match="unknown method 'hash'; known: auto, join, scan"):
        plan(random_words(5, 8), 8, 1, "hash")


def test_the_estimate_of_all_rows_is_what_happens() -> None:
    """With the whole as the sample, the pairs counted are those of the buckets of every part."""
    words = as_words(np.random.default_rng(0).integers(0, 4, (3000, 8), dtype=np.uint8))
    bits = np.unpackbits(words.view(np.uint8), axis=1).view(np.bool_)
    division = Division(partition.masks(partition.divided(Spread.of(bits), 3), 1), 2)
    cost = estimated(words, division, 1, np.inf)
    pairs = 0
    for mask in division.masks:
        sizes = np.unique(words[:, 0] & mask[0], return_counts=True)[1]
        pairs += int((sizes * (sizes - 1) // 2).sum())
    assert cost.compared_pairs == pairs
    assert cost.sorted_rows == 9000


def test_an_attempt_is_given_up_above_its_limit() -> None:
    words = random_words(2000, 64)
    division = Division(partition.masks([np.arange(8), np.arange(8, 16)], 1), 1)
    assert estimated(words, division, 1, planner.PATH_COST / 2).nanoseconds == np.inf
