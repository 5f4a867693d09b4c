"""Step 3 of ISCH block by block: R of the coordinates of each block, and the map L = W R of all bits."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch import compute
from isch.hashing.rotation import Rotation

Learn = Callable[..., Rotation]  # rotation.learn, nested.learn or levels.learn
Matrix = NDArray[np.float32]
Rng = np.random.Generator


class Directions(NamedTuple):
    """W (d, r), and the columns of each block."""

    W: Matrix
    blocks: list[slice]


@dataclass(frozen=True)
class Turned:
    """What the blocks learned."""

    projection: Matrix  # L (d, m)
    thresholds: NDArray[np.float32] | None  # of the bits, where they are not zero
    signs: NDArray[np.bool_]  # the bits of the rows learned from
    errors: list[list[float]]  # of each block
    block_size: int  # bits of the first block


def bits_of(n_bits: int, n_blocks: int) -> list[NDArray[np.intp]]:
    """The bits of each block."""
    return np.array_split(np.arange(n_bits), n_blocks)


def learn(found: Directions, Z: Matrix, how: Learn, n_iter: int, n_bits: int, rng: Rng) -> Turned:
    """Learn R of each block from coordinates Z = (X − μ) W."""
    W, columns = found
    projection, thresholds = np.empty((len(W), n_bits), np.float32), np.zeros(n_bits, np.float32)
    signs = compute.memory.empty((len(Z), n_bits), np.bool_)
    errors, parts = list[list[float]](), bits_of(n_bits, len(columns))
    for number, (block, bits) in enumerate(zip(columns, parts, strict=True), 1):
        coordinates = np.ascontiguousarray(Z[:, block])
        label = f"rotation {number} of {len(parts)}"
        learned = partial(how, coordinates, n_iter, rng, label=label, n_bits=len(bits))
        R, falling, *limits = _stage(label, rng, learned)
        projection[:, bits] = W[:, block] @ R
        thresholds[bits] = limits[0] if limits else 0
        signs[:, bits] = coordinates @ R >= thresholds[bits]
        errors.append(falling.tolist())
    return Turned(projection, thresholds if thresholds.any() else None, signs, errors, len(parts[0]))


def _stage(label: str, rng: Rng, learned: Callable[[], Rotation]) -> tuple[NDArray[Any], ...]:
    """(R, errors) and thresholds if there are any, or what an earlier run left of them."""

    def arrays() -> tuple[NDArray[Any], ...]:
        found = learned()
        limits = () if found.thresholds is None else (found.thresholds.astype(np.float32),)
        return found.matrix.astype(np.float32), np.array(found.errors, np.float64), *limits

    return compute.checkpoint.stage(label.replace(" ", "-"), rng, arrays)
