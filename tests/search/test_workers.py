"""Search by the workers of a cluster: the answers of one machine, ties included."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isch
from isch.errors import FileError
from isch.search.index import Index

RNG = np.random.default_rng(0)
ROWS = RNG.integers(0, 3, (3000, 20)).astype(np.float32)  # many equal codes


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Several segments, deleted rows, and portions of 64 rows."""
    monkeypatch.setattr("isch.search.workers.PORTION_BYTES", 64 * 3)
    notes = [{"odd": i % 2 == 1} for i in range(1000)]
    with Index.create(tmp_path / "i", isch.LSH(20).fit(ROWS), ROWS[:1000], metadata=notes) as index:
        index.add(ROWS[1000:2990])
        index.add(ROWS[2990:])
        index.delete([3, 4, 5, 1500, 2995])
    return tmp_path / "i"


@pytest.mark.parametrize("rerank", ["none", "asymmetric"])
@pytest.mark.parametrize("options", [{}, {"where": {"odd": True}}, {"among": [1, 2, 2500, 2999]}], ids=str)
@pytest.mark.parametrize("k", [1, 50, 5000])
def test_the_same_answers(folder: Path, client: Any, rerank: str, options: dict[str, Any], k: int) -> None:
    with Index.open(folder) as here, Index.open(folder, client=client) as there:
        one, other = (index.search(ROWS[:5], k, rerank=rerank, **options) for index in (here, there))
        assert [list(hits) for hits in one] == [list(hits) for hits in other]


def test_similar_items_and_changes(folder: Path, client: Any) -> None:
    with Index.open(folder, client=client) as index:
        first = index.similar(7, 20)
        index.add(ROWS[7:8], keys=["twin"])
        index.compact()
        with Index.open(folder) as here:
            assert list(index.similar(7, 20)[0]) == list(here.similar(7, 20)[0])
        assert list(first[0]) != list(index.similar(7, 20)[0])


def test_everything_within_a_radius(folder: Path, client: Any) -> None:
    with Index.open(folder) as here, Index.open(folder, client=client) as there:
        for where in (None, {"odd": True}):
            found = here.within(ROWS[:5], 5, where=where)
            assert there.within(ROWS[:5], 5, where=where) == found
            assert any(len(hits) > 1 for hits in found)
        assert there.explain(1, radius=12) == ["the workers of the cluster read all codes"]


def test_codes_compared_in_another_way(tmp_path: Path, client: Any) -> None:
    here = Index.create(tmp_path / "i", isch.SPH(16, n_iter=3).fit(ROWS), ROWS)
    with here, Index.open(tmp_path / "i", client=client) as there:
        assert list(here.search(ROWS[:3])[2]) == list(there.search(ROWS[:3])[2])


def test_an_empty_index(tmp_path: Path, client: Any) -> None:
    Index.create(tmp_path / "i", n_bits=16).close()
    with Index.open(tmp_path / "i", client=client) as index:
        assert [list(hits) for hits in index.search(np.zeros((2, 2), np.uint8))] == [[], []]


def test_a_segment_that_workers_do_not_see(folder: Path, client: Any) -> None:
    with Index.open(folder, client=client) as index:
        for file in (folder / "segments").glob("*.codes"):
            file.rename(file.with_suffix(".away"))
        client.run(_forget)
        with pytest.raises(FileError, match=r"codes: is not there; was the index compacted .*on the worker tcp://"):
            index.search(ROWS[:1])


def _forget() -> None:
    from isch.search.workers import _mapped

    _mapped.cache_clear()
