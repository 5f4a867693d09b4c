"""Pairs of copies are searched for once for each state of a library."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from isch.photos import copies as module
from isch.photos import matching
from isch.photos.copies import find_copies
from isch.photos.database import _AT_ONCE
from isch.photos.duplicates import Duplicates
from isch.photos.library import Library


@pytest.fixture
def library(tmp_path, photograph):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for seed in range(3):
        Image.fromarray(photograph(seed)).save(folder / f"{seed}.png")
    Image.fromarray(photograph(1)[:, ::-1]).save(folder / "mirrored.png")
    library = Library(folder, tmp_path / "home")
    library.update()
    return library


def names(library):
    return [sorted(Path(item.path).name for item in group.items) for group in Duplicates(library).groups("altered")]


@pytest.fixture
def searches(monkeypatch):
    """How many pictures were searched, each time."""
    counts = []

    def counted(prints, vectors, original=matching.find_matches):
        counts.append(len(prints))
        return original(prints, vectors)

    monkeypatch.setattr(module.matching, "find_matches", counted)
    return counts


def test_pairs_are_searched_for_once_also_over_restarts(library, searches):
    assert names(library) == [["1.png", "mirrored.png"]]
    assert names(Library(library.folder, library.home)) == [["1.png", "mirrored.png"]]
    duplicates = Duplicates(library)
    for closeness in ("identical", "same", "altered"):
        duplicates.groups(closeness)
    assert searches == [4]


def test_a_change_of_the_collection_is_noticed(library, searches):
    duplicates = Duplicates(library)
    duplicates.groups("altered")
    shutil.copy(library.folder / "2.png", library.folder / "again.png")
    library.update()
    assert sorted(len(group.items) for group in duplicates.groups("altered")) == [2, 2]
    (library.folder / "1.png").unlink()
    library.update()
    assert [group.items[0].name for group in duplicates.groups("altered")] == ["2.png"]
    (library.folder / "2.png").rename(library.folder / "moved.png")
    library.update()
    assert [group.items[0].name for group in duplicates.groups("altered")] == ["moved.png"]
    assert searches == [4, 5]  # fewer pictures need no search


def test_pairs_found_differently_are_searched_for_again(library, searches, monkeypatch):
    find_copies(library)
    monkeypatch.setattr(matching, "VERSION", 999)
    find_copies(library)
    assert searches == [4, 4]


@pytest.mark.parametrize("content", [b"x", np.array([(3, 1, 2.0)], module._RECORD).tobytes(), b"\xff" * 20, "text"])
def test_damaged_pairs_are_searched_for_again(library, searches, content):
    before = find_copies(library)
    library.catalog.set_meta("copies", content)
    again = find_copies(library)
    for column, other in zip(before.matches, again.matches, strict=True):
        np.testing.assert_array_equal(column, other)
    assert searches == [4, 4]


def test_a_library_without_pictures_has_no_copies(tmp_path):
    (tmp_path / "empty").mkdir()
    assert Duplicates(Library(tmp_path / "empty", tmp_path / "home")).groups() == []


def test_many_items_are_asked_for_in_parts(library):
    numbers = [*range(1, 5), *range(100, 100 + 3 * _AT_ONCE)]
    assert sorted(library.catalog.items(numbers)) == [1, 2, 3, 4]
    labels = library.catalog.labels(numbers)
    assert list(labels) == numbers
    shares = [[share for _, share in labels[number]] for number in range(1, 5)]
    assert shares == [sorted(some, reverse=True) for some in shares]
