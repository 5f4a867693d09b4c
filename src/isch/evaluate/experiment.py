"""Experiments as data: one TOML file says which data, methods, code lengths, seeds and measures.

An experiment file may come from a stranger. Everything in it is checked before anything runs. Names and labels are
limited so that no file is written outside the folders that the user names.
"""

import re
import reprlib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from isch.errors import FormatError, InputError, MissingData, ParameterError, unknown
from isch.evaluate import methods
from isch.evaluate.metrics import measure
from isch.evaluate.prepare import DataSpec
from isch.evaluate.runs import Run
from isch.evaluate.splits import SplitRule
from isch.files import content

TYPES = {
    "data": dict,
    "split": dict,
    "bits": list,
    "measures": list,
    "methods": dict,
    "seeds": int,
    "figure": dict,
    "notes": list,
}
WORDS = {dict: "a table", list: "a list", int: "a number", str: "text"}
STAND_IN_KEYS = {"title", "notes", "data", "split", "bits", "seeds", "measures", "methods", "figure"}
KEYS = {"paper", "claim", "stand_in", *STAND_IN_KEYS}
FIGURES = ("bits", "recall", "dimensions")  # kinds: a measure over bits, recall over ranks, a measure over dimensions
FIGURE_KEYS = {"kind": str, "paper": list, "bits": int, "claim_bits": int, "ranks": int}
NAME = re.compile(r"\w[\w .+-]{0,79}")  # of an experiment or a method: also a file name
LARGEST_FILE = 1 << 20  # bytes
LONGEST_CODE = 1 << 20  # bits
MOST_RUNS = 100_000
LONGEST_LIST = 500
LARGEST_NUMBER = 1e15


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
    notes: tuple[str, ...] = ()  # paragraphs on what was found, for the report
    figure: dict[str, Any] = field(default_factory=dict)
    is_stand_in: bool = False
    stand_in: "Experiment | None" = None  # the same experiment on data that is available

    def runs(self) -> list[Run]:
        """All planned runs, seed by seed."""
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
    """An experiment by name, or from a TOML file.

    Parameters
    ----------
    name : str
        One of ``names()``, or the path of a file that ends in ``.toml``.

    Raises
    ------
    FileError
        There is no such file, or it is not TOML.
    InputError
        It does not describe an experiment.
    """
    if name.endswith(".toml"):
        text, label = _text(Path(name)), Path(name).stem
    elif name in names():
        text, label = (_folder() / f"{name}.toml").read_text("utf-8"), name
    else:
        raise unknown("experiment", name, [*names(), "a file NAME.toml"])
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise FormatError(f"{name}: not a TOML file ({error})") from error
    return parse(table, label)


def _text(path: Path) -> str:
    try:
        return content(path, LARGEST_FILE, "an experiment file").decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: not a text file in UTF-8 ({error})") from error


def _folder() -> Any:
    return resources.files("isch.evaluate") / "experiments"


def parse(table: dict[str, Any], name: str) -> Experiment:
    """An experiment from the content of its file."""
    _check_name(name, "the name of an experiment file")
    _check_keys(table, KEYS, name)
    _check_plain(table, name)
    for key in ("data", "split", "bits", "measures", "methods"):
        if key not in table:
            raise InputError(f"{name}: the experiment needs {key!r}")
    main: dict[str, Any] = {"title": name, "paper": "", "claim": "", "seeds": 5, "figure": {}, "notes": []} | table
    other = main.pop("stand_in", None)
    made = _made(main, name, is_stand_in=False)
    if other is None:
        return made
    _check_type(other, dict, f"{name}: 'stand_in'")
    _check_keys(other, STAND_IN_KEYS, f"{name}, [stand_in]")
    return replace(made, stand_in=_made(main | other, name, is_stand_in=True))


