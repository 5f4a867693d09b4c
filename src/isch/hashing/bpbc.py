"""Bilinear codes (Gong, Kumar, Rowley, Lazebnik 2013, *Learning binary codes for high-dimensional data using bilinear
projections*).

A vector is read as a matrix X (d₁ × d₂), row by row, and its code is sign(R₁ᵀ X R₂): two small projections instead of
one of size d × m. It equals the code of the Kronecker product R₁ ⊗ R₂.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isch import compute, progress
from isch.errors import InputError
from isch.features import Block, Features, dense
from isch.hashing import pca
from isch.hashing.base import POSITIVE, Hasher, centred
from isch.hashing.rotation import procrustes

CHUNK_BYTES = 1 << 20  # rows multiplied together: what stays in the cache of a core

Pair = tuple[int, int]


class BPBC(Hasher):
    """Signs of a bilinear projection, random or learned.

    Parameters: ``n_bits``, at most the number of features; ``shape`` (d₁, d₂) of the matrix that a row is, row by row:
    (K, 128) for VLAD with K words, (21, K) for LLC, (81, 256) for LE; ``code_shape`` (c₁, c₂) of the matrix of bits.
    What is not given is the factor pair nearest to a square that fits. ``learn`` (False: random orthonormal
    projections); ``n_iter`` rounds; ``max_samples`` rows to learn from; ``random_state``.
    """

    name = "bpbc"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [POSITIVE],
        "shape": [tuple, list, None],
        "code_shape": [tuple, list, None],
        "learn": ["boolean"],
        "n_iter": [POSITIVE],
        "max_samples": [POSITIVE],
        "random_state": ["random_state"],
    }
    mean_: NDArray[np.float64]
    left_: NDArray[np.float32]  # R₁, (d₁, c₁)
    right_: NDArray[np.float32]  # R₂, (d₂, c₂)
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

    def _fit(self, features: Features) -> None:
        d = features.shape[1]
        pca.check_limit(self._label, self.n_bits, d)
        shape = _checked("shape", self.shape, d, "the number of features")
        code_shape = _checked("code_shape", self.code_shape, self.n_bits, "n_bits")
        shape, code_shape = choose_shapes(d, self.n_bits, shape, code_shape)
        rng = self._rng()
        self.mean_ = compute.mean(features)
        left, right = (orthonormal(*sizes, rng) for sizes in zip(shape, code_shape, strict=True))
        trace: list[float] = []
        if self.learn:
            X = compute.load(features, compute.sample(features, self.max_samples, rng), self.mean_)
            X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.finfo(np.float32).tiny)
            left, right, trace = learn(X.reshape(-1, *shape), left, right, self.n_iter)
        self.left_, self.right_ = left.astype(np.float32), right.astype(np.float32)
        self.objective_ = np.array(trace, np.float64)

    def _project(self, block: Block) -> NDArray[np.floating[Any]]:
        rows = centred(dense(block, None), self.mean_)
        out = np.empty((len(rows), self.n_bits), np.float32)
        step = max(1, CHUNK_BYTES // (4 * rows.shape[1]))
        for start in range(0, len(rows), step):
            matrices = rows[start : start + step].reshape(-1, len(self.left_), len(self.right_))
            out[start : start + step] = bilinear(matrices, self.left_, self.right_).reshape(len(matrices), -1)
        return out


def bilinear(X: NDArray[Any], left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """R₁ᵀ X R₂ of each matrix, in the cheaper order."""
    (d1, c1), (d2, c2) = left.shape, right.shape
    if d1 * c2 * (d2 + c1) <= d2 * c1 * (d1 + c2):
        return np.asarray(left.T @ (X.reshape(-1, d2) @ right).reshape(len(X), d1, c2))
    return np.asarray(((left.T @ X).reshape(-1, d2) @ right).reshape(len(X), c1, c2))


def learn(
    X: NDArray[np.float32], left: NDArray[np.float64], right: NDArray[np.float64], n_iter: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], list[float]]:
    """(R₁, R₂, objective of each round): B = sign(R₁ᵀ X R₂), then R₂ for given B and R₁, then R₁."""
    step = compute.block_rows(left.shape[0] * right.shape[0])
    starts = range(0, len(X), step)
    trace: list[float] = []
    with progress.task("bilinear projections", n_iter, "iterations") as advance:
        for _ in range(n_iter):
            r1, r2 = left.astype(np.float32), right.astype(np.float32)

            def for_right(s: int, r1: Any = r1, r2: Any = r2) -> tuple[NDArray[Any], float, NDArray[np.bool_]]:
                return _right_part(X[s : s + step], r1, r2)

            parts, values, bits = zip(*compute.parallel(for_right, starts), strict=True)
            trace.append(float(sum(values)))
            right = procrustes(_total(parts))
            r2 = right.astype(np.float32)

            def for_left(i: int, r2: Any = r2, bits: Any = bits) -> NDArray[Any]:
                return _left_part(X[starts[i] : starts[i] + step], bits[i], r2)

            left = procrustes(_total(compute.parallel(for_left, range(len(starts)))))
            advance(1)
    return left, right, trace


def _right_part(
    X: NDArray[np.float32], left: NDArray[np.float32], right: NDArray[np.float32]
) -> tuple[NDArray[np.float32], float, NDArray[np.bool_]]:
    """(Σ Bᵀ R₁ᵀ X (c₂, d₂), Σ ⟨B, R₁ᵀ X R₂⟩, bits) of some matrices."""
    reduced = (left.T @ X).reshape(-1, X.shape[2])
    values = reduced @ right
    bits = values >= 0
    return (
        _signs(bits).T @ reduced,
        float(np.abs(values).sum(dtype=np.float64)),
        bits.reshape(len(X), left.shape[1], -1),
    )


def _left_part(X: NDArray[np.float32], bits: NDArray[np.bool_], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """Σ B (X R₂)ᵀ (c₁, d₁) of some matrices."""
    reduced = X @ right
    return np.asarray(np.tensordot(_signs(bits), reduced, axes=([0, 2], [0, 2])))


def _signs(bits: NDArray[np.bool_]) -> NDArray[np.float32]:
    return bits.astype(np.float32) * 2 - 1


def _total(parts: Any) -> NDArray[np.float64]:
    return np.asarray(sum(part.astype(np.float64) for part in parts))


def orthonormal(rows: int, columns: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """A random matrix with orthonormal columns, from the Haar measure."""
    q, r = np.linalg.qr(rng.standard_normal((rows, columns)))
    return q * np.where(np.diag(r) < 0, -1.0, 1.0)


def choose_shapes(d: int, m: int, shape: Pair | None, code_shape: Pair | None) -> tuple[Pair, Pair]:
    """(shape, code shape): what is not given is the factor pair nearest to a square with c₁ ≤ d₁ and c₂ ≤ d₂."""
    for d1, d2 in [shape] if shape else factor_pairs(d):
        for c1, c2 in [code_shape] if code_shape else factor_pairs(m):
            if c1 <= d1 and c2 <= d2:
                return (d1, d2), (c1, c2)
    raise InputError(
        f"BPBC: no code_shape (c1, c2) with c1·c2 = {m} fits into the shape {shape or f'of {d} features'}"
        + (f"; got code_shape {code_shape}" if code_shape else "")
    )


def factor_pairs(number: int) -> list[Pair]:
    """(a, b) with a·b = number, nearest to a square first; of a pair and its mirror the wider one comes first."""
    small = [a for a in range(int(number**0.5), 0, -1) if number % a == 0]
    return [pair for a in small for pair in dict.fromkeys([(a, number // a), (number // a, a)])]


def _checked(name: str, shape: Any, product: int, of_what: str) -> Pair | None:
    if shape is None:
        return None
    if len(shape) != 2 or not all(isinstance(s, int | np.integer) and s > 0 for s in shape):
        raise InputError(f"BPBC: {name} must be two positive integers; got {shape!r}")
    first, second = int(shape[0]), int(shape[1])
    if first * second != product:
        raise InputError(
            f"BPBC: {name} must multiply to {product} ({of_what}); got {first} × {second} = {first * second}"
        )
    return first, second
