"""Running experiments: once, resumed, repeatable, again only what is stale."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isch.evaluate import peers
from isch.evaluate.execution import Outcome, execute
from isch.evaluate.experiment import read
from isch.evaluate.peers import Peer
from isch.evaluate.store import Store
from isch.hashing.lsh import LSH


def store(toy: Path) -> Store:
    return Store(toy.parent / "results", toy.parent / "cache")


def run(toy: Path, **choice: Any) -> list[Outcome]:
    return list(execute(read(str(toy)).narrowed(**choice), store(toy), toy.parent / "cache"))


def stored(toy: Path) -> dict[str, Any]:
    """What was stored, without what differs from run to run."""
    return {r.run.key: (r.run, r.means, r.curves, r.per_query.tolist()) for r in store(toy).all("toy")}


def test_a_run_is_done_once_and_gives_the_same_when_done_again(toy: Path) -> None:
    first = run(toy)
    assert all(outcome.result is not None for outcome in first)
    assert len(first) == 2 * (4 * 2 + 2)
    before = stored(toy)
    assert all(outcome.result is None for outcome in run(toy))
    for path in (toy.parent / "results").glob("toy.*"):
        path.unlink()
    run(toy)
    assert stored(toy) == before


def test_results_are_in_the_table_when_a_run_ends(toy: Path) -> None:
    run(toy, seeds=1)
    assert sorted(p.name for p in (toy.parent / "results").glob("[!.]*")) == ["toy.csv", "toy.safetensors"]
    assert store(toy).uncollected() == []


def test_an_interrupted_experiment_goes_on_where_it_was(toy: Path) -> None:
    steps = execute(read(str(toy)), store(toy), toy.parent / "cache")
    for _ in range(3):
        next(steps)
    steps.close()
    rest = run(toy)
    assert [outcome.result is None for outcome in rest] == [True] * 3 + [False] * 17


def test_changing_one_method_runs_only_that_one(toy: Path) -> None:
    run(toy, seeds=1)
    toy.write_text(toy.read_text().replace("itq = {}", "itq = { n_iter = 3 }"))
    assert {o.run.label for o in run(toy, seeds=1) if o.result is not None} == {"itq"}


def test_only_runs_of_an_older_revision_are_run_again(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choice: dict[str, Any] = {"labels": ["lsh", "threshold", "2-norm"], "bits": [8], "seeds": 1}
    run(toy, **choice)
    monkeypatch.setattr(LSH, "revision", 99)
    assert [o.run.label for o in run(toy, **choice) if o.result is not None] == ["lsh"]
    assert {r.run.label: r.revision for r in store(toy).all("toy")}["lsh"] == "lsh 99"
    monkeypatch.setitem(peers.PEERS, "threshold", Peer(peers.PEERS["threshold"].make, revision=2))
    assert [o.run.label for o in run(toy, **choice) if o.result is not None] == ["threshold"]
    assert not any(o.result for o in run(toy, **choice))


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


def test_real_values_are_measured_without_codes(toy: Path) -> None:
    toy.write_text(toy.read_text() + 'real = { method = "itq", ranking = "real" }\n')
    plain, real = (o.result for o in run(toy, labels=["itq", "real"], bits=[16], seeds=1))
    assert plain is not None
    assert real is not None
    assert real.costs["item_bytes"] == 32 * plain.costs["item_bytes"]
    assert real.means["nn5-recall@20"]["expected"] > plain.means["nn5-recall@20"]["expected"]


def test_a_method_that_refuses_a_length_does_not_stop_the_others(toy: Path) -> None:
    toy.write_text(toy.read_text() + "pcah = {}\n")  # has at most as many bits as there are features
    outcomes = run(toy, labels=["pcah", "lsh"], bits=[64], seeds=1)
    assert "pcah" in {o.run.label for o in outcomes if o.refusal}
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
