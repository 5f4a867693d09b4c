"""Spectral hashing (Weiss, Torralba, Fergus 2008, *Spectral hashing*).

The data are assumed to be uniform in a box along the principal directions. In such a box the eigenfunctions of the
graph Laplacian are cosines along one direction; the signs of the m smoothest ones are the bits.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isch import compute
from isch.features import Block, Features
from isch.fitting import Run, Size, Sized, Stage, step
from isch.hashing import pca
from isch.hashing.base import LinearHasher
from isch.hashing.projecting import Linear, Projector
from isch.learned import Array, Expected, check_range
from isch.parameters import BITS


class SH(LinearHasher):
    """Signs of the smoothest cosines along the principal directions.

    Parameters
    ----------
    n_bits : int
        Bits per code; may exceed the number of features.
    random_state : int, RandomState or None
        Used only beyond 4,096 features, where principal directions are found by a randomised method.
    """

    name = "sh"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [BITS],
        "random_state": ["random_state"],
    }
    _learns: ClassVar[Expected] = {
        "projection_": Array("float32", "d", "c"),  # c = min(m, d)
        "starts_": Array("float32", "c"),
        "directions_": Array("int64", "m"),
        "frequencies_": Array("float64", "m"),
    }
    projection_: NDArray[np.float32]  # principal directions
    starts_: NDArray[np.float32]  # the smallest coordinate along each direction
    directions_: NDArray[np.int64]  # of each bit
    frequencies_: NDArray[np.float64]  # jπ/R of each bit

    def __init__(self, n_bits: int = 128, random_state: Any = 0) -> None:
        self.n_bits = n_bits
        self.random_state = random_state

    def _fit(self, features: Features, run: Run) -> dict[str, Any]:
        basis = pca.principal(run, features, min(self.n_bits, features.shape[1]))
        projection = run(pca.single, basis)
        low, high = run(ranges, features, basis.mean, projection)
        directions, frequencies = run(frequencies_of, low, high, self.n_bits)
        return {
            "mean_": basis.mean,
            "projection_": projection,
            "starts_": low,
            "directions_": directions,
            "frequencies_": frequencies,
        }

    def _encoding_work(self, size: Size) -> Stage:
        count = min(self.n_bits, size.columns)
        return Stage("encoding", 2.0 * size.rows * size.columns * count, read=size.bytes())

    def _check_learned(self, attributes: dict[str, Any]) -> dict[str, Any]:
        sizes = super()._check_learned(attributes)
        check_range("directions_", attributes["directions_"], sizes["c"])
        return sizes

    def _projector(self) -> Projector:
        linear, frequencies = super()._projector(), self.frequencies_.astype(np.float32)
        return Cosines(linear, self.starts_, self.directions_, frequencies)


@dataclass(frozen=True)
class Cosines:
    """cos((z_k − a_k) ω) for the direction k and the frequency ω of each bit."""

    linear: Projector
    starts: NDArray[np.float32]
    directions: NDArray[np.int64]
    frequencies: NDArray[np.float32]

    def __call__(self, block: Block) -> NDArray[np.floating[Any]]:
        return np.asarray(np.cos((self.linear(block) - self.starts)[:, self.directions] * self.frequencies))


@dataclass(frozen=True)
class Ranges(compute.Reduction[Any]):
    """(smallest, largest) coordinate along each direction."""

    linear: Projector

    def zero(self) -> Any:
        return np.float32(np.inf), np.float32(-np.inf)

    def block(self, block: Block, _: int) -> Any:
        coordinates = self.linear(block)
        return coordinates.min(axis=0), coordinates.max(axis=0)

    def combine(self, total: Any, part: Any) -> Any:
        return np.minimum(total[0], part[0]), np.maximum(total[1], part[1])


def _ranges_cost(features: Features, mean: NDArray[Any], projection: NDArray[Any]) -> Stage:
    size = Size.of(features)
    return Stage(products=2.0 * size.rows * size.columns * projection.shape[1], read=size.bytes())


@step(
    "ranges",
    cost=_ranges_cost,
    gives=lambda features, mean, projection: (Sized(projection.shape[1:]), Sized(projection.shape[1:])),
)
def ranges(
    features: Features, mean: NDArray[np.float64], projection: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the (smallest, largest) coordinate along each direction."""
    low, high = compute.run(Ranges(Linear(mean, projection)), features)
    return low, high


@step(gives=lambda low, high, count: (Sized((count,), np.int64), Sized((count,), np.float64)))
def frequencies_of(
    low: NDArray[np.float32], high: NDArray[np.float32], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the direction and the frequency jπ/R of each bit."""
    directions, modes = smoothest_modes(high - low, count)
    return directions, modes * np.pi / _positive(high - low)[directions]


def smoothest_modes(ranges: NDArray[Any], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(direction, mode j ≥ 1) of the ``count`` cosines with the lowest frequency jπ/R in a box with these sides R."""
    sides = _positive(np.asarray(ranges, np.float64))
    most = np.ceil((count + 1) * sides / sides.max()).astype(np.int64) - 1
    directions = np.repeat(np.arange(len(sides)), most)
    modes = np.concatenate([np.arange(1, n + 1) for n in most])
    order = np.argsort(modes / sides[directions], kind="stable")[:count]
    return directions[order], modes[order]


def _positive(ranges: NDArray[Any]) -> NDArray[Any]:
    """Side lengths, with zeros replaced by a tiny positive length."""
    return np.asarray(np.maximum(ranges, max(float(ranges.max()) * 1e-6, 1e-30)))
