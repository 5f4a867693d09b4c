"""What learning will cost is known before it begins, and is what it then does."""

import json
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import isch
from isch import progress
from isch.compute import memory
from isch.errors import InputError
from isch.features import Block
from isch.features.arrays import ArrayFeatures
from isch.fitting import Size, Speeds, Stage, load
from isch.fitting.plan import no_room
from isch.hashing import METHODS
from isch.hashing import hasher as hasher_named

X = np.random.default_rng(0).standard_normal((3000, 40)).astype(np.float16)
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "distance": [{"n_iter": 3}],
    "diffusion": [
        {"n_iter": 3},
        {"n_iter": 3, "nested": True, "n_bits": 100},
        {"n_iter": 3, "dictionary": "hierarchical", "n_branches": 6, "spectrum": "columns"},
    ],
    "isch": [
        {"n_iter": 3},
        {"n_iter": 3, "n_bits": 100, "tau": 0.01},
        {"n_iter": 3, "dictionary": "hierarchical", "n_branches": 6, "spectrum": "randomized"},
        {"n_iter": 3, "spectrum": "columns", "max_samples": 1500},
    ],
    "itq": [{"n_iter": 3}, {"n_iter": 3, "nested": True, "n_bits": 100}],
    "bpbc": [{"learn": False}, {"n_iter": 2}],
    "cbe": [{"learn": False}, {"n_iter": 2}],
    "kmh": [{"n_iter": 3}],
    "sp": [{"n_iter": 3}],
    "sph": [{"n_iter": 3}],
    "sklsh": [{}, {"gamma": 0.1}],
    "mdsh": [{}, {"sigma": 3.0}],
}
CASES = [(name, options) for name in sorted(METHODS) for options in VARIANTS.get(name, [{}])]


class Counted(ArrayFeatures):
    """Rows in memory that count what is read of them."""

    def __init__(self, rows: NDArray[Any]) -> None:
        super().__init__(rows)
        self.n_bytes = 0

    def read(self, start: int, stop: int) -> Block:
        self.n_bytes += (stop - start) * self.shape[1] * self.dtype.itemsize
        return super().read(start, stop)

    def take(self, rows: NDArray[np.intp]) -> Block:
        self.n_bytes += len(rows) * self.shape[1] * self.dtype.itemsize
        return super().take(rows)


class Heard(NamedTuple):
    """The tasks that a listener was told of, and how far the whole had come after each."""

    labels: list[str]
    fractions: list[float]

    @contextmanager
    def task(self, label: str, total: int, unit: str) -> Iterator[progress.Advance]:
        self.labels.append(label)
        yield lambda _: None
        plan = progress.whole()
        assert plan is not None
        self.fractions.append(plan.fraction)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_the_plan_is_what_is_done(name: str, options: dict[str, Any]) -> None:
    """The same stages under the same labels, the same bytes of features, one whole that ends at 1."""
    features, heard = Counted(X), Heard([], [])
    hasher = hasher_named(name, **{"n_bits": 16} | options)
    with warnings.catch_warnings(), progress.listen(heard):
        warnings.simplefilter("ignore")
        plan = hasher.plan(X, measured=False)
        hasher.fit(features)
    planned = [stage.label for stage in plan.stages]
    outer = [label for label in heard.labels if label in planned]
    assert set(heard.labels) - set(planned) <= {"k-means"}  # inside the splits of a hierarchical dictionary
    assert list(dict.fromkeys(outer)) == list(dict.fromkeys(planned))
    block = 1024 * X.shape[1] * X.itemsize  # to see whether all rows are equal, at most five; one to begin a covariance
    assert plan.read <= features.n_bytes <= plan.read + 6 * block
    assert heard.fractions == sorted(heard.fractions)
    assert heard.fractions[-1] == pytest.approx(1)
    assert plan.flops >= 0
    assert not hasattr(hasher_named(name), "n_samples_")


def test_flops_of_products_by_hand() -> None:
    """10 iterations with 80 atoms; then the Gram matrix of 80 atoms of 40 values, in double precision."""
    stages = {stage.label: stage for stage in isch.ISCH(8, tau=0.1).plan(X, measured=False).stages}
    assert stages["k-means"].products == 10 * 2 * 3000 * 40 * 80
    assert stages["eigenvectors"].products == 2 * 2 * 80 * 40 * 40
    assert stages["projecting"].products == 2 * 3000 * 40 * 8
    assert stages["rotation 1 of 1"].products == 50 * 2 * 2 * 3000 * 8 * 8
    assert stages["loading"].array == 4 * X.size


