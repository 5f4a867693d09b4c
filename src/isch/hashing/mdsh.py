"""Multidimensional spectral hashing (Weiss, Fergus, Torralba 2012, *Multidimensional spectral hashing*).

The affinity exp(−‖x − y‖²/2σ²) is approximated by a weighted Hamming affinity. Its eigenfunctions are products of
functions of one principal coordinate each. Only these functions are thresholded and stored; the distance forms the
products at search time.
"""

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isch import compute, distances, fitting
from isch.errors import InputError, warn
from isch.features import Block, Features
from isch.fitting import Run, Size, Sized, Stage, step
from isch.hashing import pca
from isch.hashing.base import LinearHasher
from isch.hashing.projecting import Projector
from isch.lazy import distance as between
from isch.lazy import linalg
from isch.learned import Array, Expected, check_range
from isch.parameters import BITS, POSITIVE, Interval

LEAST_BINS, MOST_BINS = 10, 50
ROWS_PER_BIN = 10
LEAST_ROWS = 10
PROBES = 500  # rows between which distances are measured
LIMITS = (2.5, 97.5)  # percentiles to which coordinates are clipped
SMOOTHING = 0.1  # added to the share of rows in each bin
LEAST_WEIGHT = 0.1  # of an eigenfunction that gets its own bit

Vector = NDArray[np.float64]


class MDSH(LinearHasher):
    """Thresholded eigenfunctions of principal coordinates, compared by a weighted product affinity.

    Parameters
    ----------
    n_bits : int
        Bits per code; may exceed the number of features.
    sigma : float, optional
        σ of the affinity; by default a quarter of the mean distance between two rows.
    max_coordinates : int
        Principal coordinates to choose from.
    max_samples : int
        Rows to learn from, drawn at random when there are more. At least 10 are needed, 500 are better.
    random_state : int, RandomState or None
        Seed of the random choices.
    """

    name = "mdsh"
    revision = 2
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [BITS],
        "sigma": [Interval(Real, 0, None, closed="neither"), None],
        "max_coordinates": [POSITIVE],
        "max_samples": [POSITIVE],
        "random_state": ["random_state"],
    }
    _learns: ClassVar[Expected] = {
        "projection_": Array("float32", "d", "c"),
        "limits_": Array("float32", 2, "c"),
        "grids_": Array("float32", 2, "c"),
        "coordinates_": Array("int32", "m"),
        "values_": Array("float32", "m", "bins"),
        "weights_": Array("float32", "m"),
        "groups_": Array("int32", "m"),
        "sigma_": float,
    }
    projection_: NDArray[np.float32]  # the principal directions in use
    limits_: NDArray[np.float32]  # least and greatest value of each coordinate
    grids_: NDArray[np.float32]  # first grid point and spacing of each coordinate
    coordinates_: NDArray[np.int32]  # of each bit
    values_: NDArray[np.float32]  # eigenfunction of each bit on the grid of its coordinate, minus threshold
    weights_: NDArray[np.float32]
    groups_: NDArray[np.int32]  # bits with the same threshold
    sigma_: float

    def __init__(
        self,
        n_bits: int = 128,
        sigma: float | None = None,
        max_coordinates: int = 256,
        max_samples: int = 50_000,
        random_state: Any = 0,
    ) -> None:
        self.n_bits = n_bits
        self.sigma = sigma
        self.max_coordinates = max_coordinates
        self.max_samples = max_samples
        self.random_state = random_state

    @property
    def distance(self) -> distances.Distance:
        """Minus the affinity: products of weighted agreements over coordinates, summed over thresholds."""
        return distances.ProductAffinity(self.weights_, self.coordinates_, self.groups_)

    def _check_size(self, features: Features) -> None:
        super()._check_size(features)
        count = min(len(features), self.max_samples)
        if count < LEAST_ROWS:
            raise InputError(f"{self._label} needs at least {LEAST_ROWS} rows to learn from; got {count}")

    def _encoding_work(self, size: Size) -> Stage:
        count = min(self.max_coordinates, size.columns, self.n_bits)
        return Stage("encoding", 2.0 * size.rows * size.columns * count, read=size.bytes())

    def _fit(self, features: Features, run: Run) -> dict[str, Any]:
        count = min(self.max_coordinates, features.shape[1])
        # rows are drawn first, so that the same seed draws the same rows whatever finds the directions
        sample = run(fitting.draw, features, self.max_samples)
        basis = pca.principal(run, features, count)
        in_double = Sized((3 * len(sample), count), np.float64)  # of which the functions are made
        with run.holding(in_double):
            Z = run(pca.project, sample, basis)
        sigma = run(bandwidth, sample, basis.mean) if self.sigma is None else float(self.sigma)
        learned = run(choose_bits, Z, basis, sigma, self.n_bits, f"{features.where}: {self._label}")
        return {"mean_": basis.mean, "sigma_": sigma, **learned}

    def _check_learned(self, attributes: dict[str, Any]) -> dict[str, Any]:
        sizes = super()._check_learned(attributes)
        check_range("coordinates_", attributes["coordinates_"], sizes["c"])
        check_range("groups_", attributes["groups_"], self.n_bits)
        return sizes

    def _projector(self) -> Projector:
        return Interpolated(super()._projector(), self.limits_, self.grids_, self.coordinates_, self.values_)


