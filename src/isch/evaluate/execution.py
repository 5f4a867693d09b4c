"""Running an experiment: runs that are missing, or of another revision, are trained, searched and measured."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from isch import compute
from isch.errors import InputError, MissingExtra, unknown
from isch.evaluate import costs, digest, methods, revisions
from isch.evaluate.datasets import Dataset
from isch.evaluate.described import features_of
from isch.evaluate.experiment import Experiment
from isch.evaluate.metrics import measure
from isch.evaluate.prepare import DataSpec, Material, material
from isch.evaluate.ranking import score
from isch.evaluate.runs import Result, Run
from isch.evaluate.sharing import Shared, model_key
from isch.evaluate.splits import SplitRule
from isch.evaluate.store import Store
from isch.features import Features


@dataclass(frozen=True)
class Outcome:
    """What became of one run."""

    run: Run
    left: int  # runs still to be made
    result: Result | None = None  # None: stored already, or refused
    refusal: str = ""  # why the method could not be run


def execute(
    experiment: Experiment, store: Store, cache: Path, redo: Iterable[str] = ()
) -> Generator[Outcome, None, None]:
    """Make the runs that are missing or stale. Each result is saved at once, and all are collected at the end.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    store : Store
        Where results are looked up and saved.
    cache : Path
        The folder of computed features and true neighbours.
    redo : iterable of str
        Labels of methods to run again even if their results are stored.

    Yields
    ------
    Outcome
        One per planned run.
    """
    again = set(redo)
    if strange := sorted(again - set(experiment.methods)):
        raise unknown("method to redo", strange[0], experiment.methods)
    spec = DataSpec.of(experiment.data)
    dataset = spec.load()
    data = experiment.data | {"fingerprint": digest.of_data(dataset, cache)}
    runs = [replace(planned, data=data) for planned in experiment.runs()]
    stored = store.revisions(experiment.name)
    wanted = [run.label in again or stored.get(run.key) != revisions.current(run) for run in runs]
    if any(wanted):
        store.check_writable(experiment.name)
    bench = _Bench(experiment, spec, dataset, cache, runs)
    try:
        for number, run in enumerate(runs):
            left = sum(wanted[number + 1 :])
            yield _attempt(bench, run, left, store) if wanted[number] else Outcome(run, left)
    finally:
        store.collect(experiment.name)


@dataclass
class _Bench:
    """The data of an experiment: features and splits are made when the first run needs them."""

    experiment: Experiment
    spec: DataSpec
    dataset: Dataset
    cache: Path
    runs: list[Run]
    _usable: bool = False  # whether no value is NaN or infinite
    _split: tuple[int, Material, Shared] | None = None  # the last one, with its seed

    def split(self, seed: int) -> tuple[Material, Shared]:
        """The split of a seed, and what its runs share."""
        if self._split is None or self._split[0] != seed:
            self._split = None  # two splits at once could exceed the memory, as could one and all the features
            features = self._opened()
            neighbours = max(measure(name).neighbours for name in self.experiment.measures)
            rule, scaling = SplitRule(**self.experiment.split), self.spec.normalise
            ready = material(self.dataset, features, rule, scaling, seed, neighbours, self.cache)
            self._split = seed, ready, Shared.between(run for run in self.runs if run.seed == seed)
        return self._split[1:]

    def _opened(self) -> Features:
        """The features, which are usable."""
        features = features_of(self.dataset, self.spec, self.cache)
        if not self._usable:
            compute.refuse_unfinite(features)
            self._usable = True
        return features


def _attempt(bench: _Bench, run: Run, left: int, store: Store) -> Outcome:
    ready, shared = bench.split(run.seed)
    try:
        result = perform(run, ready, shared)
    except (InputError, MissingExtra) as error:
        return Outcome(run, left, refusal=str(error))
    store.put(bench.experiment.name, result)
    return Outcome(run, left, result)


def perform(run: Run, ready: Material, shared: Shared) -> Result:
    """Train, encode, rank and measure one method at one length.

    Parameters
    ----------
    run : Run
        What to run.
    ready : Material
        Its split.
    shared : Shared
        What the runs of this split have in common.
    """
    method, meter = _trained(run, ready, shared)
    chosen = [measure(name) for name in run.measures]
    ranker = method.ranker(ready)
    scores = score(ranker, ready.truth, chosen)
    peak = meter.peak()
    k = chosen[0].k or 10
    method.search(k)  # compiling and laying out at first use is not part of the speed
    with meter.timing("search"):
        n_queries = method.search(k)
    spent = {
        **meter.seconds,
        "encoding_per_second": len(ready.database) / max(meter.seconds["encoding_seconds"], 1e-9),
        "search_per_second": n_queries / max(meter.seconds["search_seconds"], 1e-9),
        "model_bytes": float(method.model_bytes),
        "item_bytes": float(method.item_bytes),
        **({} if peak is None else {"peak_bytes": peak}),
    }
    per_query = scores.values[chosen[0].name]["expected"]
    learned = getattr(method, "learned", {})
    revision = revisions.current(run)
    return Result(run, scores.means(), scores.curves(), spent, per_query, learned, revision, costs.context())


def _trained(run: Run, ready: Material, shared: Shared) -> tuple[methods.Method, costs.Meter]:
    """The method, trained and holding the database, and how long that took."""
    method, meter = methods.make(run.method, run.parameters, run.bits, run.seed, shared), costs.Meter()
    key = model_key(run)
    twin = shared.models.get(key)
    if isinstance(method, methods.HasherMethod) and twin is not None:
        method.adopt(twin[0])
        meter.seconds.update(twin[1])
        return method, meter
    with meter.timing("training"):
        method.fit(ready.database)
    for name, seconds in getattr(method, "saved", {}).items():
        meter.seconds[name] += seconds
    with meter.timing("encoding"):
        method.add(ready)
    if key in shared.models:
        shared.models[key] = (method, dict(meter.seconds))
    return method, meter
