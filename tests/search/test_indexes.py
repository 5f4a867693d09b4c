"""Several index folders give the answers of one index that holds the items of all, ties included."""

import json
import pickle
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isch
from isch.cli import program
from isch.errors import InputError, ParameterError
from isch.search.index import Index
from isch.search.indexes import Indexes, Place

ROWS = np.random.default_rng(0).integers(0, 3, (3000, 20)).astype(np.float32)  # many equal codes
BORDERS = [0, 700, 1900, 3000]
NOTES = [{"odd": i % 2 == 1} for i in range(3000)]
DELETED = {3, 4, 702, 2999}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``all``, and the same items in ``0``, ``1`` and ``2``, the second of which has two segments."""
    folder, hasher = tmp_path_factory.mktemp("several"), isch.LSH(20).fit(ROWS)
    Index.create(folder / "all", hasher, ROWS, metadata=NOTES, keep_features="float32").delete(DELETED)
    for number, (first, stop) in enumerate(pairwise(BORDERS)):
        index = Index.create(folder / str(number), hasher, keep_features="float32")
        middle = first + 400
        for a, b in ((first, middle), (middle, stop)):
            index.add(ROWS[a:b], keys=range(a, b), metadata=NOTES[a:b])
        index.delete([key for key in DELETED if first <= key < stop])
    return folder


def paths(made: Path) -> list[Path]:
    return [made / str(number) for number in range(3)]


def plain(results: Any, names: list[str] | None = None) -> list[Any]:
    """The hits as tuples, with the keys of one index; each must come from the index that holds it."""
    rows = []
    for hits in results:
        for hit in hits:
            if names is not None:
                owner = int(np.searchsorted(BORDERS, hit.key.key, side="right")) - 1
                assert hit.key.folder == names[owner]
        rows.append([(hit.key if names is None else hit.key.key, *hit[1:]) for hit in hits])
    return rows


@pytest.mark.parametrize("rerank", ["none", "asymmetric", "exact"])
@pytest.mark.parametrize("options", [{}, {"where": {"odd": True}}, {"among": [1, 3, 2500, 2998]}], ids=str)
@pytest.mark.parametrize("k", [1, 50, 5000])
def test_the_answers_of_one(made: Path, rerank: str, options: dict[str, Any], k: int) -> None:
    with Index.open(made / "all") as one, Index.open(paths(made)) as several:
        expected = one.search(ROWS[:5], k, rerank=rerank, **options)
        found = several.search(ROWS[:5], k, rerank=rerank, **options)
        assert plain(found, several.names) == plain(expected)


def test_on_workers(made: Path, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isch.search.workers.PORTION_BYTES", 64 * 3)
    with Index.open(made / "all") as one, Index.open(paths(made), client=client) as several:
        for options in ({"rerank": "none"}, {"where": {"odd": False}}):
            assert plain(several.search(ROWS[:5], 60, **options), several.names) == plain(
                one.search(ROWS[:5], 60, **options)
            )


def test_by_codes_by_recall_and_facts(made: Path) -> None:
    with Index.open(made / "all") as one, Index.open(paths(made)) as several:
        codes = one.encoder.codes(ROWS[:4])
        assert plain(several.search_codes(codes, 9), several.names) == plain(one.search_codes(codes, 9))
        assert plain(several.search(ROWS[:4], 9, recall=0.9), several.names) == plain(
            one.search(ROWS[:4], 9, recall=0.9)
        )
        assert len(several) == len(one) == 2996
        assert several.fields() == ["odd"]
        assert (several.info()["items"], several.info()["segments"]) == (2996, 6)
        assert len(pickle.loads(pickle.dumps(several))) == 2996
        assert repr(several).startswith("<isch.search.indexes.Indexes")


def test_the_order_of_folders_breaks_ties(made: Path, tmp_path: Path) -> None:
    """The same item in two folders: the one in the folder named first comes first."""
    hasher = isch.LSH(20).fit(ROWS)
    for name in "ab":
        Index.create(tmp_path / name, hasher, ROWS[:1]).close()
    for order in ("ab", "ba"):
        with Index.open([tmp_path / name for name in order]) as several:
            hits = several.search(ROWS[:1], 2, rerank="none")[0]
            assert [Path(hit.key.folder).name for hit in hits] == list(order)


def test_changes_are_seen_after_refresh(made: Path, tmp_path: Path) -> None:
    folders = [shutil.copytree(path, tmp_path / path.name) for path in paths(made)]
    with Index.open(folders) as several, Index.open(folders[1]) as writer:
        assert not several.refresh()
        writer.add(ROWS[:1], keys=["new"])
        assert len(several) == 2996
        assert several.refresh()
        assert len(several) == 2997
        keys = [hit.key for hit in several.search(ROWS[:1], 3000, rerank="none")[0]]
        assert Place(str(folders[1]), "new") in keys


def test_what_cannot_be_one(made: Path, tmp_path: Path) -> None:
    first = made / "0"
    Index.create(tmp_path / "wide", isch.LSH(21).fit(ROWS), ROWS[:9]).close()
    Index.create(tmp_path / "other", isch.LSH(20, random_state=1).fit(ROWS), ROWS[:9]).close()
    Index.create(tmp_path / "codes", isch.LSH(20).fit(ROWS), ROWS[:9]).close()
    for folders, message in (
        ([], "at least one index; got none"),
        ([first, first], "the same index is given twice"),
        ([first, tmp_path / "wide"], r"wide: codes of 21 bits; expected 20, as .*0 has"),
        ([first, tmp_path / "other"], r"other: was made with another model than .*0"),
    ):
        with pytest.raises(InputError, match=message):
            Indexes(folders)
    with Index.open([first, tmp_path / "codes"]) as several, pytest.raises(ParameterError, match="keep_features"):
        several.search(ROWS[:1], rerank="exact")  # the second keeps none


def test_at_the_command_line(made: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    np.save("queries.npy", ROWS[800:802])
    assert program.run(["search", "0", "1", "2", "queries.npy", "-k", "3", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert set(lines[0]["hits"][0]) == {"index", "key", "distance", "score", "metadata"}
    assert lines[0]["hits"][0]["index"] in "012"
    assert program.run(["search", "0", "1", "2", "queries.npy", "-k", "1"]) == 0
    assert "\t1::" in capsys.readouterr().out
    assert program.run(["search", "0", "0", "queries.npy"]) == 2
    assert capsys.readouterr().err == "isch: 0: the same index is given twice; expected different ones\n"