@dataclass(frozen=True)
class Interpolated:
    """Eigenfunctions between the points of their grids; the fields are the learned attributes of ``MDSH``."""

    linear: Projector
    limits: NDArray[np.float32]
    grids: NDArray[np.float32]
    coordinates: NDArray[np.int32]
    values: NDArray[np.float32]

    def __call__(self, block: Block) -> NDArray[np.floating[Any]]:
        clipped = self.linear(block).clip(*self.limits)
        position = ((clipped - self.grids[0]) / self.grids[1])[:, self.coordinates]
        left = np.clip(position.astype(np.int64), 0, self.values.shape[1] - 2)
        bits = np.arange(len(self.values))
        start, stop = self.values[bits, left], self.values[bits, left + 1]
        return np.asarray(start + (position - left).astype(np.float32) * (stop - start))


@dataclass(frozen=True)
class Eigenfunction:
    """One eigenfunction of one coordinate on its grid; weight = 1 − eigenvalue."""

    coordinate: int
    weight: float
    values: Vector


def eigenfunctions(shares: Vector, extent: float, sigma: float) -> tuple[Vector, NDArray[np.float64]]:
    """(eigenvalues, functions as columns) of the normalised Laplacian of a coordinate with this histogram."""
    p = shares + SMOOTHING
    p = p / p.sum()
    grid = (np.arange(len(p)) + 0.5) * (extent / len(p))
    affinity = np.exp(-((grid[:, None] - grid) ** 2) / (2 * sigma**2))
    joint = p[:, None] * affinity * p
    degrees = joint.sum(axis=0)
    scale = 1 / np.sqrt(degrees)
    values, vectors = linalg.eigh(scale[:, None] * (np.diag(degrees) - joint) * scale)
    functions = scale[:, None] * vectors
    return values, functions * signs(functions)


def signs(functions: NDArray[np.float64]) -> Vector:
    """1 or −1 for each function, so that its first value of at least half its largest modulus is positive.

    A function and its negative are equally good solutions, but thresholds other than the median cut them at different
    places. The largest value itself tells nothing where a function has two of the same size and opposite sign.
    """
    moduli = np.abs(functions)
    first = (moduli >= moduli.max(axis=0) / 2).argmax(axis=0)
    return np.where(functions[first, np.arange(functions.shape[1])] < 0, -1.0, 1.0)


def assign_bits(functions: list[Eigenfunction], n_bits: int) -> tuple[list[Eigenfunction], Vector]:
    """(function, threshold) of each bit.

    If there are more strong functions than bits, the leading ones all use the median of their grid values as the
    threshold. Otherwise each function is cut at several percentiles, and the remaining bits go to the leading
    functions at one more percentile.
    """
    strong = [f for f in functions if f.weight > LEAST_WEIGHT]
    if len(strong) > n_bits:
        chosen = strong[:n_bits]
        return chosen, np.full(n_bits, np.median(np.concatenate([f.values for f in chosen])))
    repeats, rest = divmod(n_bits, len(strong))
    percentiles = 100 * np.arange(1, repeats + 2) / (repeats + 2)
    if not np.isclose(percentiles, 50).any():
        percentiles[0] = 50
    pooled = np.concatenate([f.values for f in strong])
    cuts = np.percentile(pooled, percentiles, method="hazen")
    thresholds = np.concatenate([np.repeat(cuts[:repeats], len(strong)), np.repeat(cuts[repeats], rest)])
    return strong * repeats + strong[:rest], thresholds


