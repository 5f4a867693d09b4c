import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isch.errors import FileError, FormatError
from isch.search import catalog as catalogs
from isch.search.catalog import CHUNK_IDS, Catalog, Key, SegmentRow, checksum, is_dead
from isch.search.filters import condition

SETTINGS = {"n_bits": 8, "n_features": None, "model_digest": None, "keep_features": None}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Catalog.create(tmp_path / "catalog.sqlite", SETTINGS)
    return tmp_path / "catalog.sqlite"


@pytest.fixture
def catalog(path: Path) -> Iterator[Catalog]:
    catalog = Catalog.writing(path)
    yield catalog
    catalog.close()


def test_a_reader_goes_on_seeing_its_moment(path: Path, catalog: Catalog) -> None:
    with catalog.transaction():
        catalog.insert_items([(0, "a", None)])
    reader = Catalog.reading(path)
    with catalog.transaction():
        catalog.insert_items([(1, "b", '{"x": 1}')])
        catalog.remove_items([0])
    assert reader.items([0, 1]) == {0: ("a", None)}
    assert reader.dead() == {}
    later = Catalog.reading(path)
    assert later.items([0, 1]) == {1: ("b", '{"x": 1}')}
    assert list(later.dead()) == [0]
    reader.close()
    later.close()


def test_a_reader_cannot_write(path: Path) -> None:
    reader = Catalog.reading(path)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.set(n_items=3)
    reader.close()


def test_a_transaction_that_fails_leaves_nothing(catalog: Catalog) -> None:
    with pytest.raises(KeyboardInterrupt), catalog.transaction():
        catalog.insert_items([(0, "a", None)])
        catalog.insert_segment(SegmentRow("s", 0, 1, b"", None))
        raise KeyboardInterrupt
    assert catalog.segments() == []
    assert catalog.ids(["a"]) == {}


def test_integers_and_texts_are_different_keys(catalog: Catalog) -> None:
    with catalog.transaction():
        catalog.insert_items([(0, 1, None), (1, "1", None), (2, -(2**63), None), (3, "x\0y", None), (4, "é", None)])
    keys: list[Key] = [1, "1", -(2**63), "x\0y", "é"]
    assert catalog.ids([*keys, "2", 2]) == dict(zip(keys, range(5), strict=True))
    assert catalog.keys(0, 3) == [(1, "1"), (2, -(2**63)), (3, "x\0y")]
    assert catalog.largest_integer_key() == 1


@given(st.sets(st.integers(0, 3 * CHUNK_IDS), max_size=40), st.integers(0, 3 * CHUNK_IDS), st.integers(0, CHUNK_IDS))
@settings(max_examples=30, deadline=None)
def test_dead_ids(tmp_path_factory: pytest.TempPathFactory, ids: set[int], first: int, count: int) -> None:
    path = tmp_path_factory.mktemp("c") / "catalog.sqlite"
    Catalog.create(path, SETTINGS)
    catalog = Catalog.writing(path)
    catalog.remove_items(ids)
    asked = np.unique(np.array([*ids, 0, 7, CHUNK_IDS, 3 * CHUNK_IDS], np.int64))
    np.testing.assert_array_equal(is_dead(catalog.dead(), asked), np.isin(asked, list(ids)))
    catalog.clear_dead(first, first + count)
    left = [i for i in ids if not first <= i <= first + count]
    np.testing.assert_array_equal(is_dead(catalog.dead(), asked), np.isin(asked, left))
    assert set(catalog.dead()) == {i // CHUNK_IDS for i in left}
    catalog.close()


def test_the_checksum_tells_types_and_fields_apart() -> None:
    items: list[tuple[int, Key, str | None]] = [
        (0, 1, None),
        (0, "1", None),
        (1, 1, None),
        (0, 1, "{}"),
        (0, "1\n{}", None),
        (0, "a", '{"b": 1}'),
    ]
    assert len({checksum(*item) for item in items}) == len(items)


@pytest.mark.parametrize("text", ['"; DROP TABLE items; --', "' OR '1'='1", "../../etc/passwd", "%s ? :x"])
def test_texts_are_data(catalog: Catalog, text: str) -> None:
    import json

    with catalog.transaction():
        catalog.insert_items([(0, text, json.dumps({"f": text})), (1, "other", '{"f": 1}')])
    assert catalog.ids([text]) == {text: 0}
    assert catalog.matching(condition({"f": text})).tolist() == [0]
    assert catalog.matching(condition({"f": [text, "?"]})).tolist() == [0]
    field = text.replace('"', "")
    assert catalog.matching(condition({field: text})).tolist() == []


def test_what_is_no_catalog_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with pytest.raises(FileError, match="no such file"):
        Catalog.reading(path)
    path.write_bytes(b"hello " * 100)
    with pytest.raises(FormatError, match="damaged or not a catalog"):
        Catalog.reading(path)
    path.unlink()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(FormatError, match="not the catalog of an ISCH index"):
        Catalog.writing(path)


def test_a_newer_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogs, "VERSION", 2)
    Catalog.create(tmp_path / "c", SETTINGS)
    monkeypatch.setattr(catalogs, "VERSION", 1)
    with pytest.raises(FormatError, match="format version 2; this ISCH reads up to 1"):
        Catalog.reading(tmp_path / "c")
