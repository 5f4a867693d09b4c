"""A small labelled feature set and an experiment on it."""

from pathlib import Path

import numpy as np
import pytest

from isch.evaluate.execution import execute
from isch.evaluate.experiment import read
from isch.evaluate.runs import Result, Run
from isch.evaluate.store import Store
from isch.evaluate.summary import Summary, summarise

TOML = """
title = "toy"
bits = [8, 16]
seeds = 2
measures = ["precision@10", "map", "nn5-recall@20"]

[data]
dataset = "features"
path = "{folder}"

[split]
per_class = 5

[figure]
paper = ["isch", "itq"]
claim_bits = 16

[methods]
isch = {{}}
itq = {{}}
itq-asymmetric = {{ method = "itq", ranking = "asymmetric" }}
lsh = {{}}
2-norm = {{}}
sign = {{}}
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """The path of an experiment file."""
    return _write(tmp_path)


@pytest.fixture(scope="module")
def shared_toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for tests that only read what was run."""
    return _write(tmp_path_factory.mktemp("toy"))


def _write(top: Path) -> Path:
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 4
    features = rng.standard_normal((4, 24))[labels] + rng.standard_normal((600, 24))
    folder = top / "data"
    folder.mkdir()
    np.save(folder / "features.npy", features.astype(np.float32))
    np.save(folder / "labels.npy", labels)
    path = top / "toy.toml"
    path.write_text(TOML.format(folder=folder))
    return path


@pytest.fixture
def result() -> Result:
    """A made-up result."""
    run = Run({"dataset": "mnist", "fingerprint": "f"}, {"total": 3}, ("map",), "isch", "isch", {"tau": 0.1}, 32, 0)
    return Result(
        run,
        {"map": {"expected": 0.5, "pessimistic": 0.25, "optimistic": 0.75}},
        {"ranks": [1.0, 2.0], "precision": [1.0, 0.123457], "recall": [0.5, float("inf")]},
        {"training_seconds": 1.5, "encoding_per_second": 1456102.7837259101},
        np.array([0.25, np.nan, 1.0]),
        {"lambda_star": 27.71715300530481},
        "isch 1",
        {"date": "2026-01-01T00:00:00+00:00", "versions": {"numpy": "2.4"}},
    )


@pytest.fixture(scope="module")
def summary(shared_toy: Path) -> Summary:
    """The results of the experiment, whose data was removed."""
    store = Store(shared_toy.parent / "results", shared_toy.parent / "cache")
    list(execute(read(str(shared_toy)), store, shared_toy.parent / "cache"))
    for path in (shared_toy.parent / "data").iterdir():
        path.unlink()
    return summarise(read(str(shared_toy)), store)
