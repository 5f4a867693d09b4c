"""The adapter for ann-benchmarks, run as their runner runs it, on small data."""

import importlib
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

yaml = pytest.importorskip("yaml", reason="the package pyyaml is not installed")

FOLDER = Path(__file__).parents[2] / "integrations" / "ann_benchmarks"
BASE = '''
class BaseANN(object):
    """The interface that algorithms of ann-benchmarks implement."""

    def done(self): pass
    def get_memory_usage(self): return None
    def fit(self, X): pass
    def query(self, q, n): return []
    def batch_query(self, X, n): self.res = [self.query(q, n) for q in X]
    def get_batch_results(self): return self.res
    def get_additional(self): return {}
    def __str__(self): return self.name
'''


@pytest.fixture
def algorithms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package laid out as theirs, with ours in it."""
    place = tmp_path / "ann_benchmarks" / "algorithms"
    (place / "base").mkdir(parents=True)
    (place / "base" / "module.py").write_text(BASE)
    shutil.copytree(FOLDER, place / "isch")
    monkeypatch.syspath_prepend(tmp_path)


def definitions(point_type: str, metric: str) -> list[tuple[Any, list[list[Any]]]]:
    """(algorithm, lists of arguments for its queries), from config.yml, as they read it."""
    found = []
    config = yaml.safe_load((FOLDER / "config.yml").read_text())[point_type]
    for entry in config.get("any", []) + config.get(metric, []):
        assert entry["docker_tag"] == "ann-benchmarks-isch"
        module = importlib.import_module(f"{entry['module']}.module")
        base = [metric if argument == "@metric" else argument for argument in entry["base_args"]]
        for group in entry["run_groups"].values():
            queries = [list(one) for one in product(*group.get("query_args", []))]
            for arguments in product(*group.get("args", [])):
                found.append((getattr(module, entry["constructor"])(*base, *arguments), queries))
    return found


def distances(metric: str, X: Any, q: Any) -> Any:
    if metric == "hamming":
        return (q != X).sum(axis=1)
    if metric == "angular":
        return 1 - (X @ q) / (np.linalg.norm(X, axis=1) * np.linalg.norm(q))
    return np.linalg.norm(X - q, axis=1)


def recall(metric: str, train: Any, query: Any, rows: list[int]) -> float:
    """Neighbours as near as the tenth one count."""
    worst = np.sort(distances(metric, train, query))[9] + 1e-6
    return float(np.mean(distances(metric, train[rows], query) <= worst))


@pytest.mark.parametrize(("point_type", "metric"), [("float", "angular"), ("float", "euclidean"), ("bit", "hamming")])
@pytest.mark.usefixtures("algorithms")
def test_each_definition_finds_neighbours(point_type: str, metric: str) -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(10, 24))
    data = (centres[rng.integers(0, 10, 620)] + 0.4 * rng.normal(size=(620, 24))).astype(np.float32)
    data = data > 0 if point_type == "bit" else data
    train, test = data[:600], data[600:]
    tried = definitions(point_type, metric)
    assert tried
    for algorithm, queries in [tried[0], tried[-1]]:
        algorithm.fit(train)
        recalls = []
        for arguments in queries or [[]]:
            if arguments:
                algorithm.set_query_arguments(*arguments)
            single = [list(algorithm.query(q, 10)) for q in test]
            algorithm.batch_query(test, 10)
            assert [list(rows) for rows in algorithm.get_batch_results()] == single
            assert str(algorithm)
            recalls.append(np.mean([recall(metric, train, q, rows) for q, rows in zip(test, single, strict=True)]))
        algorithm.done()
        assert recalls[-1] == 1  # as many candidates as rows
        assert recalls == sorted(recalls)
        assert min(recalls) > 0.3  # chance finds a thirtieth


@pytest.mark.usefixtures("algorithms")
def test_a_metric_that_is_not_ours_is_refused() -> None:
    module = importlib.import_module("ann_benchmarks.algorithms.isch.module")
    with pytest.raises(NotImplementedError, match="jaccard"):
        module.Codes("jaccard", "isch", 64)
    with pytest.raises(NotImplementedError, match="euclidean"):
        module.Hamming("euclidean")