def _probes(sample: Features) -> int:
    return min(len(sample), PROBES)


def _loading(sample: Features, mean: Vector) -> Stage:
    size = Size.of(sample)
    return Stage(read=size.bytes(_probes(sample)), array=4 * _probes(sample) * size.columns)


@step("loading", cost=_loading, gives=lambda sample, mean: 1.0, random=True)
def bandwidth(sample: Features, mean: Vector, *, rng: np.random.Generator) -> float:
    """Return σ: a quarter of the mean distance between two rows, from at most PROBES of them."""
    count = _probes(sample)
    chosen = np.arange(len(sample)) if len(sample) <= count else np.sort(rng.choice(len(sample), count, replace=False))
    distances = between.pdist(compute.load(sample, chosen, mean).astype(np.float64))
    return (float(distances.mean()) or 1.0) / 4


def _sizes(Z: NDArray[np.float32], basis: pca.Principal, sigma: float, n_bits: int, label: str) -> dict[str, Any]:
    """Of a dry run, where every coordinate is used."""
    used = min(Z.shape[1], n_bits)
    return {
        "projection_": Sized((len(basis.directions), used)),
        "limits_": Sized((2, used)),
        "grids_": Sized((2, used)),
        "coordinates_": Sized((n_bits,), np.int32),
        "values_": Sized((n_bits, n_bins(len(Z)))),
        "weights_": Sized((n_bits,)),
        "groups_": Sized((n_bits,), np.int32),
    }


@step(gives=_sizes)
def choose_bits(
    Z: NDArray[np.float32], basis: pca.Principal, sigma: float, n_bits: int, label: str
) -> dict[str, NDArray[Any]]:
    """Learn the eigenfunction and threshold of each bit from rows in principal coordinates."""
    coordinates = Z.astype(np.float64)
    low, high = np.percentile(coordinates, LIMITS, axis=0, method="hazen")
    varying = np.flatnonzero(high - low > 1e-6 * max(float((high - low).max()), np.finfo(float).tiny))
    if not len(varying):
        raise InputError(f"{label} needs rows that differ; nearly all are the same")
    functions = all_eigenfunctions(coordinates, low, high, varying, sigma)
    chosen, thresholds = assign_bits(functions, n_bits)
    used, places = np.unique([f.coordinate for f in chosen], return_inverse=True)
    spacing = (high[used] - low[used]) / n_bins(len(Z))
    return {
        "projection_": basis.directions[:, used].astype(np.float32),
        "limits_": np.stack([low[used], high[used]]).astype(np.float32),
        "grids_": np.stack([low[used] + spacing / 2, spacing]).astype(np.float32),
        "coordinates_": places.astype(np.int32),
        "values_": np.array([f.values - t for f, t in zip(chosen, thresholds, strict=True)], np.float32),
        "weights_": np.array([f.weight for f in chosen], np.float32),
        "groups_": np.unique(thresholds, return_inverse=True)[1].astype(np.int32),
    }


def n_bins(n_rows: int) -> int:
    """Bins of the histogram of a coordinate."""
    return min(max(n_rows // ROWS_PER_BIN, LEAST_BINS), MOST_BINS)


def all_eigenfunctions(
    Z: NDArray[np.float64], low: Vector, high: Vector, varying: NDArray[np.intp], sigma: float
) -> list[Eigenfunction]:
    """The eigenfunctions of every coordinate, largest weight first; weights are relative to the largest."""
    bins = n_bins(len(Z))
    solved = []
    for k in varying:
        counts = np.histogram(Z[:, k].clip(low[k], high[k]), bins, (low[k], high[k]))[0]
        solved.append((int(k), *eigenfunctions(counts / len(Z), float(high[k] - low[k]), sigma)))
    sound = [s for s in solved if s[1].max() >= 0.999]
    if not sound:
        warn(
            f"MDSH: sigma = {sigma:.3g} is narrow for a grid of {bins} bins; more rows or a larger sigma give better "
            "codes"
        )
    found = [
        Eigenfunction(k, 1 - value, function)
        for k, values, functions in sound or solved
        for value, function in zip(values, functions.T, strict=True)
        if value >= 1e-10
    ]
    if not found:
        raise InputError(f"MDSH: sigma = {sigma:.3g} is far below the spacing of the rows; use a larger sigma")
    found.sort(key=lambda f: -f.weight)
    return [Eigenfunction(f.coordinate, f.weight / found[0].weight, f.values) for f in found]
