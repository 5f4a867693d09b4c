"""Passes that many methods share: the mean row, some rows in memory, whether rows differ at all."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isch.compute import memory
from isch.compute.passes import Arrays, Pass, Sum, collect, iterate, run
from isch.errors import InputError
from isch.features import Block, Features, Subset, dense, finite

TOO_LARGE = "values exceed the range of single precision (3.4e38); expected smaller ones"


def mean(features: Features) -> NDArray[np.float64]:
    """The mean row."""
    (total,) = run(RowSum(features.shape[1]), features)
    return np.asarray(total / len(features))


def sample(features: Features, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """At most ``n`` rows drawn without replacement, sorted; all rows if there are no more."""
    if n >= len(features):
        return np.arange(len(features))
    return np.sort(rng.choice(len(features), n, replace=False))


def load(features: Features, rows: NDArray[np.intp], mean: NDArray[np.float64]) -> NDArray[np.float32]:
    """The given (sorted) rows, centred, in memory or in a file (``memory.empty``)."""
    out: NDArray[np.float32] = memory.empty((len(rows), features.shape[1]), np.float32)
    collect(Centring(mean, features.where), Subset(features, rows), out)
    return out


def refuse_constant(features: Features) -> None:
    """Refuse data whose rows are all equal; stops reading soon after the first row that differs."""
    if not any(iterate(Differing(dense(features.read(0, 1), None)), features)):
        raise InputError(f"{features.where}: all rows are equal; expected data that varies")


def row_sum(block: Block) -> NDArray[np.float64]:
    """The sum of the rows of a block, in double precision."""
    return np.asarray(block.sum(axis=0, dtype=np.float64)).ravel()


@dataclass(frozen=True)
class RowSum(Sum):
    """The sum of all rows."""

    n_features: int

    def zero(self) -> Arrays:
        return (np.zeros(self.n_features),)

    def block(self, block: Block, _: int) -> Arrays:
        return (row_sum(block),)


@dataclass(frozen=True)
class Centring(Pass[NDArray[np.float32]]):
    """Rows minus the mean, rounded to single precision after the subtraction."""

    mean: NDArray[np.float64]
    where: str

    def block(self, block: Block, _: int) -> NDArray[np.float32]:
        centred = (dense(block, np.float64) - self.mean).astype(np.float32)
        if not finite(centred):
            raise InputError(f"{self.where}: {TOO_LARGE}")
        return centred


@dataclass(frozen=True)
class Differing(Pass[bool]):
    """Whether any row differs from the first one, (1, d)."""

    first: NDArray[np.generic]

    def block(self, block: Block, _: int) -> bool:
        return bool((dense(block, None) != self.first).any())
