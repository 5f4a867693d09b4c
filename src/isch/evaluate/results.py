"""Stored results: each run once, in a JSON file named by the hash of what was run.

    RESULTS/EXPERIMENT/METHOD-BITS-SEED-HASH.json

A file is written whole or not at all, so an experiment killed at any moment goes on where it was. Anything that
changes what is computed (data, split, parameters, measures, the version of this format) changes the hash; the name
of the experiment and the machine do not.
"""

import base64
import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import FormatError
from isch.files import replacing

VERSION = 1
SCALE = 65535  # values in [0, 1] are kept as multiples of 1 / (SCALE − 1); SCALE itself stands for NaN


@dataclass(frozen=True)
class Run:
    """What is run: everything that determines the numbers."""

    data: dict[str, Any]  # dataset, descriptor, normalisation
    split: dict[str, Any]
    measures: tuple[str, ...]
    label: str  # what figures call the method
    method: str
    parameters: dict[str, Any]
    bits: int | None  # None: the method has no code length
    seed: int

    @property
    def key(self) -> str:
        """A hash of what is run; the label is only a name."""
        content = {k: v for k, v in asdict(self).items() if k != "label"} | {"version": VERSION}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def file_name(self) -> str:
        """The name of the result file."""
        length = "all" if self.bits is None else f"{self.bits:05d}"
        return f"{self.label}-{length}-{self.seed}-{self.key}.json"

    def matches(self, planned: "Run") -> bool:
        """Whether this was run as planned, on whatever version of the data's files."""
        data = {k: v for k, v in self.data.items() if k != "fingerprint"}
        return replace(self, data=data, label="") == replace(planned, data=planned.data, label="")


@dataclass(frozen=True)
class Result:
    """The outcome of a run."""

    run: Run
    means: dict[str, dict[str, float]]  # measure: {expected, pessimistic, optimistic}; undefined ones are left out
    curves: dict[str, list[float]]  # ranks, precision, recall
    costs: dict[str, float | None]
    per_query: NDArray[np.float64]  # of the first measure
    context: dict[str, Any] = field(default_factory=dict)  # versions, machine, date, numbers learned


class Store:
    """The results of experiments in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, experiment: str, run: Run) -> Path:
        """Where the result of a run is, or will be."""
        return self.folder / experiment / run.file_name

    def has(self, experiment: str, run: Run, code: str = "") -> bool:
        """Whether a run was stored, by the same ``code`` of its method where that is known.

        A file of another version of the format is refused.
        """
        path = self.path(experiment, run)
        return path.exists() and read(path).context.get("code", code) == code

    def all(self, experiment: str) -> list[Result]:
        """Every stored result of an experiment, the latest last; what a killed run had begun to write is hidden."""
        results = [read(path) for path in sorted((self.folder / experiment).glob("[!.]*.json"))]
        return sorted(results, key=lambda r: str(r.context.get("date", "")))

    def put(self, experiment: str, result: Result) -> Path:
        """Store a result, whole or not at all."""
        path = self.path(experiment, result.run)
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, result)
        return path


def write(path: Path, result: Result) -> None:
    """One result as a JSON file."""
    content = {
        "version": VERSION,
        "run": asdict(result.run) | {"measures": list(result.run.measures)},
        "means": {k: {t: round(v, 6) for t, v in values.items()} for k, values in result.means.items()},
        "curves": {k: [round(v, 6) for v in values] for k, values in result.curves.items()},
        "costs": result.costs,
        "per_query": pack(result.per_query),
        "context": result.context,
    }
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, sort_keys=True, separators=(",", ":")) + "\n")


def read(path: Path) -> Result:
    """A result that ``write`` wrote."""
    try:
        content = json.loads(path.read_text())
        version = content["version"]
        if version != VERSION:
            raise FormatError(
                f"{path}: a result of format version {version}; this ISCH reads version {VERSION}; "
                f"remove it to run it again"
            )
        run = Run(**{**content["run"], "measures": tuple(content["run"]["measures"])})
        values = unpack(content["per_query"])
        return Result(run, content["means"], content["curves"], content["costs"], values, content["context"])
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: not a result file, or damaged ({error}); remove it to run it again") from error


def pack(values: NDArray[np.float64]) -> str:
    """Values in [0, 1] as base64 of 16-bit fractions; NaN is the largest."""
    steps = np.where(np.isnan(values), SCALE, np.round(np.nan_to_num(values) * (SCALE - 1)))
    return base64.b64encode(steps.astype("<u2").tobytes()).decode()


def unpack(text: str) -> NDArray[np.float64]:
    """What ``pack`` packed, to within 1/65,534."""
    steps = np.frombuffer(base64.b64decode(text), "<u2").astype(np.float64)
    return np.where(steps == SCALE, np.nan, steps / (SCALE - 1))
