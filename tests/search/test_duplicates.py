"""Near-duplicates in an index: live items only, by key, from one moment."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isch.errors import InputError, ParameterError
from isch.search.duplicates import Alike
from isch.search.index import Index

Array = NDArray[Any]

CODES = np.array([[0, 0], [255, 255], [0, 1], [0, 0], [0, 3], [255, 254], [15, 240]], np.uint8)
KEYS = ["a", "b", "c", "d", 5, "f", "g"]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    made = Index.create(tmp_path / "x.isch", n_bits=16)
    made.add(CODES[:4], KEYS[:4])
    made.add(CODES[4:], KEYS[4:])
    return made


def test_groups_by_key(index: Index) -> None:
    found = index.duplicates(1)
    assert list(found) == [Alike(["a", "c", "d"], 1), Alike(["b", "f"], 1)]
    assert found[0] == Alike(["a", "c", "d"], 1)
    assert found[-1:] == [Alike(["b", "f"], 1)]
    assert len(found) == 2
    assert list(index.duplicates(2)) == [Alike(["a", "c", "d", 5], 2), Alike(["b", "f"], 1)]
    assert list(index.duplicates(0)) == [Alike(["a", "d"], 0)]


def test_pairs_by_key(index: Index) -> None:
    assert list(index.duplicates(1).pairs()) == [
        ("a", "c", 1),
        ("a", "d", 0),
        ("b", "f", 1),
        ("c", "d", 1),
        ("c", 5, 1),
    ]


def test_deleted_items_are_not_found(index: Index) -> None:
    index.delete(["c", "b"])
    assert list(index.duplicates(1)) == [Alike(["a", "d"], 0)]
    index.compact()
    assert list(index.duplicates(1)) == [Alike(["a", "d"], 0)]


def test_what_was_found_outlives_later_changes(index: Index) -> None:
    found = index.duplicates(1)
    index.delete(KEYS)
    index.compact()
    assert list(found) == [Alike(["a", "c", "d"], 1), Alike(["b", "f"], 1)]
    assert list(index.duplicates(1)) == []


def test_too_many_pairs_are_refused_before_the_first_is_given(index: Index) -> None:
    with pytest.raises(InputError, match="more than 4 pairs lie within radius 1"):
        index.duplicates(1).pairs(max_pairs=4)


def test_an_empty_index(tmp_path: Path) -> None:
    found = Index.create(tmp_path / "x.isch", n_bits=300).duplicates(8)
    assert list(found) == []
    assert list(found.pairs()) == []


@pytest.mark.parametrize("radius", [-1, 1.5, "8"])
def test_a_bad_radius(index: Index, radius: Any) -> None:
    with pytest.raises(ParameterError, match="radius must be"):
        index.duplicates(radius)


def test_many_items_in_several_segments(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (3000, 32), dtype=np.uint8)
    codes[1::2] = codes[::2]
    codes[1::2, 3] ^= 5
    with Index.create(tmp_path / "x.isch", n_bits=256) as index:
        index.add(codes[:1001])
        index.add(codes[1001:])
        assert list(index.duplicates(8)) == [Alike([i, i + 1], 2) for i in range(0, 3000, 2)]
        assert list(index.duplicates(8).pairs()) == [(i, i + 1, 2) for i in range(0, 3000, 2)]
