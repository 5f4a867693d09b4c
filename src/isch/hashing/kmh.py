"""K-means hashing (He, Wen, Sun 2013, *K-means hashing: an affinity-preserving quantization method*).

Each subspace is quantised by 2ᵇ centres; the bits of the nearest centre's index are the code. The centres minimise
the quantisation error plus λ times the affinity error: the squared difference between the distance of two centres and
2 s √h, where h is the Hamming distance of their indices.
"""

import math
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch import compute, fitting, progress
from isch.errors import InputError
from isch.features import Block, Features
from isch.fitting import Run, Size, Sized, Stage, step
from isch.hashing import pca
from isch.hashing.base import LinearHasher
from isch.hashing.projecting import Projector
from isch.learned import Array, Expected
from isch.parameters import BITS, POSITIVE, Interval

MOST_BITS = 12  # per subspace: 4,096 centres
INNER_STEPS = 10  # majorisation steps of one centre in one round
TOLERANCE = 1e-5  # learning stops when the energy falls by a smaller share of itself

Matrix = NDArray[np.float32]
Doubles = NDArray[np.float64]


class KMH(LinearHasher):
    """Affinity-preserving k-means in a product of subspaces.

    Parameters
    ----------
    n_bits : int
        Bits per code, at most the number of features.
    bits_per_subspace : int, optional
        b; by default 2 for up to 32 bits, else 4. If b does not divide ``n_bits``, the last subspace gets the rest.
    affinity_weight : float
        λ, the weight of the affinity error beside the quantisation error.
    n_iter : int
        The largest number of rounds; learning stops earlier when the energy hardly changes.
    max_samples : int
        Rows to learn the centres from, drawn at random when there are more.
    random_state : int, RandomState or None
        Seed of the random choices.
    """

    name = "kmh"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [BITS],
        "bits_per_subspace": [Interval(Integral, 1, MOST_BITS, closed="both"), None],
        "affinity_weight": [Interval(Real, 0, None, closed="left")],
        "n_iter": [POSITIVE],
        "max_samples": [POSITIVE],
        "random_state": ["random_state"],
    }
    _learns: ClassVar[Expected] = {
        "projection_": Array("float32", "d", "s"),  # s = Σ widths
        "bits_": list,
        "widths_": list,
        "centres_": Array("float32", "values"),
        "errors_": Array("float64", "n_iter"),
    }
    projection_: Matrix  # principal directions, grouped by subspace
    bits_: list[int]  # of each subspace
    widths_: list[int]  # number of directions of each subspace
    centres_: NDArray[np.float32]  # of all subspaces, row by row, one after the other
    errors_: NDArray[np.float64]  # energy after each round, summed over the subspaces

    def __init__(
        self,
        n_bits: int = 128,
        bits_per_subspace: int | None = None,
        affinity_weight: float = 10.0,
        n_iter: int = 50,
        max_samples: int = 50_000,
        random_state: Any = 0,
    ) -> None:
        self.n_bits = n_bits
        self.bits_per_subspace = bits_per_subspace
        self.affinity_weight = affinity_weight
        self.n_iter = n_iter
        self.max_samples = max_samples
        self.random_state = random_state

    def _check_size(self, features: Features) -> None:
        super()._check_size(features)
        pca.check_limit(self._label, self.n_bits, features.shape[1])

    def _encoding_work(self, size: Size) -> Stage:
        used = self._n_directions(size.columns)
        bits = self._bits()
        centres = _values(bits, [used * b // self.n_bits for b in bits])
        products = 2.0 * size.rows * (size.columns * used + centres)
        return Stage("encoding", products, read=size.bytes())

    def _n_directions(self, d: int) -> int:
        """Principal directions that are used."""
        return min(d, max(pca.EXACT_LIMIT, self.n_bits))

    def _bits(self) -> list[int]:
        """Of each subspace."""
        return split_bits(self.n_bits, self.bits_per_subspace or (2 if self.n_bits <= 32 else 4))

    def _fit(self, features: Features, run: Run) -> dict[str, Any]:
        used = self._n_directions(features.shape[1])
        bits = self._bits()
        widths = [used * b // self.n_bits for b in bits]
        basis = pca.principal(run, features, used)
        run(pca.warn_rank, self._label, basis, self.n_bits)
        arranged = run(arrange, basis, widths)
        Z = run(pca.project, run(fitting.draw, features, self.max_samples), arranged)
        centres, errors = run(learn_all, Z, bits, widths, self.affinity_weight, self.n_iter)
        return {
            "mean_": basis.mean,
            "projection_": run(pca.single, arranged),
            "bits_": bits,
            "widths_": widths,
            "centres_": centres,
            "errors_": errors,
        }

    def _check_learned(self, attributes: dict[str, Any]) -> dict[str, Any]:
        sizes = super()._check_learned(attributes)
        bits, widths = attributes["bits_"], attributes["widths_"]
        if not (all_within(bits, MOST_BITS) and all_within(widths, sizes["s"]) and len(bits) == len(widths)):
            raise InputError(f"bits_ and widths_ must be positive numbers for each subspace; got {bits} and {widths}")
        if (sum(bits), sum(widths)) != (self.n_bits, sizes["s"]):
            raise InputError(f"bits_ and widths_ must add up to {self.n_bits} and {sizes['s']}; got {bits}, {widths}")
        wanted = sum(width << b for width, b in zip(widths, bits, strict=True))
        if sizes["values"] != wanted:
            raise InputError(f"centres_ must hold {wanted} values; got {sizes['values']}")
        return sizes

    def _projector(self) -> Projector:
        return Margins(super()._projector(), self.bits_, self.widths_, self.centres_)


@dataclass(frozen=True)
class Margins:
    """The margins of all subspaces, side by side; the fields are the learned attributes of ``KMH``."""

    linear: Projector
    bits: list[int]
    widths: list[int]
    centres: NDArray[np.float32]

    def __call__(self, block: Block) -> NDArray[np.floating[Any]]:
        columns, start = [], 0
        for bits, part in zip(self.bits, parts(self.linear(block), self.widths), strict=True):
            stop = start + (part.shape[1] << bits)
            columns.append(margins(part, self.centres[start:stop].reshape(1 << bits, -1), bits))
            start = stop
        return np.concatenate(columns, axis=1)


def all_within(numbers: list[Any], most: int) -> bool:
    """Whether all values are integers from 1 to ``most``."""
    return all(isinstance(number, int) and 1 <= number <= most for number in numbers)


def parts(Z: NDArray[Any], widths: list[int]) -> list[NDArray[Any]]:
    """The columns of each subspace."""
    return np.split(Z, np.cumsum(widths)[:-1], axis=1)


def margins(Z: NDArray[Any], centres: Matrix, bits: int) -> NDArray[np.float32]:
    """For each bit: the smallest squared distance to a centre where it is 0, minus the smallest where it is 1.

    The sign is the bit of the nearest centre.
    """
    squares = np.einsum("ij,ij->i", centres, centres)[:, None] - 2 * (centres @ Z.T)
    cube = squares.reshape(*(2,) * bits, len(Z))
    out = np.empty((len(Z), bits), np.float32)
    for axis in range(bits):
        nearest = cube.min(axis=tuple(a for a in range(bits) if a != axis))
        out[:, axis] = nearest[0] - nearest[1]
    return out


def split_bits(n_bits: int, each: int) -> list[int]:
    """The bits of each subspace: ``each``, and the rest in the last."""
    whole, rest = divmod(n_bits, int(each))
    return [int(each)] * whole + [rest] * (rest > 0)


def allocate(variances: NDArray[np.float64], widths: list[int]) -> NDArray[np.int64]:
    """Assign principal directions to subspaces so that the products of their variances are about equal.

    The next direction goes to the subspace with room whose sum of (shifted) log variances is smallest.
    """
    logs = np.log(variances + 1e-20)
    logs = logs - logs.min() + 1
    members: list[list[int]] = [[] for _ in widths]
    sums = np.zeros(len(widths))
    for direction in range(sum(widths)):
        room = [len(m) < w for m, w in zip(members, widths, strict=True)]
        chosen = int(np.where(room, sums, np.inf).argmin())
        members[chosen].append(direction)
        sums[chosen] += logs[direction]
    return np.concatenate([np.array(m, np.int64) for m in members])


@step(gives=lambda basis, widths: basis)
def arrange(basis: pca.Principal, widths: list[int]) -> pca.Principal:
    """Order the principal directions by subspace."""
    order = allocate(basis.variances, widths)
    return pca.Principal(basis.mean, basis.directions[:, order], basis.variances[order])


def _values(bits: list[int], widths: list[int]) -> int:
    """The number of values of all centres."""
    return sum(width << b for width, b in zip(widths, bits, strict=True))


def _cost(Z: Matrix, bits: list[int], widths: list[int], weight: float, n_iter: int) -> Stage:
    return Stage(products=2.0 * n_iter * len(Z) * _values(bits, widths), memory=4 * len(Z) * Z.shape[1])


@step(
    "centres",
    cost=_cost,
    gives=lambda Z, bits, widths, weight, n_iter: (Sized((_values(bits, widths),)), Sized((n_iter,), np.float64)),
)
def learn_all(
    Z: Matrix, bits: list[int], widths: list[int], weight: float, n_iter: int
) -> tuple[NDArray[np.float32], Doubles]:
    """Learn the centres of all subspaces: (their values one after the other, energy after each round)."""
    centres = []
    errors = np.zeros(n_iter)
    one = partial(_learn_subspace, weight=weight, n_iter=n_iter)
    with progress.task("", len(bits), "subspaces") as advance:
        for learned, energies in compute.parallel(one, zip(bits, parts(Z, widths), strict=True)):
            centres.append(learned.ravel())
            errors += energies
            advance(1)
    return np.concatenate(centres).astype(np.float32), errors


def _learn_subspace(subspace: tuple[int, NDArray[Any]], weight: float, n_iter: int) -> tuple[Doubles, Doubles]:
    bits, columns = subspace
    return learn(np.ascontiguousarray(columns), bits, weight, n_iter)


def learn(Z: Matrix, bits: int, weight: float, n_iter: int) -> tuple[Doubles, Doubles]:
    """(centres (2ᵇ, width), energy after each round) of one subspace whose columns are uncorrelated."""
    corners = index_signs(bits)
    side = float(np.abs(Z[:, :bits]).mean())
    centres = np.zeros((1 << bits, Z.shape[1]))
    centres[:, :bits] = corners * side
    wanted = 2 * side * np.sqrt((bits - corners @ corners.T) / 2)
    squares = float(np.einsum("ij,ij->", Z, Z, dtype=np.float64))
    energies = np.empty(n_iter)
    for round_ in range(n_iter):
        averages, shares = averaged(Z, centres)
        centres = update_centres(centres, averages, shares, wanted, weight)
        energies[round_:] = energy(centres, averages, shares, wanted, weight) + squares / len(Z)
        if round_ and energies[round_ - 1] - energies[round_] < TOLERANCE * energies[round_]:
            break
    return centres, energies


def index_signs(bits: int) -> Doubles:
    """The bits of 0 … 2ᵇ − 1 as ±1, most significant first, (2ᵇ, b)."""
    return np.array([[1.0 if i >> (bits - 1 - b) & 1 else -1.0 for b in range(bits)] for i in range(1 << bits)])


@njit(cache=True, nogil=True, fastmath={"contract", "nsz", "reassoc"})  # type: ignore[untyped-decorator]
def averaged(Z: Matrix, centres: Doubles) -> tuple[Doubles, Doubles]:
    """(mean of the rows nearest to each centre, or the centre itself if there are none; share of the rows).

    With so few centres this is faster than the matrix products of ``isch.kmeans``.
    """
    n, width = Z.shape
    rows = centres.astype(np.float32)
    columns = rows.T.copy()
    start = np.empty(len(centres), np.float32)
    for k in range(len(centres)):
        start[k] = -0.5 * (centres[k] ** 2).sum()
    sums, counts = np.zeros(centres.shape), np.zeros(len(centres))
    scores = np.empty_like(start)
    for i in range(n):
        scores[:] = start
        if width > len(scores):
            for k in range(len(scores)):
                product = np.float32(0)
                for j in range(width):
                    product += Z[i, j] * rows[k, j]
                scores[k] += product
        else:
            for j in range(width):
                for k in range(len(scores)):
                    scores[k] += Z[i, j] * columns[j, k]
        nearest = scores.argmax()
        counts[nearest] += 1
        for j in range(width):
            sums[nearest, j] += Z[i, j]
    for k in range(len(centres)):
        sums[k] = sums[k] / counts[k] if counts[k] else centres[k]
    return sums, counts / n


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def apart(a: Doubles, b: Doubles) -> float:
    """‖a − b‖."""
    total = 0.0
    for j in range(len(a)):
        total += (a[j] - b[j]) ** 2
    return math.sqrt(total)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def update_centres(centres: Doubles, averages: Doubles, shares: Doubles, wanted: Doubles, weight: float) -> Doubles:
    """Lower the energy one centre at a time, with the others fixed; a centre without rows does not move."""
    out = centres.copy()
    for j in range(len(shares)):
        if shares[j]:
            pulls = 2 * weight * shares
            pulls[j] = 0.0
            out[j] = lowered(out[j].copy(), out, averages[j], pulls, wanted[j], INNER_STEPS)
    return out


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def lowered(centre: Doubles, others: Doubles, average: Doubles, pulls: Doubles, wanted: Doubles, steps: int) -> Doubles:
    """A point where ‖c‖² − 2⟨c, average⟩ + Σ_i pulls_i (‖c − c_i‖ − wanted_i)² is lower than at ``centre``.

    Each step minimises a quadratic that touches this energy from above (‖c − c_i‖ is at least its linearisation).
    So the energy never increases, and no step length is needed.
    """
    fixed = average.astype(np.float64)
    for i in range(len(others)):
        fixed += pulls[i] * others[i]
    for _ in range(steps):
        target = fixed.copy()
        for i in range(len(others)):
            length = apart(centre, others[i])
            if length > 0:
                target += pulls[i] * wanted[i] / length * (centre - others[i])
        centre = target / (1 + pulls.sum())
    return centre


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def energy(centres: Doubles, averages: Doubles, shares: Doubles, wanted: Doubles, weight: float) -> float:
    """Quantisation error per row (without the constant mean ‖x‖²) plus λ times the affinity error."""
    total = 0.0
    for i in range(len(centres)):
        total += shares[i] * (centres[i] ** 2 - 2 * centres[i] * averages[i]).sum()
        for j in range(len(centres)):
            total += weight * shares[i] * shares[j] * (apart(centres[i], centres[j]) - wanted[i, j]) ** 2
    return total
