"""Experiments: parsed from data; whatever is wrong with a file is one sentence."""

import copy
import functools
import os
import random
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from isch.errors import FileError, FormatError, InputError, ParameterError
from isch.evaluate import experiment
from isch.evaluate.experiment import parse, read
from isch.evaluate.store import Store
from isch.evaluate.summary import summarise

EXPERIMENTS = Path(experiment.__file__).parent / "experiments"
BASE: dict[str, Any] = {
    "data": {"dataset": "mnist"},
    "split": {"per_class": 1},
    "bits": [8],
    "measures": ["map"],
    "methods": {"isch": {}},
}


@pytest.mark.parametrize("name", experiment.names())
def test_every_experiment_of_the_package_is_well_formed(name: str) -> None:
    spec = read(name)
    assert spec.title
    assert spec.runs()
    for variant in (spec, spec.stand_in):
        if variant is not None:
            assert set(variant.figure.get("paper", ())) <= {*variant.methods, "sp"}


def test_there_is_one_for_each_figure_of_the_paper() -> None:
    figures = "".join(read(name).paper for name in experiment.names())
    assert all(f"({letter})" in figures for letter in "abcdefghi")


def test_unknown_names_list_the_known() -> None:
    with pytest.raises(ParameterError, match="unknown experiment 'mnits' .did you mean mnist.*; known: .*mnist"):
        read("mnits")
    with pytest.raises(ParameterError, match="unknown method 'foo'; known: .*isch.*lsh"):
        parse(BASE | {"methods": {"foo": {}}}, "x")
    with pytest.raises(ParameterError, match="unknown measure 'foo'"):
        parse(BASE | {"measures": ["foo"]}, "x")
    with pytest.raises(ParameterError, match="unknown key of x: 'foo'"):
        parse(BASE | {"foo": 1}, "x")
    with pytest.raises(ParameterError, match=r"unknown key of \[data\]: 'foo'"):
        parse(BASE | {"data": {"dataset": "mnist", "foo": 1}}, "x")


def test_what_is_missing_or_wrong_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs 'bits'"):
        parse({k: v for k, v in BASE.items() if k != "bits"}, "x")
    with pytest.raises(ParameterError, match="integers of at least 1 .*; got 0"):
        parse(BASE | {"bits": [0]}, "x")
    with pytest.raises(FileError, match="No such file"):
        read(str(tmp_path / "none.toml"))
    (tmp_path / "bad.toml").write_text("= 1")
    with pytest.raises(FormatError, match="not a TOML file"):
        read(str(tmp_path / "bad.toml"))


def test_the_stand_in_is_used_when_the_data_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISCH_DATA", str(tmp_path))
    chosen = experiment.available(read("vlad"))
    assert chosen.is_stand_in
    assert chosen.data["dataset"] == "tiny-imagenet-60k"


