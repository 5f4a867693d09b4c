"""Runs are kept in the cache until they are collected; nothing is lost by a kill or by two processes at once."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from isch.errors import FileError, FormatError
from isch.evaluate import store as stores
from isch.evaluate import table
from isch.evaluate.runs import Result
from isch.evaluate.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results", tmp_path / "cache")


def seeded(result: Result, seed: int) -> Result:
    return replace(result, run=replace(result.run, seed=seed))


def test_a_result_is_there_at_once_and_in_the_table_when_collected(store: Store, result: Result) -> None:
    path = store.put("x", result)
    assert [r.run for r in store.all("x")] == [result.run]
    assert store.revisions("x") == {result.run.key: "isch 1"}
    assert (store.uncollected(), store.path("x").exists()) == (["x"], False)
    assert store.collect("x") == 1
    assert not path.exists()
    assert [r.run for r in store.all("x")] == [r.run for r in table.read(store.path("x"))] == [result.run]
    assert (store.uncollected(), store.collect("x")) == ([], 0)


def test_the_latest_of_several_results_of_a_run_counts(store: Store, result: Result) -> None:
    store.put("x", replace(result, revision="isch 2", context={"date": "2026-01-02"}))
    store.collect("x")
    store.put("x", replace(result, revision="isch 1", context={"date": "2026-01-01"}))
    store.put("x", replace(result, revision="isch 3", context={"date": "2026-01-03"}))
    assert [r.revision for r in store.all("x")] == ["isch 3"]
    store.collect("x")
    assert [r.revision for r in store.all("x")] == ["isch 3"]


def test_folders_of_results_do_not_mix(tmp_path: Path, result: Result) -> None:
    one, other = (Store(tmp_path / name / "results", tmp_path / "cache") for name in "ab")
    one.put("x", result)
    assert other.all("x") == []
    assert other.collect("x") == 0


def test_what_a_killed_process_had_begun_to_write_is_not_a_result(store: Store, result: Result) -> None:
    path = store.put("x", result)
    path.with_name(".begun.json").write_text('{"version":')
    assert len(store.all("x")) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"version": 2}', '{"version": 1}', "\x00", "[" * 100_000])
def test_a_damaged_file_is_one_sentence(store: Store, result: Result, text: str) -> None:
    store.put("x", result).write_text(text)
    with pytest.raises(FormatError, match="not a result, or damaged .*; remove it to run it again"):
        store.all("x")


def test_every_field_is_checked(store: Store, result: Result) -> None:
    path = store.put("x", result)
    text = path.read_text()
    for old, new in (
        ('"bits": 32', '"bits": "32"'),
        ('"seed": 0', '"seed": true'),
        ('"measures": ["map"]', '"measures": [1]'),
        ('"training_seconds": 1.5', '"training_seconds": "long"'),
        ('"ranks": [1.0, 2.0]', '"ranks": [1.0]'),
        ('"method": "isch"', '"method": 7'),
        ('"split": {"total": 3}', '"split": []'),
    ):
        assert old in text
        path.write_text(text.replace(old, new))
        with pytest.raises(FormatError, match="not a result, or damaged"):
            store.all("x")


def test_a_folder_that_cannot_take_results_is_refused_before_they_are_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot make the folder"):
        Store(tmp_path / "file" / "results", tmp_path / "cache").check_writable("x")


CHILD = """
import sys
from dataclasses import replace
from pathlib import Path
from isch.evaluate.store import Store

store = Store(Path(sys.argv[1]), Path(sys.argv[2]))
(result,) = store.all("template")
for seed in range(int(sys.argv[3]), int(sys.argv[4])):
    store.put("x", replace(result, run=replace(result.run, seed=seed)))
    print(seed, flush=True)
    store.collect("x")
"""


def collecting(store: Store, start: int, stop: int) -> subprocess.Popen[str]:
    """A process that stores results with these seeds, says so, and collects them, one by one."""
    arguments = [str(store.folder), str(store.waiting.parents[1]), str(start), str(stop)]
    return subprocess.Popen([sys.executable, "-c", CHILD, *arguments], stdout=subprocess.PIPE, text=True)


def test_two_processes_that_collect_at_once_lose_nothing(store: Store, result: Result) -> None:
    store.put("template", result)
    both = [collecting(store, start, start + 15) for start in (0, 100)]
    seen: set[int] = set()
    while any(process.poll() is None for process in both):
        now = {r.run.seed for r in store.all("x")}
        assert seen <= now
        seen = now
    assert [len(process.communicate()[0].split()) for process in both] == [15, 15]
    assert {r.run.seed for r in table.read(store.path("x"))} == {*range(15), *range(100, 115)}


def test_a_process_killed_while_it_collects_loses_nothing(store: Store, result: Result) -> None:
    store.put("template", result)
    stored: set[int] = set()
    for start, delay in ((0, 0.0), (1000, 0.004), (2000, 0.011)):
        process = collecting(store, start, start + 1000)
        assert process.stdout is not None
        stored |= {int(process.stdout.readline()) for _ in range(20)}
        time.sleep(delay)
        process.kill()
        stored |= {int(line) for line in process.communicate()[0].split()}
        assert stored <= {r.run.seed for r in store.all("x")}
    store.collect("x")
    assert stored <= {r.run.seed for r in table.read(store.path("x"))}


def test_a_kill_between_values_and_table_shows_no_old_line_with_new_values(
    store: Store, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("x", result)
    store.collect("x")
    newer = replace(result, per_query=result.per_query[::-1], context={"date": "2027"}, revision="isch 2")
    store.put("x", newer)

    class Killed(BaseException):
        pass

    def killed(*arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(table, "_line", killed)
        store.collect("x")
    (seen,) = store.all("x")
    assert seen.revision == "isch 2"
    assert seen.per_query[0] == 1.0
    assert stores.Store(store.folder, store.waiting.parents[1]).collect("x") == 1
