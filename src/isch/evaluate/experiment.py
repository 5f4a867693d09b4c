"""Experiments as data: one TOML file says which data, methods, code lengths, seeds and measures; this runs it."""

import json
import tomllib
from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field, replace
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Any

from isch import hashing
from isch.errors import FileError, FormatError, InputError, MissingExtra, ParameterError, unknown
from isch.evaluate import costs, fingerprint, methods, peers
from isch.evaluate.described import features_of
from isch.evaluate.metrics import measure
from isch.evaluate.prepare import DataSpec, Material, material
from isch.evaluate.ranking import score
from isch.evaluate.results import Result, Run, Store
from isch.evaluate.splits import SplitRule
from isch.features import Features, check_finite

TYPES = {"data": dict, "split": dict, "bits": list, "measures": list, "methods": dict, "seeds": int, "figure": dict}
WORDS = {dict: "a table", list: "a list", int: "a number"}
KEYS = {"title", "paper", "claim", "data", "split", "bits", "seeds", "measures", "methods", "figure", "stand_in"}
STAND_IN_KEYS = {"title", "data", "split", "bits", "seeds", "measures", "methods", "figure"}


@dataclass(frozen=True)
class Experiment:
    """One figure: methods × code lengths × seeds on one dataset."""

    name: str
    title: str
    paper: str  # the figure of the paper it repeats
    claim: str  # what the paper says about it
    data: dict[str, Any]
    split: dict[str, Any]
    bits: tuple[int, ...]
    seeds: int
    measures: tuple[str, ...]  # the first is the headline
    methods: dict[str, dict[str, Any]]  # label: {method, parameters…}
    figure: dict[str, Any] = field(default_factory=dict)
    is_stand_in: bool = False
    stand_in: "Experiment | None" = None  # the same on data that can be had

    def runs(self) -> list[Run]:
        """Everything to be run, seed by seed."""
        return [
            self._run(label, table, bits, seed)
            for seed in range(self.seeds)
            for label, table in self.methods.items()
            for bits in self._lengths(label, table)
        ]

    def _lengths(self, label: str, table: dict[str, Any]) -> tuple[int | None, ...]:
        if methods.fixed_length(table.get("method", label)):
            return (None,)
        return tuple(table.get("bits", self.bits))

    def _run(self, label: str, table: dict[str, Any], bits: int | None, seed: int) -> Run:
        parameters = {k: v for k, v in table.items() if k not in ("method", "bits")}
        return Run(self.data, self.split, self.measures, label, table.get("method", label), parameters, bits, seed)

    def narrowed(
        self, bits: Iterable[int] | None = None, labels: Iterable[str] | None = None, seeds: int | None = None
    ) -> "Experiment":
        """The same experiment with other code lengths, fewer or other methods, another number of seeds."""
        chosen = self.methods
        if labels is not None:
            chosen = {}
            for label in labels:
                if label not in self.methods and label not in methods.known():
                    raise unknown("method", label, {*self.methods, *methods.known()})
                chosen[label] = self.methods.get(label, {})
            if not chosen:
                raise ParameterError("methods: expected at least one; got none")
        if bits is not None:
            chosen = {label: {k: v for k, v in t.items() if k != "bits"} for label, t in chosen.items()}
        lengths = self.bits if bits is None else tuple(bits)
        return replace(self, bits=lengths, methods=chosen, seeds=self.seeds if seeds is None else seeds)


def names() -> list[str]:
    """The experiments that come with the package."""
    return sorted(p.name.removesuffix(".toml") for p in _folder().iterdir() if p.name.endswith(".toml"))


def read(name: str) -> Experiment:
    """An experiment by name, or from a TOML file."""
    if name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise FileError(f"{path}: no such experiment file")
        text, label = _utf8(path), path.stem
    elif name in names():
        text, label = (_folder() / f"{name}.toml").read_text(), name
    else:
        raise unknown("experiment", name, [*names(), "a file NAME.toml"])
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{name}: not a TOML file ({error})") from error
    return parse(table, label)


