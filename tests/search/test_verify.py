"""What verify finds. Damage to single bytes is in test_reliability, crafted indexes are in test_attack."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isch.errors import FormatError
from isch.search import catalog as catalogs
from isch.search.index import Index
from isch.search.verify import problems

CODES = np.random.default_rng(0).integers(0, 256, (40, 8), dtype=np.uint8)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    with Index.create(tmp_path / "x.isch", n_bits=64) as index:
        for i in range(0, 40, 10):
            index.add(CODES[i : i + 10], keys=[f"k{j}" for j in range(i, i + 10)])
        index.delete(["k3", "k33"])
    assert problems(tmp_path / "x.isch") == []
    return tmp_path / "x.isch"


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_every_damaged_file_is_named(index: Path) -> None:
    rows = catalogs.read(index).segments
    flip(index / "segments" / f"{rows[0].name}.codes", 5000 if rows[0].n_rows > 100 else 4100)
    flip(index / "segments" / f"{rows[1].name}.items", 4100)
    found = problems(index)
    assert [rows[0].name in found[0], rows[1].name in found[1]] == [True, True]
    assert len(found) == 2


def test_every_file_that_cannot_be_opened_is_named(index: Path) -> None:
    rows = catalogs.read(index).segments
    (index / "segments" / f"{rows[0].name}.codes").unlink()
    (index / "segments" / f"{rows[1].name}.items").write_bytes(b"short")
    flip(index / "segments" / f"{rows[3].dead.name if rows[3].dead else ''}.dead", 20)
    found = problems(index)
    assert len(found) == 3
    assert all(rows[i].name in found[j] for j, i in enumerate((0, 1)))
    assert ".dead" in found[2]


def test_damage_is_not_given_a_right_checksum_by_a_merge(index: Path) -> None:
    rows = catalogs.read(index).segments
    flip(index / "segments" / f"{rows[0].name}.codes", 4100)
    with Index.open(index) as opened:
        with pytest.raises(FormatError, match=f"{rows[0].name}.codes: the segment is damaged"):
            opened.compact()
        assert catalogs.read(index).segments == rows
        assert [rows[0].name in problem for problem in opened.verify()] == [True]


def test_a_key_in_two_segments_is_found(index: Path, tmp_path: Path) -> None:
    with Index.create(tmp_path / "y.isch", n_bits=64) as other:
        other.add(CODES[:10], keys=[f"k{j}" for j in range(25, 35)])
    (row,) = catalogs.read(tmp_path / "y.isch").segments
    for path in (tmp_path / "y.isch" / "segments").iterdir():
        shutil.copy(path, index / "segments")
    catalog = catalogs.read(index)
    catalogs.write(index, replace(catalog, segments=(*catalog.segments, row)))
    assert problems(index) == [f"{index}: the key 'k25' is there twice"]
