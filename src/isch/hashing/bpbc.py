"""Bilinear codes (Gong, Kumar, Rowley, Lazebnik 2013, *Learning binary codes for high-dimensional data using bilinear
projections*).

A vector is read as a matrix X (d₁ × d₂), row by row, and its code is sign(R₁ᵀ X R₂): two small projections instead of
one of size d × m. It equals the code of the Kronecker product R₁ ⊗ R₂.
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isch import compute, fitting, progress
from isch.errors import InputError
from isch.features import Block, Features, dense
from isch.fitting import SVD_FLOPS, Run, Size, Sized, Stage, step
from isch.hashing.base import Hasher
from isch.hashing.projecting import Projector, centred
from isch.hashing.rotation import procrustes, random
from isch.learned import Array, Expected
from isch.parameters import BITS, POSITIVE

CHUNK_BYTES = 1 << 20  # of rows multiplied together, so that they stay in a core's cache

Pair = tuple[int, int]
Learned = tuple[NDArray[np.float64], NDArray[np.float64], list[float]]  # R₁, R₂, objective of each round


class BPBC(Hasher):
    """Signs of a bilinear projection, random or learned.

    Parameters
    ----------
    n_bits : int
        Bits per code, any number.
    shape : tuple of two int, optional
        (d₁, d₂): each row of the features is read as a d₁ × d₂ matrix, row by row. Good choices are (K, 128) for VLAD
        with K words, (21, K) for LLC and (81, 256) for LE. By default, the factors of d nearest to a square.
    code_shape : tuple of two int, optional
        (c₁, c₂) of the matrix of bits. By default, the factors of ``n_bits`` nearest to a square that lose least of
        ``shape``; both orders of them are learned, and the one with the smaller quantisation error is kept.
    learn : bool
        Whether to learn the projections; otherwise they are random and orthonormal.
    n_iter : int
        Rounds of learning.
    max_samples : int
        Rows to learn from, drawn at random when there are more.
    random_state : int, RandomState or None
        Seed of the random choices.
    """

    name = "bpbc"
    revision = 2
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [BITS],
        "shape": [tuple, list, None],
        "code_shape": [tuple, list, None],
        "learn": ["boolean"],
        "n_iter": [POSITIVE],
        "max_samples": [POSITIVE],
        "random_state": ["random_state"],
    }
    _learns: ClassVar[Expected] = {
        "mean_": Array("float64", "d"),
        "left_": Array("float32", "d1", "c1"),
        "right_": Array("float32", "d2", "c2"),
        "objective_": Array("float64", "rounds"),
    }
    mean_: NDArray[np.float64]
    left_: NDArray[np.float32]  # R₁
    right_: NDArray[np.float32]  # R₂
    objective_: NDArray[np.float64]  # Σ ⟨B, R₁ᵀ X R₂⟩ at each round

    def __init__(
        self,
        n_bits: int = 128,
        shape: Pair | None = None,
        code_shape: Pair | None = None,
        learn: bool = True,
        n_iter: int = 5,
        max_samples: int = 5_000,
        random_state: Any = 0,
    ) -> None:
        self.n_bits = n_bits
        self.shape = shape
        self.code_shape = code_shape
        self.learn = learn
        self.n_iter = n_iter
        self.max_samples = max_samples
        self.random_state = random_state

    def _check_size(self, features: Features) -> None:
        super()._check_size(features)
        self._shapes(features.shape[1])

    def _shapes(self, d: int) -> tuple[Pair, Pair]:
        """(shape, code shape) for d features."""
        shape = _checked("shape", self.shape, d, "the number of features")
        code_shape = _checked("code_shape", self.code_shape, self.n_bits, "n_bits")
        return choose_shapes(d, self.n_bits, shape, code_shape)

    def _encoding_work(self, size: Size) -> Stage:
        (d1, d2), (c1, c2) = self._shapes(size.columns)
        cheaper = 2.0 * min(d1 * c2 * (d2 + c1), d2 * c1 * (d1 + c2))
        return Stage("encoding", size.rows * cheaper, read=size.bytes())

    def _fit(self, features: Features, run: Run) -> dict[str, Any]:
        shape, code_shape = self._shapes(features.shape[1])
        mean = run(fitting.mean, features)
        starts = [run(start, shape, code_shape)]
        if not self.learn:
            left, right = starts[0]
            return {"mean_": mean} | run(_learned, left, right, [])
        X = run(rows_of_unit_length, run(fitting.load, run(fitting.draw, features, self.max_samples), mean))
        if self.code_shape is None and turnable(shape, code_shape):
            starts.append(run(start, shape, code_shape[::-1]))
        found = [run(learn, X, left, right, self.n_iter) for left, right in starts]
        left, right, trace = run(nearest_to_codes, X, found)
        return {"mean_": mean} | run(_learned, left, right, trace)

    def _check_learned(self, attributes: dict[str, Any]) -> dict[str, Any]:
        sizes = super()._check_learned(attributes)
        d1, d2, c1, c2 = (sizes[name] for name in ("d1", "d2", "c1", "c2"))
        if (d1 * d2, c1 * c2) != (sizes["d"], self.n_bits):
            raise InputError(
                f"left_ and right_ must turn {sizes['d']} features into {self.n_bits} bits; "
                f"got shapes {d1} × {c1} and {d2} × {c2}"
            )
        return sizes

    def _projector(self) -> Projector:
        return Bilinear(self.mean_, self.left_, self.right_)


@dataclass(frozen=True)
class Bilinear:
    """R₁ᵀ (X − μ) R₂ of each row X, as a row."""

    mean: NDArray[np.float64]
    left: NDArray[np.float32]
    right: NDArray[np.float32]

    def __call__(self, block: Block) -> NDArray[np.floating[Any]]:
        rows = centred(dense(block, None), self.mean)
        out = np.empty((len(rows), self.left.shape[1] * self.right.shape[1]), np.float32)
        step = max(1, CHUNK_BYTES // (4 * rows.shape[1]))
        for start in range(0, len(rows), step):
            matrices = rows[start : start + step].reshape(-1, len(self.left), len(self.right))
            out[start : start + step] = bilinear(matrices, self.left, self.right).reshape(len(matrices), -1)
        return out


@step(gives=lambda X: X)
def rows_of_unit_length(X: NDArray[np.float32]) -> NDArray[np.float32]:
    """Divide each row by its length, in place."""
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return X


@step(gives=lambda left, right, trace: {"left_": Sized(left.shape), "right_": Sized(right.shape)})
def _learned(left: NDArray[np.float64], right: NDArray[np.float64], trace: list[float]) -> dict[str, NDArray[Any]]:
    """Return the learned attributes."""
    return {
        "left_": left.astype(np.float32),
        "right_": right.astype(np.float32),
        "objective_": np.array(trace, np.float64),
    }


def bilinear(X: NDArray[Any], left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """R₁ᵀ X R₂ of each matrix, in the cheaper order."""
    (d1, c1), (d2, c2) = left.shape, right.shape
    if d1 * c2 * (d2 + c1) <= d2 * c1 * (d1 + c2):
        return np.asarray(left.T @ (X.reshape(-1, d2) @ right).reshape(len(X), d1, c2))
    return np.asarray(((left.T @ X).reshape(-1, d2) @ right).reshape(len(X), c1, c2))


def _cost(X: NDArray[np.float32], left: NDArray[np.float64], right: NDArray[np.float64], n_iter: int) -> Stage:
    rows, d = X.shape
    (d1, c1), (d2, c2) = left.shape, right.shape
    round_ = 2.0 * d2 * c1 * (d1 + 2 * c2) + 2.0 * d1 * c2 * (d2 + c1)
    return Stage(
        products=n_iter * rows * round_,
        solving=n_iter * SVD_FLOPS * (d1 * c1 * min(d1, c1) + d2 * c2 * min(d2, c2)),
        memory=4 * rows * (2 * d + c1 * c2),
    )


@step("bilinear projections", cost=_cost, gives=lambda X, left, right, n_iter: (left, right, []))
def learn(X: NDArray[np.float32], left: NDArray[np.float64], right: NDArray[np.float64], n_iter: int) -> Learned:
    """(R₁, R₂, objective of each round): B = sign(R₁ᵀ X R₂), then R₂ for given B and R₁, then R₁."""
    rows, trace = X.reshape(len(X), -1), list[float]()
    with progress.task("", n_iter, "iterations") as advance:
        for _ in range(n_iter):
            parts, values, bits = zip(
                *compute.iterate(RightStep(left.astype(np.float32), right.astype(np.float32)), rows), strict=True
            )
            trace.append(float(sum(values)))
            right = procrustes(np.asarray(sum(part.astype(np.float64) for part in parts)))
            (total,) = compute.run(LeftStep(np.concatenate(bits), len(left), right.astype(np.float32)), rows)
            left = procrustes(total)
            advance(1)
    return left, right, trace


@step(
    gives=lambda shape, code_shape: tuple(Sized(both, np.float64) for both in zip(shape, code_shape, strict=True)),
    random=True,
)
def start(shape: Pair, code_shape: Pair, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Random (R₁, R₂) with orthonormal columns, or rows where there are more bits than a side has."""
    left, right = (random(rows, rng, columns) for rows, columns in zip(shape, code_shape, strict=True))
    return left, right