def _utf8(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: not a text file in UTF-8 ({error})") from error


def parse(table: dict[str, Any], name: str) -> Experiment:
    """An experiment from the content of its file."""
    _check_keys(table, KEYS, name)
    for key in ("data", "split", "bits", "measures", "methods"):
        if key not in table:
            raise InputError(f"{name}: the experiment needs {key!r}")
    main: dict[str, Any] = {"title": name, "paper": "", "claim": "", "seeds": 5, "figure": {}} | table
    other = main.pop("stand_in", None)
    made = _made(main, name, is_stand_in=False)
    if other is None:
        return made
    _check_keys(other, STAND_IN_KEYS, f"{name}, [stand_in]")
    return replace(made, stand_in=_made(main | other, name, is_stand_in=True))


def _made(table: dict[str, Any], name: str, is_stand_in: bool) -> Experiment:
    for key, kind in TYPES.items():
        if not isinstance(table[key], kind) or isinstance(table[key], bool):
            raise InputError(f"{name}: {key!r} must be {WORDS[kind]}; got {table[key]!r}")
    DataSpec.of(table["data"])
    try:
        SplitRule(**table["split"])
    except TypeError as error:
        raise unknown(f"{name}: key of [split] among", list(table["split"]), SplitRule.__dataclass_fields__) from error
    for each in table["measures"]:
        measure(each)
    for label, entry in table["methods"].items():
        _check_method(label, entry, name)
    _check_numbers(table, name)
    parts = {"bits": tuple(table["bits"]), "measures": tuple(table["measures"])}
    return Experiment(name, is_stand_in=is_stand_in, **(table | parts))


def _check_method(label: str, entry: Any, name: str) -> None:
    """Refuse an unknown method, and parameters that its hasher would refuse later."""
    if not isinstance(entry, dict):
        raise InputError(f"{name}: method {label!r} must be a table of parameters; got {entry!r}")
    method = entry.get("method", label)
    if method not in methods.known():
        raise unknown("method", method, methods.known())
    if "n_bits" in entry:
        raise InputError(f"{name}: method {label!r} has n_bits; the lengths belong in bits")
    if method in hashing.METHODS:
        given = {key: value for key, value in entry.items() if key not in ("method", "bits", "ranking")}
        hashing.hasher(method, **given)._check_parameters()


def _check_numbers(table: dict[str, Any], name: str) -> None:
    if not table["measures"] or not table["methods"]:
        raise InputError(f"{name}: expected at least one measure and one method")
    lengths = [*table["bits"], *(b for t in table["methods"].values() for b in t.get("bits", ()))]
    for value in [*lengths, table["seeds"]]:
        if not isinstance(value, int) or value < 1:
            raise ParameterError(f"{name}: bits and seeds must be integers of at least 1; got {value!r}")


def _check_keys(table: dict[str, Any], known: set[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise unknown(f"key of {where}:", key, known)


def _folder() -> Any:
    return resources.files("isch.evaluate") / "experiments"


def available(experiment: Experiment) -> Experiment:
    """The experiment on the paper's data if it is there, else on its stand-in."""
    if experiment.stand_in is None:
        return experiment
    try:
        DataSpec.of(experiment.data).load()
    except FileError:
        return experiment.stand_in
    return experiment


Trained = dict[str, tuple[methods.Method, dict[str, float]] | None]  # None: not trained yet


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
    """Run what is not stored yet, or was by another version of the method; each result is stored when it is there."""
    again = set(redo)
    if strange := sorted(again - set(experiment.methods)):
        raise unknown("method to redo", strange[0], experiment.methods)
    spec = DataSpec.of(experiment.data)
    dataset = spec.load()
    data = experiment.data | {"fingerprint": fingerprint.of_data(dataset, cache)}
    runs = [replace(planned, data=data) for planned in experiment.runs()]
    plan = [(run, run.label in again or not store.has(experiment.name, run, _code(run))) for run in runs]
    left = sum(wanted for _, wanted in plan)
    features: Features | None = None
    for seed, group in groupby(plan, key=lambda entry: entry[0].seed):
        ready: Material | None = None
        for run, wanted in group:
            if not wanted:
                yield Outcome(run, left)
                continue
            features = features or _finite(features_of(dataset, spec, cache))
            if ready is None:
                neighbours = max(measure(name).neighbours for name in run.measures)
                rule = SplitRule(**experiment.split)
                ready = material(dataset, features, rule, spec.normalise, seed, neighbours, cache)
                trained = _twins(runs)
            left -= 1
            yield _attempt(experiment.name, run, left, ready, store, trained)


def _finite(features: Features) -> Features:
    check_finite(features)
    return features


def _attempt(name: str, run: Run, left: int, ready: Material, store: Store, trained: Trained) -> Outcome:
    try:
        result = perform(run, ready, trained)
    except (InputError, MissingExtra) as error:
        return Outcome(run, left, refusal=str(error))
    store.put(name, result)
    return Outcome(run, left, result)


def perform(run: Run, ready: Material, trained: Trained | None = None) -> Result:
    """Train, encode, rank and measure one method at one length.

    ``trained`` has a place for each model of this split that several methods, which differ in how they rank, share.
    """
    method, meter = _trained(run, ready, {} if trained is None else trained)
    chosen = [measure(name) for name in run.measures]
    ranker = method.ranker(ready)
    scores = score(ranker, ready.truth, chosen)
    peak = meter.peak()
    k = chosen[0].k or 10
    method.search(k)  # what is compiled or laid out at first use is not part of the speed
    with meter.timing("search"):
        n_queries = method.search(k)
    spent = {
        **meter.seconds,
        "encoding_per_second": len(ready.database) / max(meter.seconds["encoding_seconds"], 1e-9),
        "search_per_second": n_queries / max(meter.seconds["search_seconds"], 1e-9),
        "model_bytes": float(method.model_bytes),
        "item_bytes": float(method.item_bytes),
        "peak_bytes": peak,
    }
    per_query = scores.values[chosen[0].name]["expected"]
    context = costs.context() | {"code": _code(run), "learned": getattr(method, "learned", {})}
    return Result(run, scores.means(), scores.curves(), spent, per_query, context)


def _code(run: Run) -> str:
    return fingerprint.of_code(run.method, run.data.get("descriptor"), peers.classes(run.method))


def _trained(run: Run, ready: Material, trained: Trained) -> tuple[methods.Method, costs.Meter]:
    """The method, trained and holding the database, and what that took."""
    method, meter = methods.make(run.method, run.parameters, run.bits, run.seed), costs.Meter()
    twin = trained.get(_model_key(run))
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
    if _model_key(run) in trained:
        trained[_model_key(run)] = (method, dict(meter.seconds))
    return method, meter


def _model_key(run: Run) -> str:
    """The same for runs that differ only in how they rank."""
    return json.dumps([run.method, run.bits, {k: v for k, v in run.parameters.items() if k != "ranking"}])


def _twins(runs: Iterable[Run]) -> Trained:
    """A place for each model that several runs of a seed use."""
    counts = Counter((run.seed, _model_key(run)) for run in runs)
    return {key: None for (_, key), n in counts.items() if n > 1}
