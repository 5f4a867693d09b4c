"""Spherical hashing (Heo, Lee, He, Chang, Yoon 2012, *Spherical hashing*).

Bit i says whether a point lies in sphere i. The spheres are moved until each holds half of the data and each pair
shares a quarter. Then the bits are balanced and pairwise independent.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isch import compute, distances, fitting, progress
from isch.errors import InputError, warn
from isch.features import Block, Features
from isch.fitting import Run, Sized, Stage, step
from isch.hashing.base import Hasher
from isch.hashing.projecting import Projector, centred
from isch.lazy import issparse
from isch.learned import Array, Expected
from isch.parameters import BITS, POSITIVE

SEEDS = 5  # rows whose mean is a sphere's first centre
MEAN_TOLERANCE, SPREAD_TOLERANCE = 0.10, 0.15  # of the wanted overlap n/4
CHUNK = 16  # spheres handled by one thread at a time

Matrix = NDArray[np.float32]


class SPH(Hasher):
    """Membership of learned spheres, compared by the spherical Hamming distance.

    Parameters
    ----------
    n_bits : int
        Bits per code; may exceed the number of features.
    n_iter : int
        The largest number of times the spheres are moved.
    max_samples : int
        Rows to learn from, drawn at random when there are more.
    random_state : int, RandomState or None
        Seed of the random choices.
    """

    name = "sph"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [BITS],
        "n_iter": [POSITIVE],
        "max_samples": [POSITIVE],
        "random_state": ["random_state"],
    }
    _learns: ClassVar[Expected] = {
        "mean_": Array("float64", "d"),
        "pivots_": Array("float32", "m", "d"),
        "radii_": Array("float32", "m"),
        "n_iter_": int,
    }
    mean_: NDArray[np.float64]
    pivots_: Matrix  # relative to the mean
    radii_: Matrix
    n_iter_: int

    def __init__(self, n_bits: int = 128, n_iter: int = 100, max_samples: int = 20_000, random_state: Any = 0) -> None:
        self.n_bits = n_bits
        self.n_iter = n_iter
        self.max_samples = max_samples
        self.random_state = random_state

    @property
    def distance(self) -> distances.Distance:
        """|a ⊕ b| / |a ∧ b|: two points are nearer, the more spheres hold both of them."""
        return distances.SphericalHamming()

    def _check_size(self, features: Features) -> None:
        super()._check_size(features)
        count = min(len(features), self.max_samples)
        if count < SEEDS:
            raise InputError(f"{self._label} needs at least {SEEDS} rows to learn from; got {count}")

    def _fit(self, features: Features, run: Run) -> dict[str, Any]:
        mean = run(fitting.mean, features)
        X = run(fitting.load, run(fitting.draw, features, self.max_samples), mean)
        pivots, radii, n_iter = run(arrange, X, self.n_bits, self.n_iter, self._label)
        return {"mean_": mean, "pivots_": pivots, "radii_": radii, "n_iter_": n_iter}

    def _projector(self) -> Projector:
        return Depths(self.mean_, self.pivots_, self.radii_)


@dataclass(frozen=True)
class Depths:
    """How far inside each sphere a row lies: its radius minus the distance to its centre."""

    mean: NDArray[np.float64]
    pivots: Matrix
    radii: Matrix

    def __call__(self, block: Block) -> NDArray[np.floating[Any]]:
        narrow = self.mean.astype(np.float32)
        lengths = np.einsum("ij,ij->i", self.pivots, self.pivots)
        if issparse(block):
            block = block.astype(np.float32)
            products = np.asarray(block @ self.pivots.T) - narrow @ self.pivots.T
            own = np.asarray(block.multiply(block).sum(axis=1)).ravel() - 2 * (block @ narrow) + narrow @ narrow
        else:
            rows = centred(block, self.mean)
            products, own = rows @ self.pivots.T, np.einsum("ij,ij->i", rows, rows)
        return np.asarray(self.radii - np.sqrt(np.maximum(own[:, None] - 2 * products + lengths, 0)))


def _cost(X: Matrix, m: int, n_iter: int, label: str) -> Stage:
    rows, d = X.shape
    products = (n_iter + 1) * 2.0 * rows * m * (d + m)
    return Stage(products=products, memory=4 * rows * (2 * m + 4 * CHUNK * compute.n_threads()) + 16 * m * d)


@step(
    "spheres",
    cost=_cost,
    gives=lambda X, m, n_iter, label: (Sized((m, X.shape[1])), Sized((m,)), n_iter),
    random=True,
)
def arrange(X: Matrix, m: int, n_iter: int, label: str, *, rng: np.random.Generator) -> tuple[Matrix, Matrix, int]:
    """Move m spheres until they are balanced, at most ``n_iter`` times: (pivots, radii, moves)."""
    pivots = np.stack([X[rng.choice(len(X), SEEDS, replace=False)].mean(axis=0) for _ in range(m)])
    lengths = np.einsum("ij,ij->i", X, X)
    with progress.task("", n_iter, "iterations") as advance:
        for done in range(n_iter + 1):
            squares, inside = halve(X, lengths, pivots)
            overlaps = shared(inside)
            if done == n_iter or balanced(overlaps, len(X)):
                break
            pivots = moved(pivots, overlaps, len(X))
            advance(1)
    constant = int((inside.mean(axis=1) == 1).sum())
    if constant:
        warn(f"{label}: {constant} of {m} spheres hold every row, so their bits carry no information (do rows repeat?)")
    return pivots, np.sqrt(np.maximum(squares, 0)), done


def halve(X: Matrix, lengths: Matrix, pivots: Matrix) -> tuple[Matrix, Matrix]:
    """(squared radii (m,), membership as 0/1 (m, n)) of spheres around these pivots that each hold half of the rows."""
    radii, inside = zip(*compute.iterate(Halving(X, lengths), pivots), strict=True)
    return np.concatenate(radii), np.concatenate(inside)


class _OverSpheres:
    """A pass over spheres, not over rows of features; a few at a time, because each is compared with all rows."""

    def rows(self, _: int) -> int:
        return CHUNK


@dataclass(frozen=True)
class Halving(_OverSpheres, compute.Pass[tuple[Matrix, Matrix]]):
    """(squared radii, membership) of spheres around some pivots that each hold half of the rows X."""

    X: Matrix
    lengths: Matrix

    def block(self, block: Any, _: int) -> tuple[Matrix, Matrix]:
        half = max(1, len(self.X) // 2) - 1
        squares = np.einsum("ij,ij->i", block, block)[:, None] - 2 * (block @ self.X.T) + self.lengths
        radii = np.partition(squares, half, axis=1)[:, half]
        return radii, (squares <= radii[:, None]).astype(np.float32)


@dataclass(frozen=True)
class Sharing(_OverSpheres, compute.Pass[Matrix]):
    """The number of rows that some spheres share with each sphere."""

    inside: Matrix

    def block(self, block: Any, _: int) -> Matrix:
        return np.asarray(block @ self.inside.T)


def shared(inside: Matrix) -> NDArray[np.float64]:
    """The number of rows in each pair of spheres."""
    return np.concatenate(list(compute.iterate(Sharing(inside), inside))).astype(np.float64)


def balanced(overlaps: NDArray[np.float64], n: int) -> bool:
    """Whether the pairwise overlaps are near n/4 on average and near each other."""
    pairs = overlaps[np.triu_indices(len(overlaps), 1)]
    if not len(pairs):
        return True
    wanted = n / 4
    return bool(np.abs(pairs - wanted).mean() <= MEAN_TOLERANCE * wanted and pairs.std() <= SPREAD_TOLERANCE * wanted)


def moved(pivots: Matrix, overlaps: NDArray[np.float64], n: int) -> Matrix:
    """Pivots after one round of forces ½ (o_ij − n/4)/(n/4) (p_i − p_j), averaged over the spheres."""
    force = (overlaps - n / 4) / (n / 2)
    np.fill_diagonal(force, 0)
    shift = (force.sum(axis=1)[:, None] * pivots - force @ pivots) / len(pivots)
    return np.asarray(pivots + shift, np.float32)
