"""Stored results by method and length: mean, spread over seeds, and significance against ISCH."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from isch.errors import MissingData
from isch.evaluate import revisions
from isch.evaluate.experiment import Experiment
from isch.evaluate.runs import Result
from isch.evaluate.store import Store

REFERENCE = "isch"  # the paper's method, with which others are compared
DIFFUSION = "diffusion"
FEWEST_SEEDS = 3  # with this many seeds or more, significance is tested over seeds, otherwise over queries

Key = tuple[str, int | None]  # label, bits


@dataclass(frozen=True)
class Cell:
    """One method at one length, over its seeds."""

    results: dict[int, Result]  # by seed

    def values(self, measure: str, ties: str = "expected") -> NDArray[np.float64]:
        """One value per seed; empty if the measure is not defined for the method."""
        found = [r.means[measure][ties] for _, r in sorted(self.results.items()) if measure in r.means]
        return np.array(found, np.float64)

    def mean(self, measure: str, ties: str = "expected") -> float:
        """The mean over seeds; NaN if there is none."""
        values = self.values(measure, ties)
        return float(values.mean()) if len(values) else float("nan")

    def defines(self, measure: str) -> bool:
        """Whether any result has the measure."""
        return any(measure in result.means for result in self.results.values())

    def spread(self, measure: str) -> float:
        """The standard deviation over seeds; 0 for one seed."""
        values = self.values(measure)
        return float(values.std(ddof=1)) if len(values) > 1 else 0.0

    def cost(self, name: str) -> float:
        """The median over seeds of a cost; NaN where it was not measured."""
        found = [r.costs[name] for r in self.results.values() if name in r.costs]
        return float(np.median(found)) if found else float("nan")

    def learned(self, name: str) -> float:
        """The median over seeds of a number that the method learned; NaN where there is none."""
        found = [r.learned[name] for r in self.results.values() if name in r.learned]
        return float(np.median(found)) if found else float("nan")

    @property
    def stale(self) -> int:
        """How many results were made by another revision of the method or descriptor than the current one."""
        return sum(map(revisions.is_stale, self.results.values()))

    def curve(self, name: str) -> NDArray[np.float64]:
        """The mean over seeds of a curve."""
        return np.asarray(np.mean([r.curves[name] for r in self.results.values()], axis=0))


@dataclass(frozen=True)
class Summary:
    """The stored results of one experiment on one dataset."""

    experiment: Experiment
    cells: dict[Key, Cell]

    @property
    def headline(self) -> str:
        """The measure that figures show."""
        return self.experiment.measures[0]

    @property
    def labels(self) -> list[str]:
        """Methods with results, in the order of the experiment."""
        return [label for label in self.experiment.methods if any(key[0] == label for key in self.cells)]

    @property
    def lengths(self) -> list[int]:
        """Code lengths with results, ascending."""
        return sorted({bits for _, bits in self.cells if bits is not None})

    def row(self, label: str) -> dict[int, Cell]:
        """A method's cells by length."""
        return {b: c for (name, b), c in sorted(self.cells.items(), key=lambda i: i[0][1] or 0) if name == label and b}

    def flat(self) -> dict[str, Cell]:
        """Methods without a code length."""
        return {label: cell for (label, bits), cell in self.cells.items() if bits is None}

    @property
    def seeds(self) -> int:
        """The largest number of seeds of any cell."""
        return max(len(cell.results) for cell in self.cells.values())

    def p_value(self, key: Key) -> float:
        """Two-sided paired t-test of the headline measure against ISCH at the same length; NaN without a pair.

        It compares the means of the seeds that both have, if there are three or more; otherwise single queries.
        """
        mine, reference = self.cells.get(key), self.cells.get((REFERENCE, key[1]))
        if mine is None or reference is None or key[0] == REFERENCE:
            return float("nan")
        seeds = sorted(mine.results.keys() & reference.results.keys())
        pairs = [mine.results[s].per_query - reference.results[s].per_query for s in seeds]
        if len(pairs) >= FEWEST_SEEDS:
            differences = np.array([np.nanmean(pair) for pair in pairs])
        else:
            differences = np.concatenate(pairs) if pairs else np.empty(0)
        differences = differences[~np.isnan(differences)]
        if len(differences) < 2 or np.ptp(differences) == 0:
            return float("nan")
        return float(stats.ttest_1samp(differences, 0).pvalue)

    def best(self, labels: list[str]) -> tuple[Key, float] | None:
        """The best cell of the headline measure among some methods, at any length."""
        found = {k: c.mean(self.headline) for k, c in self.cells.items() if k[0] in labels}
        found = {k: v for k, v in found.items() if v == v}
        key = max(found, key=lambda k: found[k], default=None)
        return None if key is None else (key, found[key])


def summarise(experiment: Experiment, store: Store) -> Summary:
    """The stored results of an experiment, on the paper's data if there are any, otherwise on the stand-in.

    Raises
    ------
    MissingData
        There are none.
    """
    stored = {result.run.plan: result for result in store.all(experiment.name)}  # the latest wins
    for variant in (experiment, experiment.stand_in):
        cells = _cells(variant, stored) if variant is not None else {}
        if variant is not None and cells:
            return Summary(variant, cells)
    raise MissingData(
        f"no stored results of {experiment.name} in {store.folder}; first: isch bench run {experiment.name}"
    )


def _cells(experiment: Experiment, stored: dict[str, Result]) -> dict[Key, Cell]:
    found: dict[Key, dict[int, Result]] = {}
    for planned in experiment.runs():
        if (result := stored.get(planned.plan)) is not None:
            found.setdefault((planned.label, planned.bits), {})[planned.seed] = result
    return {key: Cell(by_seed) for key, by_seed in found.items()}
