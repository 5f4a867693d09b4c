"""Circulant binary embedding (Yu, Kumar, Gong, Chang 2014, *Circulant binary embedding*).

Codes are the first m signs of circ(r) D x: D flips signs at random, and the product with a circulant matrix is a
convolution, so encoding takes O(d log d) time and the model O(d) memory. Learning alternates between the codes and r;
in the Fourier domain each frequency of r has its own exact solution.
"""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from isch import compute, fitting, progress
from isch.features import Block, Features, dense
from isch.fitting import Run, Size, Sized, Stage, step
from isch.hashing import pca
from isch.hashing.base import Hasher
from isch.hashing.projecting import Projector, centred
from isch.learned import Array, Expected
from isch.parameters import BITS, POSITIVE, Interval

CHUNK_BYTES = 1 << 20  # of rows transformed together, so that they stay in a core's cache

Spectra = NDArray[np.complex64]


class CBE(Hasher):
    """Signs of a circulant projection, random or learned.

    Parameters
    ----------
    n_bits : int
        Bits per code, at most the number of features.
    learn : bool
        Whether to learn the vector r of the circulant matrix; otherwise it is random.
    regularisation : float
        λ, which pulls circ(r) towards an orthogonal matrix.
    n_iter : int
        The largest number of rounds; learning stops earlier when the objective hardly changes.
    max_samples : int
        Rows to learn from, drawn at random when there are more.
    random_state : int, RandomState or None
        Seed of the random choices.
    """

    name = "cbe"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [BITS],
        "learn": ["boolean"],
        "regularisation": [Interval(Real, 0, None, closed="neither")],
        "n_iter": [POSITIVE],
        "max_samples": [POSITIVE],
        "random_state": ["random_state"],
    }
    _learns: ClassVar[Expected] = {
        "mean_": Array("float64", "d"),
        "flips_": Array("float32", "d"),
        "column_": Array("float32", "d"),
        "errors_": Array("float64", "rounds"),
    }
    mean_: NDArray[np.float64]
    flips_: NDArray[np.float32]  # the diagonal of D, ±1
    column_: NDArray[np.float32]  # r, the first column of the circulant matrix
    errors_: NDArray[np.float64]  # the objective after each round

    def __init__(
        self,
        n_bits: int = 128,
        learn: bool = True,
        regularisation: float = 1.0,
        n_iter: int = 50,
        max_samples: int = 5_000,
        random_state: Any = 0,
    ) -> None:
        self.n_bits = n_bits
        self.learn = learn
        self.regularisation = regularisation
        self.n_iter = n_iter
        self.max_samples = max_samples
        self.random_state = random_state

    def _check_size(self, features: Features) -> None:
        super()._check_size(features)
        pca.check_limit(self._label, self.n_bits, features.shape[1])

    def _encoding_work(self, size: Size) -> Stage:
        return Stage("encoding", solving=2 * size.rows * transform_flops(size.columns), read=size.bytes())

    def _fit(self, features: Features, run: Run) -> dict[str, Any]:
        d = features.shape[1]
        mean = run(fitting.mean, features)
        flips, column = run(start, d)
        errors = list[float]()
        if self.learn:
            sample = run(fitting.draw, features, self.max_samples)
            X = run(flipped, run(fitting.load, sample, mean), flips)
            column, errors = run(learn, X, column, self.n_bits, self.regularisation, self.n_iter)
        return {
            "mean_": mean,
            "flips_": flips,
            "column_": run(single, column),
            "errors_": np.asarray(errors, np.float64),
        }

    def _check_learned(self, attributes: dict[str, Any]) -> dict[str, Any]:
        sizes = super()._check_learned(attributes)
        pca.check_limit(self._label, self.n_bits, sizes["d"])
        return sizes

    def _projector(self) -> Projector:
        return Circulant(self.mean_, self.flips_, scipy.fft.rfft(self.column_), self.n_bits)


@dataclass(frozen=True)
class Circulant:
    """The first ``n_bits`` entries of circ(r) D (x − μ), given the half spectrum of r."""

    mean: NDArray[np.float64]
    flips: NDArray[np.float32]
    spectrum: Spectra
    n_bits: int

    def __call__(self, block: Block) -> NDArray[np.floating[Any]]:
        rows = centred(dense(block, None), self.mean)
        rows *= self.flips
        return circulant_products(rows, self.spectrum, self.n_bits)


def transform_flops(d: int) -> float:
    """Of a Fourier transform of d real values."""
    return 2.5 * d * math.log2(max(2, d))


