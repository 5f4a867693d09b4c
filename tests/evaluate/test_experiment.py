"""Experiments: parsed from data, run once, resumed, repeatable."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isch.errors import FileError, FormatError, InputError, ParameterError
from isch.evaluate import experiment, fingerprint
from isch.evaluate.experiment import Outcome, execute, parse, read
from isch.evaluate.results import Store
from isch.evaluate.summary import summarise

BASE: dict[str, Any] = {
    "data": {"dataset": "mnist"},
    "split": {"per_class": 1},
    "bits": [8],
    "measures": ["map"],
    "methods": {"isch": {}},
}


def run(toy: Path, **choice: Any) -> list[Outcome]:
    return list(execute(read(str(toy)).narrowed(**choice), Store(toy.parent / "results"), toy.parent / "cache"))


def stored(toy: Path) -> dict[str, Any]:
    """What was stored, without what differs from run to run."""
    files = sorted((toy.parent / "results" / "toy").glob("*.json"))
    contents = {path.name: json.loads(path.read_text()) for path in files}
    return {n: {k: c[k] for k in ("run", "means", "curves", "per_query")} for n, c in contents.items()}


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


def test_a_run_is_done_once_and_gives_the_same_when_done_again(toy: Path) -> None:
    first = run(toy)
    assert all(outcome.result is not None for outcome in first)
    assert len(first) == 2 * (4 * 2 + 2)
    before = stored(toy)
    assert all(outcome.result is None for outcome in run(toy))
    for path in (toy.parent / "results" / "toy").glob("*.json"):
        path.unlink()
    run(toy)
    assert stored(toy) == before


def test_an_interrupted_experiment_goes_on_where_it_was(toy: Path) -> None:
    steps = execute(read(str(toy)), Store(toy.parent / "results"), toy.parent / "cache")
    for _ in range(3):
        next(steps)
    steps.close()
    rest = run(toy)
    assert [outcome.result is None for outcome in rest] == [True] * 3 + [False] * 17


def test_changing_one_method_runs_only_that_one(toy: Path) -> None:
    run(toy, seeds=1)
    toy.write_text(toy.read_text().replace("itq = {}", "itq = { n_iter = 3 }"))
    assert {o.run.label for o in run(toy, seeds=1) if o.result is not None} == {"itq"}


def test_results_of_an_older_version_of_a_method_are_run_again(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(toy, labels=["lsh", "2-norm"], bits=[8], seeds=1)
    monkeypatch.setattr(fingerprint, "of_code", lambda method, *rest: "newer" if method == "lsh" else "")
    again = run(toy, labels=["lsh", "2-norm"], bits=[8], seeds=1)
    assert [o.run.label for o in again if o.result is not None] == ["lsh"]


def test_changed_data_are_run_again(toy: Path) -> None:
    run(toy, labels=["lsh"], seeds=1)
    path = toy.parent / "data" / "features.npy"
    rows = np.load(path)
    rows[7, 3] += 1
    np.save(path, rows)
    assert all(outcome.result is not None for outcome in run(toy, labels=["lsh"], seeds=1))


def test_rankings_of_one_model_share_its_training(toy: Path) -> None:
    outcomes = {(o.run.label, o.run.bits): o.result for o in run(toy, seeds=1)}
    plain, asymmetric = outcomes["itq", 16], outcomes["itq-asymmetric", 16]
    assert plain is not None
    assert asymmetric is not None
    assert plain.costs["training_seconds"] == asymmetric.costs["training_seconds"]
    assert plain.means != asymmetric.means


def test_a_method_that_refuses_a_length_does_not_stop_the_others(toy: Path) -> None:
    outcomes = run(toy, labels=["itq", "lsh"], bits=[64], seeds=1)
    assert "itq" in {o.run.label for o in outcomes if o.refusal}
    assert [o.run.label for o in outcomes if o.result is not None] == ["lsh"]


def test_costs_stand_beside_quality(toy: Path) -> None:
    (outcome,) = run(toy, labels=["itq"], bits=[16], seeds=1)
    assert outcome.result is not None
    costs = outcome.result.costs
    assert costs["item_bytes"] == 2
    assert costs["model_bytes"] is not None
    assert costs["model_bytes"] >= 24 * 16 * 4
    assert {"training_seconds", "encoding_per_second", "search_per_second", "peak_bytes"} <= costs.keys()
    assert {"isch", "processor", "date"} <= outcome.result.context.keys()


@pytest.mark.parametrize("name", ["faiss-itq", "faiss-lsh", "faiss-pq", "threshold", "pca-2-norm"])
def test_peers_run_on_the_same_split(toy: Path, name: str) -> None:
    pytest.importorskip("faiss", reason="needs faiss")
    for outcome in run(toy, labels=[name], bits=[16], seeds=1):
        assert outcome.result is not None, outcome.refusal
        assert 0.3 < outcome.result.means["precision@10"]["expected"] <= 1


def test_rabitq_counts_its_factors(toy: Path) -> None:
    pytest.importorskip("faiss", reason="needs faiss")
    refused, done = run(toy, labels=["faiss-rabitq"], bits=[64, 80], seeds=1)
    assert "64 bits of factors" in refused.refusal
    assert done.result is not None
    assert done.result.costs["item_bytes"] == 10


def test_unknown_names_list_the_known() -> None:
    with pytest.raises(ParameterError, match="unknown experiment 'mnits'; known: .*mnist"):
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
    with pytest.raises(ParameterError, match="at least 1; got 0"):
        parse(BASE | {"bits": [0]}, "x")
    with pytest.raises(FileError, match="no such experiment file"):
        read(str(tmp_path / "none.toml"))
    (tmp_path / "bad.toml").write_text("= 1")
    with pytest.raises(FormatError, match="not a TOML file"):
        read(str(tmp_path / "bad.toml"))


def test_the_stand_in_is_used_when_the_data_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISCH_DATA", str(tmp_path))
    chosen = experiment.available(read("vlad"))
    assert chosen.is_stand_in
    assert chosen.data["dataset"] == "tiny-imagenet"


def test_a_summary_needs_results(toy: Path) -> None:
    with pytest.raises(FileError, match="no stored results of toy"):
        summarise(read(str(toy)), Store(toy.parent / "results"))


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
