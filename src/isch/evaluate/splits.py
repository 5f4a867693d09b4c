"""Which items are queries and which are the database; a query is never in the database."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import InputError, ParameterError, unknown
from isch.evaluate.datasets import DISTRACTOR, Dataset

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class SplitRule:
    """How queries are drawn: a number per class, a number in all, or the official ones of the dataset."""

    per_class: int | None = None
    total: int | None = None
    official: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.official, bool):
            raise ParameterError(f"official of a split must be true or false; got {self.official!r}")
        if (self.per_class is not None) + (self.total is not None) + self.official != 1:
            raise ParameterError("a split needs exactly one of per_class, total and official")
        for name in ("per_class", "total"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ParameterError(f"{name} of a split must be an integer of at least 1; got {value!r}")

    @classmethod
    def of(cls, table: dict[str, Any], where: str) -> "SplitRule":
        """From the [split] table of an experiment."""
        for key in table:
            if key not in cls.__dataclass_fields__:
                raise unknown(f"key of {where}, [split]:", key, cls.__dataclass_fields__)
        return cls(**table)


@dataclass(frozen=True)
class Split:
    """Sorted rows of the queries and of the database."""

    queries: Rows
    database: Rows


def split(dataset: Dataset, rule: SplitRule, seed: int) -> Split:
    """Draw the queries of one seed; the rest is the database."""
    rng = np.random.default_rng([seed, 0x5917])
    if rule.official:
        if dataset.queries is None:
            raise InputError(f"{dataset.name}: has no official queries; give per_class or total")
        queries = np.sort(dataset.queries)
    elif rule.per_class is not None:
        queries = _of_each_class(dataset, rule.per_class, rng)
    else:
        queries = _of_all(dataset, rule.total or 0, rng)
    rest = np.ones(dataset.n_items, np.bool_)
    rest[queries] = False
    return Split(queries, np.flatnonzero(rest))


def _of_each_class(dataset: Dataset, n: int, rng: np.random.Generator) -> Rows:
    if dataset.labels is None:
        raise InputError(f"{dataset.name}: has no labels; queries of each class cannot be drawn")
    chosen = []
    for label in np.unique(dataset.labels[dataset.labels != DISTRACTOR]):
        rows = np.flatnonzero(dataset.labels == label)
        if len(rows) <= n:
            raise InputError(
                f"{dataset.name}: class {dataset.class_name(int(label))} has {len(rows)} items; "
                f"{n} queries per class need at least {n + 1}"
            )
        chosen.append(rng.choice(rows, n, replace=False))
    return np.sort(np.concatenate(chosen))


def _of_all(dataset: Dataset, n: int, rng: np.random.Generator) -> Rows:
    rows = np.arange(dataset.n_items)
    if dataset.labels is not None:
        rows = rows[dataset.labels != DISTRACTOR]
    if len(rows) <= n:
        raise InputError(f"{dataset.name}: {n} queries need more than the {len(rows)} items that can be queries")
    return np.sort(rng.choice(rows, n, replace=False))
