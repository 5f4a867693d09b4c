"""Tables of results: nothing is lost, lines are stable, damaged and crafted files are one sentence."""

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

from isch.errors import FormatError
from isch.evaluate import table
from isch.evaluate.runs import Result


def variants(result: Result) -> list[Result]:
    """Results that differ in all that may differ within one table."""
    other = replace(result.run, label="2-norm", method="2-norm", bits=None, parameters={})
    more = replace(result.run, seed=1, split={"total": 5})
    queries, curve = np.linspace(0, 1, 5), {"ranks": [1.0], "precision": [0.5], "recall": [0.25]}
    return [
        result,
        replace(result, run=other, means={}, learned={}, revision=""),
        replace(result, run=more, per_query=queries, curves=curve, costs={"peak_bytes": 3.0}),
    ]


def same(one: Result, other: Result) -> bool:
    parts = ("run", "means", "curves", "costs", "learned", "revision", "context")
    close = np.allclose(one.per_query, other.per_query, atol=1e-5, equal_nan=True)
    return close and all(getattr(one, part) == getattr(other, part) for part in parts)


@pytest.fixture
def stored(result: Result, tmp_path: Path) -> Path:
    table.write(tmp_path / "x.csv", variants(result))
    return tmp_path / "x.csv"


def test_everything_comes_back(result: Result, stored: Path) -> None:
    back = {r.run.key: r for r in table.read(stored)}
    wanted = variants(result)
    assert len(back) == len(wanted)
    assert all(same(back[r.run.key], r) for r in wanted)
    assert table.revisions(stored) == {r.run.key: r.revision for r in wanted}


def test_reading_and_writing_again_changes_no_byte(stored: Path, tmp_path: Path) -> None:
    table.write(tmp_path / "y.csv", reversed(table.read(stored)))
    for suffix in (".csv", ".safetensors"):
        assert (tmp_path / f"y{suffix}").read_bytes() == stored.with_suffix(suffix).read_bytes()


def test_a_new_run_is_a_new_line_and_changes_no_other(result: Result, stored: Path) -> None:
    before = stored.read_text().splitlines()
    table.write(stored, [*table.read(stored), replace(result, run=replace(result.run, seed=7))])
    after = stored.read_text().splitlines()
    assert len(after) == len(before) + 1
    assert set(before) < set(after)


def test_pandas_reads_it(stored: Path) -> None:
    frame = pd.read_csv(stored)
    assert frame.loc[frame.label == "isch", "mean.map.expected"].iloc[0] == 0.5


def test_no_table_has_no_results(tmp_path: Path) -> None:
    assert table.read(tmp_path / "none.csv") == []
    assert table.revisions(tmp_path / "none.csv") == {}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("isch,isch,32", "isch,isch,x", "line 3 is not a result"),
        ("isch,isch,32", "isch,isch,33", "the key is not that of what was run"),
        ("isch,isch,32", "isch,isch,-32", "bits are not a positive number"),
        ("version,key", "key", "the columns version are missing"),
        ("\n1,", "\n9,", "of version '9'; this ISCH reads version 1"),
        ('"{""tau"": 0.1}"', "{}", "the key is not that of what was run"),
        ('"{""tau"": 0.1}"', "[]", "parameters is not an object"),
        ('"{""tau"": 0.1}"', "[" * 100_000, "line 3 is not a result"),
        ('"{""tau"": 0.1}"', "[" * 200_000, "field larger than field limit"),
        ('"{""tau"": 0.1}"', '"', "not a table of results"),
        (",27.71715300530481,", ",27.7,1,2,", "another number of fields"),
        (",27.71715300530481,", ",many,", "could not convert string to float"),
        ("isch 1", "isch 1\0", ""),
    ],
)
def test_a_crafted_table_is_one_sentence(stored: Path, old: str, new: str, message: str) -> None:
    text = stored.read_text()
    assert old in text
    stored.write_text(text.replace(old, new))
    if message:
        with pytest.raises(FormatError, match=message) as caught:
            table.read(stored)
        assert "\n" not in str(caught.value)
    else:
        table.read(stored)


def test_values_that_are_missing_or_of_another_shape_are_named(stored: Path) -> None:
    path = stored.with_suffix(".safetensors")
    arrays = load_file(path)
    keys = [r.run.key for r in table.read(stored)]
    for changed, header, message in (
        (arrays, {"version": 1, "keys": []}, "x.safetensors lacks its values"),
        (arrays, {"version": 2, "keys": []}, "format version 2"),
        (arrays, {"version": 1, "keys": [keys]}, "expected 3 rows of 16-bit values"),
        (arrays, {"version": 1, "keys": [[]] * 9}, "expected 0 rows"),
        (arrays, {"version": 1, "keys": 3}, "damaged"),
        (arrays, [], "damaged"),
        ({n: a[:0] for n, a in arrays.items()}, {"version": 1, "keys": [keys[:1]]}, "expected 1 rows"),
    ):
        save_file(changed, path, {"isch": json.dumps(header)})
        with pytest.raises(FormatError, match=message):
            table.read(stored)
    path.write_bytes(b"")
    with pytest.raises(FormatError, match="not a file of result values, or damaged"):
        table.read(stored)


@pytest.mark.parametrize("suffix", [".csv", ".safetensors"])
def test_random_damage_is_refused_or_harmless(stored: Path, suffix: str) -> None:
    """Whatever byte is flipped or cut off: results of the right form, or one error of ours."""
    path, rng = stored.with_suffix(suffix), random.Random(0)
    whole = path.read_bytes()
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        if rng.random() < 0.2:
            damaged = damaged[: rng.randrange(len(damaged))]
        else:
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            assert all(len(r.curves["ranks"]) for r in table.read(stored))
        except FormatError:
            refused += 1
    assert refused > 50