def test_a_summary_needs_results(toy: Path) -> None:
    with pytest.raises(FileError, match="no stored results of toy"):
        summarise(read(str(toy)), Store(toy.parent / "results", toy.parent / "cache"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bits": 8}, "'bits' must be a list; got 8"),
        ({"measures": "map"}, "'measures' must be a list"),
        ({"seeds": True}, "'seeds' must be a number; got True"),
        ({"methods": {"itq": 3}}, "method 'itq' must be a table of parameters; got 3"),
        ({"methods": {"itq": {"n_bits": 4}}}, "the lengths belong in bits"),
        ({"methods": {"itq": {"foo": 1}}}, "unknown parameter of itq: 'foo'"),
        ({"methods": {"itq": {"n_iter": -1}}}, "'n_iter' parameter of ITQ"),
        ({"methods": {"itq": {"name": "lsh"}}}, "unknown parameter of itq: 'name'"),
        ({"bits": [8] * 1000}, "a list or table of 1,000 entries; expected at most 500"),
        ({"bits": [10**400]}, "expected numbers below 1e.15; got 1e.300"),
        ({"methods": {"itq": {"n_iter": float("nan")}}}, "expected numbers below 1e.15; got nan"),
        ({"methods": {"itq": {"ranking": "best"}}}, "unknown ranking 'best'; known: "),
        ({"methods": {"2-norm": {"p": 3}}}, "method 2-norm takes no parameters; got p"),
        ({"methods": {"itq": {"bits": 8}}}, "bits of 'itq' must be a list"),
        ({"methods": {"../itq": {"method": "itq"}}}, "the name of a method must be up to 80 letters"),
        ({"methods": {"a\nb": {"method": "itq"}}}, "the name of a method must be up to 80 letters"),
        ({"measures": [3]}, "a measure must be text; got 3"),
        ({"measures": ["precision@99999999999999999999"]}, "unknown measure"),
        ({"bits": [10**12]}, "at most 1,048,576; got 1000000000000"),
        ({"bits": ["8"]}, "got '8'"),
        ({"bits": [True]}, "got True"),
        ({"bits": list(range(1, 201)), "seeds": 1000}, "some 200,000 runs are planned"),
        ({"title": "two\nlines"}, "'title' must be one line of text"),
        ({"claim": 3}, "'claim' must be one line of text; got '3'"),
        ({"notes": "one"}, "'notes' must be a list; got 'one'"),
        ({"notes": ["fine", "two\nlines"]}, "each of 'notes' must be one line of text"),
        ({"figure": {"kind": "pie"}}, "unknown kind of figure 'pie'"),
        ({"figure": {"colour": 1}}, "unknown key of mine, .figure.: 'colour'"),
        ({"figure": {"paper": "isch"}}, "'paper' of .figure. must be a list"),
        ({"split": {"total": "x"}}, "total of a split must be an integer"),
        ({"split": {"total": True}}, "total of a split must be an integer"),
        ({"split": {"official": 1}}, "official of a split must be true or false"),
        ({"split": {"foo": 1}}, "unknown key of mine, .split.: 'foo'"),
        ({"data": {"dataset": 3}}, "'dataset' must be text; got 3"),
        ({"data": {"dataset": "mnist", "options": 3}}, "'options' must be a table; got 3"),
        ({"data": {"dataset": "mnist", "descriptor": "eyes"}}, "unknown descriptor 'eyes'"),
        ({"data": {"dataset": "mnist", "precision": "quarter"}}, "unknown precision 'quarter'"),
        ({"stand_in": 3}, "'stand_in' must be a table; got 3"),
        ({"data": {"dataset": "mnist", "options": {"a": [date(2026, 1, 1)]}}}, "expected text, numbers, lists"),
    ],
)
def test_a_malformed_experiment_is_refused_before_anything_runs(changes: dict[str, Any], message: str) -> None:
    table = {
        "data": {"dataset": "mnist"},
        "split": {"total": 10},
        "bits": [8],
        "measures": ["map"],
        "methods": {"itq": {}},
    }
    with pytest.raises(InputError, match=message):
        experiment.parse(table | changes, "mine")


@pytest.mark.parametrize("name", ["../x", "", ".hidden", "a/b", "a\0b", "x" * 200, "a\n"])
def test_the_name_of_an_experiment_stays_inside_the_folder_of_results(name: str) -> None:
    with pytest.raises(InputError, match="the name of an experiment file must be up to 80 letters"):
        experiment.parse(BASE, name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "not a text file in UTF-8"),
        (b"x = " + b"[" * 100_000, "not a TOML file"),
        (b"#" * (2 << 20), "more than 1 MiB; expected an experiment file"),
        (b"title = 1", "needs 'data'"),
    ],
)
def test_a_crafted_file_is_one_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises((FormatError, InputError), match=message):
        read(str(path))


def test_a_folder_or_pipe_is_not_an_experiment(tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "pipe.toml")
    for name, kind in (("folder", "a folder"), ("pipe", "a pipe")):
        with pytest.raises(FileError, match=f"is {kind}, not a regular file"):
            read(str(tmp_path / f"{name}.toml"))


def test_damaged_data_is_not_replaced_by_the_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISCH_DATA", str(tmp_path))
    folder = tmp_path / "ilsvrc2010"
    folder.mkdir()
    (folder / "features.npy").write_bytes(b"not a matrix")
    (folder / "labels.txt").write_text("0\n1\n")
    with pytest.raises(FormatError):
        experiment.available(read("cnn"))


def places(table: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything inside a nested table."""
    inside = table.items() if isinstance(table, dict) else enumerate(table) if isinstance(table, list) else ()
    return [q for key, part in inside for q in [(*path, key), *places(part, (*path, key))]]


JUNK = [0, -1, 10**12, 1.5, float("inf"), "", "../x", "a\nb", "\0", "isch", "2-norm", [], [1], [[]], {}, {"a": 1}, True]


@pytest.mark.parametrize("name", experiment.names())
def test_whatever_is_changed_in_a_file_it_is_an_experiment_or_one_sentence(name: str) -> None:
    rng, original = random.Random(name), tomllib.loads((EXPERIMENTS / f"{name}.toml").read_text())
    for _ in range(60):
        table = copy.deepcopy(original)
        *path, last = rng.choice(places(table))
        inner = functools.reduce(lambda part, key: part[key], path, table)
        inner[last] = copy.deepcopy(rng.choice(JUNK))
        try:
            spec = parse(table, name)
        except (InputError, FormatError):
            continue
        assert all(run.key and run.plan for run in spec.runs()[:3])
