"""Stored results come back as they were; what is not a result of this version is refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isch.errors import FormatError
from isch.evaluate.results import VERSION, Result, Run, Store, pack, read, unpack
from isch.files import replacing

RUN = Run({"dataset": "mnist", "fingerprint": "f"}, {"total": 3}, ("map",), "isch", "isch", {"tau": 0.1}, 32, 0)
RESULT = Result(
    RUN,
    {"map": {"expected": 0.5, "pessimistic": 0.25, "optimistic": 0.75}},
    {"ranks": [1.0, 2.0], "precision": [1.0, 0.5], "recall": [0.5, 0.5]},
    {"training_seconds": 1.5, "peak_bytes": None},
    np.array([0.25, np.nan, 1.0]),
    {"date": "2026-01-01"},
)


def test_a_result_comes_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert not store.has("x", RUN)
    path = store.put("x", RESULT)
    assert store.has("x", RUN)
    again = read(path)
    assert (again.run, again.means, again.curves, again.costs) == (RUN, RESULT.means, RESULT.curves, RESULT.costs)
    np.testing.assert_allclose(again.per_query, RESULT.per_query, atol=1e-4)
    assert [r.run for r in store.all("x")] == [RUN]


def test_what_a_killed_run_had_begun_to_write_is_not_a_result(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.put("x", RESULT)
    with replacing(path.with_stem("other")) as temporary:
        temporary.write_text('{"version":')
        assert len(store.all("x")) == 1


@given(st.lists(st.floats(0, 1) | st.just(float("nan")), max_size=20))
def test_values_of_queries_survive_packing(values: list[float]) -> None:
    np.testing.assert_allclose(unpack(pack(np.array(values))), values, atol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"bits": 64},
        {"parameters": {"tau": 0.2}},
        {"split": {"total": 4}},
        {"measures": ("map", "recall@1")},
        {"method": "itq"},
        {"data": {"dataset": "cifar10"}},
    ],
)
def test_whatever_changes_the_numbers_changes_the_key(change: dict[str, object]) -> None:
    assert replace(RUN, **change).key != RUN.key  # type: ignore[arg-type]


def test_the_label_does_not_change_the_key() -> None:
    assert replace(RUN, label="other").key == RUN.key


def test_a_planned_run_matches_its_result_without_knowing_the_files() -> None:
    planned = replace(RUN, data={"dataset": "mnist"}, label="renamed")
    assert RUN.matches(planned)
    assert not RUN.matches(replace(planned, bits=64))


def test_a_result_of_another_version_is_refused(tmp_path: Path) -> None:
    path = Store(tmp_path).put("x", RESULT)
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"version": VERSION + 1}))
    with pytest.raises(FormatError, match=rf"format version {VERSION + 1}; this ISCH reads version {VERSION}"):
        Store(tmp_path).has("x", RUN)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', "\x00"])
def test_a_damaged_result_is_refused(tmp_path: Path, text: str) -> None:
    path = Store(tmp_path).put("x", RESULT)
    path.write_text(text)
    with pytest.raises(FormatError, match="not a result file, or damaged"):
        read(path)