def turnable(shape: Pair, code_shape: Pair) -> bool:
    """Whether the code shape in the other order is another one that keeps as much rank."""
    (d1, d2), (c1, c2) = shape, code_shape
    return c1 != c2 and min(d1, c2) * min(d2, c1) == min(d1, c1) * min(d2, c2)


def quantization_error(X: NDArray[np.float32], left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Σ ‖B − R₁ᵀ X R₂‖² over the rows of X."""
    (total,) = compute.run(SquaredErrors(left.astype(np.float32), right.astype(np.float32)), X)
    return float(total[0])


@step(gives=lambda X, found: found[0])
def nearest_to_codes(X: NDArray[np.float32], found: list[Learned]) -> Learned:
    """Return the projections with the smallest quantisation error."""
    return min(found, key=lambda one: quantization_error(X, one[0], one[1]))


@dataclass(frozen=True)
class SquaredErrors(compute.Sum):
    """Σ (1 − |z|)² over the values of the matrices of a block."""

    left: NDArray[np.float32]
    right: NDArray[np.float32]

    def zero(self) -> compute.Arrays:
        return (np.zeros(1),)

    def block(self, block: Any, _: int) -> compute.Arrays:
        values = bilinear(block.reshape(-1, len(self.left), len(self.right)), self.left, self.right)
        return (np.square(1 - np.abs(values)).sum(dtype=np.float64, keepdims=True).reshape(1),)


@dataclass(frozen=True)
class RightStep(compute.Pass[tuple[NDArray[np.float32], float, NDArray[np.bool_]]]):
    """(Σ Bᵀ R₁ᵀ X (c₂, d₂), Σ ⟨B, R₁ᵀ X R₂⟩, B) of the matrices X of a block."""

    left: NDArray[np.float32]
    right: NDArray[np.float32]

    def block(self, block: Any, _: int) -> tuple[NDArray[np.float32], float, NDArray[np.bool_]]:
        (d1, c1), (d2, c2) = self.left.shape, self.right.shape
        reduced = (self.left.T @ block.reshape(-1, d1, d2)).reshape(-1, d2)
        values = reduced @ self.right
        bits = values >= 0
        return _signs(bits).T @ reduced, float(np.abs(values).sum(dtype=np.float64)), bits.reshape(-1, c1, c2)


@dataclass(frozen=True)
class LeftStep(compute.Sum):
    """Σ B (X R₂)ᵀ (c₁, d₁), given the bits of all rows."""

    bits: NDArray[np.bool_]  # (n, c₁, c₂)
    d1: int
    right: NDArray[np.float32]

    def zero(self) -> compute.Arrays:
        return (np.zeros((self.bits.shape[1], self.d1)),)

    def block(self, block: Any, start: int) -> compute.Arrays:
        signs = _signs(self.bits[start : start + len(block)])
        reduced = block.reshape(-1, self.d1, len(self.right)) @ self.right
        return (np.tensordot(signs, reduced, axes=([0, 2], [0, 2])),)


def _signs(bits: NDArray[np.bool_]) -> NDArray[np.float32]:
    return bits.astype(np.float32) * 2 - 1


def choose_shapes(d: int, m: int, shape: Pair | None, code_shape: Pair | None) -> tuple[Pair, Pair]:
    """(shape, code shape); a missing one becomes the factor pair nearest to a square of those with the highest rank."""
    shapes = [shape] if shape else factor_pairs(d)
    code_shapes = [code_shape] if code_shape else factor_pairs(m)
    return max(product(shapes, code_shapes), key=lambda pair: math.prod(map(min, *pair)))


def factor_pairs(number: int) -> list[Pair]:
    """(a, b) with a·b = number, nearest to a square first; the wider of a pair and its mirror comes first."""
    small = [a for a in range(int(number**0.5), 0, -1) if number % a == 0]
    return [pair for a in small for pair in dict.fromkeys([(a, number // a), (number // a, a)])]


def _checked(name: str, shape: Any, wanted: int, of_what: str) -> Pair | None:
    if shape is None:
        return None
    if len(shape) != 2 or not all(isinstance(s, int | np.integer) and s > 0 for s in shape):
        raise InputError(f"BPBC: {name} must be two positive integers; got {shape!r}")
    first, second = int(shape[0]), int(shape[1])
    if first * second != wanted:
        raise InputError(
            f"BPBC: {name} must multiply to {wanted} ({of_what}); got {first} × {second} = {first * second}"
        )
    return first, second