def _made(table: dict[str, Any], name: str, is_stand_in: bool) -> Experiment:
    for key, kind in TYPES.items():
        _check_type(table[key], kind, f"{name}: {key!r}")
    for key in ("title", "paper", "claim"):
        _check_line(table[key], 300, f"{name}: {key!r}")
    for note in table["notes"]:
        _check_line(note, 2000, f"{name}: each of 'notes'")
    DataSpec.of(table["data"])
    SplitRule.of(table["split"], name)
    _check_figure(table["figure"], name)
    for label, entry in table["methods"].items():
        _check_method(label, entry, name)
    _check_numbers(table, name)
    for each in table["measures"]:
        _check_type(each, str, f"{name}: a measure")
        measure(each)
    parts = {key: tuple(table[key]) for key in ("bits", "measures", "notes")}
    return Experiment(name, is_stand_in=is_stand_in, **(table | parts))


def _check_line(text: Any, longest: int, what: str) -> None:
    if not isinstance(text, str) or not text.isprintable() or len(text) > longest:
        raise InputError(f"{what} must be one line of text; got {str(text)[:80]!r}")


def _check_figure(figure: dict[str, Any], name: str) -> None:
    _check_keys(figure, set(FIGURE_KEYS), f"{name}, [figure]")
    for key, value in figure.items():
        _check_type(value, FIGURE_KEYS[key], f"{name}: {key!r} of [figure]")
    if figure.get("kind", "bits") not in FIGURES:
        raise unknown("kind of figure", figure["kind"], FIGURES)


def _check_method(label: str, entry: Any, name: str) -> None:
    """Refuse an unknown method, and parameters that its hasher would refuse later."""
    _check_name(label, f"{name}: the name of a method")
    if not isinstance(entry, dict):
        raise InputError(f"{name}: method {label!r} must be a table of parameters; got {reprlib.repr(entry)}")
    method = entry.get("method", label)
    if method not in methods.known():
        raise unknown("method", method, methods.known())
    if "n_bits" in entry:
        raise InputError(f"{name}: method {label!r} has n_bits; the lengths belong in bits")
    _check_type(entry.get("bits", []), list, f"{name}: bits of {label!r}")
    given = {key: value for key, value in entry.items() if key not in ("method", "bits")}
    methods.check_parameters(method, given)


def _check_numbers(table: dict[str, Any], name: str) -> None:
    if not table["measures"] or not table["methods"]:
        raise InputError(f"{name}: expected at least one measure and one method")
    own = [length for entry in table["methods"].values() for length in entry.get("bits", ())]
    for value in [*table["bits"], *own, table["seeds"]]:
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LONGEST_CODE:
            raise ParameterError(
                f"{name}: bits and seeds must be integers of at least 1 and at most {LONGEST_CODE:,}; got {value!r}"
            )
    planned = table["seeds"] * (len(own) + len(table["bits"]) * len(table["methods"]))
    if planned > MOST_RUNS:
        raise ParameterError(f"{name}: some {planned:,} runs are planned; expected at most {MOST_RUNS:,}")


def _check_type(value: Any, kind: type, what: str) -> None:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise InputError(f"{what} must be {WORDS[kind]}; got {reprlib.repr(value)}")


def _check_plain(value: Any, name: str) -> None:
    """Refuse values that no setting takes: dates, times, absurdly large numbers and lists."""
    if isinstance(value, dict | list):
        if len(value) > LONGEST_LIST:
            raise InputError(f"{name}: a list or table of {len(value):,} entries; expected at most {LONGEST_LIST}")
        for part in value.values() if isinstance(value, dict) else value:
            _check_plain(part, name)
    elif not isinstance(value, str | int | float):
        raise InputError(f"{name}: expected text, numbers, lists and tables; got {value!r}")
    elif not isinstance(value, str) and not abs(value) < LARGEST_NUMBER:
        raise InputError(f"{name}: expected numbers below {LARGEST_NUMBER:g}; got {float(min(value, 1e300)):g}")


def _check_name(text: str, what: str) -> None:
    if not NAME.fullmatch(text):
        raise InputError(f"{what} must be up to 80 letters, digits, spaces and any of . + - _; got {text[:120]!r}")


def _check_keys(table: dict[str, Any], known: set[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise unknown(f"key of {where}:", key, known)


def available(experiment: Experiment) -> Experiment:
    """The experiment on the paper's data if it is available, otherwise on its stand-in."""
    if experiment.stand_in is None:
        return experiment
    try:
        DataSpec.of(experiment.data).load()
    except MissingData:
        return experiment.stand_in
    return experiment