def test_a_measured_plan_estimates_the_time_and_is_json() -> None:
    plan = isch.LSH(16).plan(X)
    assert plan.speeds.read > 1e6
    assert plan.speeds.products > 1e8
    assert plan.seconds == pytest.approx(X.nbytes / plan.speeds.read)
    told = json.loads(json.dumps(plan.as_dict()))
    assert told["passes"] == 1
    assert told["read"] == X.nbytes
    assert told["stages"][0]["label"] == "mean"
    assert told["encoding"]["products"] == 2 * X.size * 16
    assert told["problems"] == []


def test_seconds_are_shared_by_whoever_runs_passes() -> None:
    speeds = Speeds(products=10, solving=5, read=2, passes=4, moved=20)
    assert speeds.seconds(Stage("pass", products=40, read=6)) == 40 / 10 / 4 + 6 / 2
    assert speeds.seconds(Stage("here", products=40, solving=5, moved=60)) == 4 + 1 + 3


def test_neighbours_and_what_belongs_together_are_planned_for_diffusion_alone() -> None:
    learned, given = (method(8).plan(X, measured=False).stages for method in (isch.DiffusionHash, isch.ISCH))
    further = {"neighbours", "what belongs together"}
    assert further <= {stage.label for stage in learned if stage.moved}
    assert not further & {stage.label for stage in given}


def test_the_plan_names_what_the_program_itself_takes() -> None:
    assert isch.LSH(8).plan(X, measured=False).as_dict()["program"] >= 10**7


@pytest.mark.parametrize(
    ("hasher", "options", "message"),
    [
        (isch.ISCH(64), {"memory": "1MB"}, r"memory = 1 MB is too little for ISCH of 64 bits .* at least \d"),
        (isch.PCAH(41), {}, "PCAH gives at most one bit per feature"),
        (isch.CBE(41), {}, "CBE gives at most one bit per feature"),
        (isch.KMH(41), {}, "KMH gives at most one bit per feature"),
        (isch.ISCH(64, block_size=7), {}, "block_size must divide n_bits = 64"),
        (isch.BPBC(12, shape=(7, 7)), {}, "shape must multiply to 40"),
        (isch.SPH(4, max_samples=3), {}, "SPH needs at least 5 rows"),
        (isch.MDSH(4, max_samples=9), {}, "MDSH needs at least 10 rows"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_read(hasher: Any, options: Any, message: str) -> None:
    features = Counted(X)
    with pytest.raises(InputError, match=message):
        hasher.fit(features, **options)
    with pytest.raises(InputError, match=message):
        hasher.plan(features, **options).refuse()
    assert features.n_bytes == 0


def test_no_room_for_temporary_files_a_checkpoint_or_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are 100 kB free, that is said before anything is read."""
    features, hasher, there = Counted(X), isch.ISCH(16, n_atoms=700), tmp_path / "not" / "yet"
    assert hasher.plan(features, memory="10GB", checkpoint=there, output=there, measured=False).problems == ()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**6, 9 * 10**5, 10**5))
    for arguments, words in (
        ({"memory": "3.5MB"}, "temporary files"),
        ({"checkpoint": there, "memory": "10GB"}, "the checkpoint"),
    ):
        with pytest.raises(InputError, match=rf"no room for {words}.*: needs \S+ .B, and 100 kB are free"):
            isch.ISCH(16, n_atoms=700).fit(features, **arguments)
    assert features.n_bytes == 0
    (problem,) = isch.LSH(1000).plan(X, output=there / "m.safetensors", measured=False).problems
    assert problem.startswith(f"{there}: no room for the model: needs 160 kB")
    assert list(no_room(tmp_path, 10, "x")) == []


def test_more_memory_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free", lambda: 10**6)
    (problem,) = isch.LSH(16).plan(X, measured=False).problems
    assert "LSH of 16 bits and 40 features needs at least" in problem
    assert problem.endswith("of memory, and 1 MB are free")


def test_sizes() -> None:
    size = Size.of(ArrayFeatures(X))
    assert size == (3000, 40, 2)
    assert size.bytes() == X.nbytes
    (stage,) = load.stages(ArrayFeatures(X[:10]), X[0])
    assert (stage.label, stage.read) == ("loading", 10 * 40 * 2)