def circulant_products(X: NDArray[np.float32], spectrum: Spectra, count: int) -> NDArray[np.float32]:
    """The first ``count`` entries of circ(r) x for each row x, given the half spectrum of r."""
    n, d = X.shape
    out = np.empty((n, count), np.float32)
    step = max(1, CHUNK_BYTES // (4 * d))
    for start in range(0, n, step):
        transformed = scipy.fft.rfft(X[start : start + step], axis=1)
        transformed *= spectrum
        out[start : start + step] = scipy.fft.irfft(transformed, d, axis=1, overwrite_x=True)[:, :count]
    return out


@step(gives=lambda d: (Sized((d,)), Sized((d,), np.float64)), random=True)
def start(d: int, *, rng: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Draw (the diagonal of D, r)."""
    return rng.choice(np.array([-1, 1], np.float32), d), rng.standard_normal(d)


@step(gives=lambda X, flips: X)
def flipped(X: NDArray[np.float32], flips: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return D x of each row, at unit length."""
    X = X * flips
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return X


@step(gives=lambda column: Sized(column.shape))
def single(column: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return r in single precision."""
    return column.astype(np.float32)


def _cost(X: NDArray[np.float32], column: NDArray[np.float64], n_bits: int, weight: float, n_iter: int) -> Stage:
    """Three Fourier transforms of each row per round; X is there twice."""
    return Stage(solving=(3 * n_iter + 1) * len(X) * transform_flops(len(column)), memory=8 * len(X) * len(column))


@step("circulant matrix", cost=_cost, gives=lambda X, column, *_: (column, []))
def learn(
    X: NDArray[np.float32], column: NDArray[np.float64], n_bits: int, regularisation: float, n_iter: int
) -> tuple[NDArray[np.float64], list[float]]:
    """(r, objective of each round): alternate between B = sign(X circ(r)ᵀ) and the exact r for this B.

    The objective is ‖B − X circ(r)ᵀ‖² + λ‖circ(r) circ(r)ᵀ − I‖², where columns of B beyond m are zero.
    """
    n, d = X.shape
    power = compute.run(Power(d), X)[0] / d
    spectrum = np.fft.rfft(column)
    errors: list[float] = []
    with progress.task("", n_iter, "iterations") as advance:
        for _ in range(n_iter):
            correlation = compute.run(Correlation(spectrum.astype(np.complex64), d, n_bits), X)[0] / d
            spectrum = best_spectrum(power, correlation, regularisation)
            errors.append(n * n_bits + objective(spectrum, power, correlation, regularisation, d))
            advance(1)
            if len(errors) > 1 and errors[-2] - errors[-1] < 1e-5 * errors[-2]:
                break
    return np.fft.irfft(spectrum, d), errors


def best_spectrum(
    power: NDArray[np.float64], correlation: NDArray[np.complex128], regularisation: float
) -> NDArray[np.complex128]:
    """The half spectrum r̃ that minimises Σ_l M_l |r̃_l|² − 2 Re(conj(r̃_l) C_l) + λ(|r̃_l|² − 1)².

    The phase is the phase of C_l (zero where C_l = 0). The modulus is the largest real root of
    4λρ³ + (2M_l − 4λ)ρ − 2|C_l| = 0. Newton's method descends to it from above, where the cubic is convex.
    """
    modulus = np.abs(correlation)
    linear = power / (2 * regularisation) - 1
    constant = modulus / (2 * regularisation)
    rho = np.sqrt(np.maximum(-linear, 0)) + np.cbrt(constant)
    for _ in range(100):
        slope = 3 * rho**2 + linear
        step = np.divide(rho**3 + linear * rho - constant, slope, out=np.zeros_like(rho), where=slope > 0)
        rho = np.maximum(rho - step, 0)
        if np.all(np.abs(step) <= 1e-14 * (1 + rho)):
            break
    phase = np.divide(correlation, modulus, out=np.ones_like(correlation), where=modulus > 0)
    return rho * phase


def objective(
    spectrum: NDArray[np.complex128],
    power: NDArray[np.float64],
    correlation: NDArray[np.complex128],
    regularisation: float,
    d: int,
) -> float:
    """The part of the objective that depends on r, over the whole spectrum of length d."""
    squares = np.abs(spectrum) ** 2
    terms = power * squares - 2 * (spectrum.conj() * correlation).real + regularisation * (squares - 1) ** 2
    twice = np.full(len(terms), 2.0)
    twice[0] = 1.0
    if d % 2 == 0:
        twice[-1] = 1.0
    return float(twice @ terms)


class _OfRows(compute.Sum):
    """A sum over rows in memory, in blocks small enough for their transforms to stay in the cache."""

    def rows(self, n_features: int) -> int:
        return max(1, CHUNK_BYTES // (4 * n_features))


@dataclass(frozen=True)
class Power(_OfRows):
    """Σ_n |F(x_n)|²."""

    d: int

    def zero(self) -> compute.Arrays:
        return (np.zeros(self.d // 2 + 1),)

    def block(self, block: Any, _: int) -> compute.Arrays:
        return ((np.abs(scipy.fft.rfft(block, axis=1)) ** 2).sum(axis=0, dtype=np.float64),)


@dataclass(frozen=True)
class Correlation(_OfRows):
    """Σ_n conj(F(x_n)) F(b_n) for b_n = sign of the first m entries of circ(r) x_n, zero beyond."""

    spectrum: Spectra
    d: int
    n_bits: int

    def zero(self) -> compute.Arrays:
        return (np.zeros(self.d // 2 + 1, np.complex128),)

    def block(self, block: Any, _: int) -> compute.Arrays:
        transformed = scipy.fft.rfft(block, axis=1)
        projected = scipy.fft.irfft(transformed * self.spectrum, self.d, axis=1)
        signs = np.where(projected >= 0, np.float32(1), np.float32(-1))
        signs[:, self.n_bits :] = 0
        return ((transformed.conj() * scipy.fft.rfft(signs, axis=1)).sum(axis=0, dtype=np.complex128),)
