"""Indexes of format version 2, whose items are SQLite, which are on people's disks."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isch.search import catalog as catalogs
from isch.search.index import Index
from isch.search.items import SqliteItems, StoredItems
from isch.search.snapshot import take
from isch.search.verify import problems

GOLDEN = Path(__file__).parents[1] / "golden"
EXPECTED = json.loads((GOLDEN / "index-v2.json").read_text())
QUERIES = np.array(EXPECTED["queries"], np.float32)
FILTERS: list[Any] = [
    {},
    {"group": 1},
    {"group": [0, 2.0]},
    {"group": {"<=": 1}},
    {"group": {"!=": 1}},
    {"note": "replaced"},
    {"note": {">": "a"}, "group": 1},
    {"absent": None},
]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN / "index-v2.isch", tmp_path / "x.isch")
    return tmp_path / "x.isch"


def kinds(path: Path) -> set[type]:
    return {type(segment.items) for segment in take(path).segments}


def version(path: Path) -> int:
    return int(json.loads((path / catalogs.FILE).read_bytes())["version"])


def answers(path: Path) -> list[Any]:
    """Everything that its items are asked for."""
    with Index.open(path) as index:
        known = [where for where in FILTERS if set(where or {}) <= set(index.fields())]
        found = [index.search(QUERIES, 60, where=where) for where in known]
        assert index.verify() == []
        return [
            list(index),
            index.fields(),
            [(results.keys, results.metadata) for results in found],
            [note for batch in index.batches() for note in zip(batch.keys, batch.metadata, strict=True)],
        ]


def test_reading_changes_nothing(old: Path) -> None:
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    answers(old)
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before
    assert kinds(old) == {SqliteItems}


def test_a_change_leaves_segments_as_they_are(old: Path) -> None:
    with Index.open(old) as index:
        index.add(QUERIES, keys=["new 0", "new 1", "new 2"], metadata={"group": 1})
        assert list(index) == [*EXPECTED["keys"], "new 0", "new 1", "new 2"]
    assert (version(old), kinds(old)) == (3, {SqliteItems, StoredItems})
    assert problems(old) == []


def test_compaction_gives_the_same_answers_in_the_present_format(old: Path) -> None:
    before = answers(old)
    with Index.open(old) as reader, Index.open(old) as index:
        index.compact()
        assert list(reader) == before[0]
    assert (version(old), kinds(old)) == (3, {StoredItems})
    assert answers(old) == before


def test_a_single_segment_is_compacted_for_its_format(old: Path) -> None:
    catalog = catalogs.read(old)
    alone = next(row for row in catalog.segments if row.dead is None)
    (old / catalogs.FILE).write_bytes(catalogs.encoded(replace(catalog, segments=(alone,)), 2))
    before = answers(old)
    with Index.open(old) as index:
        index.compact()
    assert kinds(old) == {StoredItems}
    assert answers(old) == before


def test_an_entry_is_replaced_across_formats(old: Path) -> None:
    key = EXPECTED["keys"][0]
    with Index.open(old) as index:
        index.upsert(QUERIES[:1], keys=[key], metadata={"group": 7})
        item = index.get(key)
        assert item is not None
        assert item.metadata == {"group": 7}
        assert len(index) == len(EXPECTED["keys"])
        index.delete([key])
        assert key not in index
    assert problems(old) == []
