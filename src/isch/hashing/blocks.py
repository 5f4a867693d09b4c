"""Step 3 of ISCH block by block: R of the coordinates of each block, and the map L = W R of all bits."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch import compute, fitting
from isch.errors import ParameterError
from isch.features import Features
from isch.fitting import Run, Size, Sized, Stage, Step, step
from isch.hashing import diagnostics, dictionary
from isch.hashing.projecting import Linear, Projecting
from isch.hashing.rotation import Rotation
from isch.learned import Array, Expected

BLOCK_LIMIT = 512  # eigenvectors per rotation, by default
BLOCK_LEAST = 32  # smaller blocks repeat the same few directions
ROTATION_VALUES = 1 << 29  # projected values in memory while the rotation is learned

Learn = Step[..., Rotation]  # rotation.learn, nested.learn or thresholds.learn
Matrix = NDArray[np.float32]


class Directions(NamedTuple):
    """W (d, r), and the columns of each block."""

    W: Matrix
    blocks: list[slice]


@dataclass(frozen=True)
class BlockRotation:
    """What the blocks learned."""

    projection: Matrix  # L (d, m)
    thresholds: NDArray[np.float32] | None  # of the bits, where they are not zero
    balance: NDArray[np.float32]  # the share of ones of each bit
    correlation: float  # between two bits
    errors: list[list[float]]  # of each block
    block_size: int  # bits of the first block
    scale: float = 1.0  # of the coordinates, so that bits have a mean square of 1

    def learned(self) -> dict[str, Any]:
        """Return the attributes that a method keeps of it."""
        return {
            "projection_": self.projection,
            "quantization_errors_": self.errors,
            "block_size_": self.block_size,
            "bit_balance_": self.balance,
            "bit_correlation_": self.correlation,
        }


LEARNS: Expected = {  # of a method whose bits are rotated block by block
    "block_size_": int,
    "block_overlap_": float,
    "quantization_errors_": list,
    "bit_balance_": Array("float32", "m"),
    "bit_correlation_": float,
}


def count(n_bits: int, n_pairs: int, block_size: int | None) -> int:
    """Choose Q, from the block size ℓ: m = Q ℓ, or as few blocks as may be where nothing divides evenly."""
    if block_size:
        return min(n_bits // block_size, n_pairs)
    size = max(s for s in range(1, BLOCK_LIMIT + 1) if n_pairs % s == 0)
    uneven = n_pairs < n_bits or size < min(n_pairs, BLOCK_LEAST)
    return math.ceil(n_pairs / (BLOCK_LIMIT if uneven else size))


def check_size(n_bits: int, block_size: int | None) -> None:
    """Refuse a block size that does not divide the bits."""
    if n_bits % (block_size or 1):
        raise ParameterError(f"block_size must divide n_bits = {n_bits}; got {block_size}")


def rotate(
    run: Run, found: Directions, sample: Features, mean: NDArray[np.float64], how: Learn, n_iter: int, n_bits: int
) -> BlockRotation:
    """Learn L = W R block by block from a sample."""
    rows = run(fitting.draw, sample, max(2, ROTATION_VALUES // n_bits))
    with run.holding(found.W, Sized((len(found.W), n_bits))):
        Z = run(project, rows, mean, found.W)
        Z, W, scale = run(unit_mean_square, Z, found.W, n_bits)
        rotated = learn(run, Directions(W, found.blocks), Z, how, n_iter, n_bits)
    return replace(rotated, scale=scale)


def split_bits(n_bits: int, n_blocks: int) -> list[NDArray[np.intp]]:
    """The bits of each block."""
    return np.array_split(np.arange(n_bits), n_blocks)


def learn(run: Run, found: Directions, Z: Matrix, how: Learn, n_iter: int, n_bits: int) -> BlockRotation:
    """Learn R of each block from coordinates Z = (X − μ) W."""
    parts = split_bits(n_bits, len(found.blocks))
    rotations = []
    for number, (block, bits) in enumerate(zip(found.blocks, parts, strict=True), 1):
        one = how.named(f"rotation {number} of {len(parts)}")
        rotations.append(run(one, run(coordinates, Z, block), n_iter, n_bits=len(bits)))
    return run(turned, found, Z, rotations, n_bits)


@step(gives=lambda Z, block: Sized((len(Z), block.stop - block.start)))
def coordinates(Z: Matrix, block: slice) -> Matrix:
    """The columns of a block."""
    return np.ascontiguousarray(Z[:, block])


def _sizes(found: Directions, Z: Matrix, rotations: list[Rotation], n_bits: int) -> BlockRotation:
    L: Any = Sized((len(found.W), n_bits))
    limits: Any = None if rotations[0].thresholds is None else Sized((n_bits,))
    balance: Any = Sized((n_bits,))
    return BlockRotation(L, limits, balance, 0.0, [], 0)


@step(gives=_sizes)
def turned(found: Directions, Z: Matrix, rotations: list[Rotation], n_bits: int) -> BlockRotation:
    """L = W R, and what the codes of Z look like."""
    W, columns = found
    parts = split_bits(n_bits, len(columns))
    projection = np.empty((len(W), n_bits), np.float32)
    thresholds = np.zeros(n_bits, np.float32)
    signs = compute.memory.empty((len(Z), n_bits), np.bool_)
    for block, bits, rotation in zip(columns, parts, rotations, strict=True):
        R = rotation.matrix.astype(np.float32)
        projection[:, bits] = W[:, block] @ R
        thresholds[bits] = 0 if rotation.thresholds is None else rotation.thresholds
        signs[:, bits] = coordinates(Z, block) @ R >= thresholds[bits]
    balance, correlation = diagnostics.bit_statistics(signs)
    diagnostics.warn_of_collapse(balance)
    errors = [rotation.errors for rotation in rotations]
    limits = thresholds if thresholds.any() else None
    return BlockRotation(projection, limits, balance, correlation, errors, len(parts[0]))


def _project_cost(rows: Features, mean: NDArray[np.float64], W: Matrix) -> Stage:
    size = Size.of(rows)
    values = size.rows * W.shape[1]
    # the signs of the bits take another quarter of the values
    return Stage(products=2.0 * size.columns * values, read=size.bytes(), array=5 * values)


@step("projecting", cost=_project_cost, gives=lambda rows, mean, W: Sized((len(rows), W.shape[1])))
def project(rows: Features, mean: NDArray[np.float64], W: Matrix) -> Matrix:
    """Z = (X − μ) W."""
    Z: Matrix = compute.memory.empty((len(rows), W.shape[1]), np.float32)
    compute.collect(Projecting(Linear(mean, W), rows.where), rows, Z)
    return Z


@step(gives=lambda Z: Z)
def unit_scaled(Z: Matrix) -> Matrix:
    """Z times a power of two, in place."""
    return dictionary.unit_scale(Z)


@step(gives=lambda Z, W, n_bits: (Z, W, 1.0))
def unit_mean_square(Z: Matrix, W: Matrix, n_bits: int) -> tuple[Matrix, Matrix, float]:
    """Scale Z and W in place so that bits have a mean square of 1, which makes errors comparable: (Z, W, scale)."""
    scale = np.float32(1 / np.sqrt(np.einsum("ij,ij->", Z, Z, dtype=np.float64) / (len(Z) * n_bits)))
    Z *= scale
    W *= scale
    return Z, W, float(scale)
