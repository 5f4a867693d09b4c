"""ISCH — Implicit Sparse Code Hashing (Lin, Ke, Liu, arXiv 1512.00130).

Codes preserve the inner products of sparse codes without computing the sparse codes. Model: x = D c + ε with
c_j ~ Laplace(τ), ε ~ N(0, σ²), η = σ²/τ. The linear map that best preserves ⟨c_i, c_j⟩ in expectation is, up to a
rotation R,

    L* = Rᵀ W,  W = diag(f(λ)) Vᵀ,  f(λ) = √λ / (λ + λ*),  λ* = η / (2τ),

where (λ, V) are the r = min(m, rank) largest eigenpairs of D Dᵀ. There are three steps: dictionary.py learns D,
spectrum.py finds λ and V, rotation.py learns R (r × m) block by block: a rotation, or a tight frame if m exceeds the
rank. Bit i of x is [L*_i (x − μ) ≥ 0]. Unless τ is given, W is learned from what belongs together among neighbours
by the paper's map (belonging.py). ``objective="neighbours"`` takes principal directions and f ≡ 1 (recall.py).
"""

import math
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from isch import fitting
from isch.errors import InputError, ParameterError
from isch.features import Features
from isch.fitting import Run, Sized
from isch.hashing import belonging, blocks, diagnostics, dictionary, neighbours, nested, recall, rotation, spectrum
from isch.hashing.base import LinearHasher
from isch.hashing.blocks import Directions
from isch.hashing.dictionary import Atoms, Tree
from isch.hashing.projecting import Linear, Projector
from isch.hashing.spectrum import Spectrum
from isch.learned import Array, Expected, Optional
from isch.parameters import BITS, POSITIVE, Interval, StrOptions

FLAT_LIMIT = 4096  # up to this dimension the dictionary comes from one flat k-means
FEW_ROWS = 1024  # up to this many rows it does in any dimension: a tree would have too few clusters for long codes
EXACT_LIMIT = 4096  # up to this dimension all eigenpairs are computed
BLOCK_LIMIT = 512  # eigenvectors per rotation, by default
BLOCK_LEAST = 32  # smaller blocks repeat the same few directions
ROTATION_VALUES = 1 << 29  # projected values in memory while the rotation is learned
KMEANS_ITERATIONS = 10


class ISCH(LinearHasher):
    """Implicit Sparse Code Hashing.

    Parameters
    ----------
    n_bits : int
        Bits per code, m: any number.
    objective : {"meaning", "neighbours"}
        What codes are to find: what belongs together, as the paper wants, or the neighbours by 2-norm, from principal
        directions without dictionary and weights. Then ``factors`` gives two numbers per item that estimate 2-norms.
    n_atoms : int, optional
        Size of a flat dictionary; by default twice the number of features. Ignored for a hierarchical one.
    dictionary : {"auto", "flat", "hierarchical"}
        How the dictionary is learned. "auto" is flat up to 4,096 features or 1,024 rows.
    n_branches : int, optional
        k_1, the clusters at the first level of a hierarchical dictionary; by default enough that the dictionary has
        more atoms than there are features.
    n_levels : int
        Levels of a hierarchical dictionary.
    projection_dim : int
        Dimension of the random projections in which a hierarchical dictionary clusters rows.
    min_split : int, optional
        Clusters with fewer rows are not split; by default a cluster needs as many rows as it gets parts.
    spectrum : {"auto", "exact", "columns", "randomized"}
        How eigenpairs are found. "columns" is the paper's column sampling. "auto" is exact up to 4,096 features and
        randomized beyond.
    block_size : int, optional
        Bits per rotation block, ℓ, a divisor of ``n_bits``; by default the largest divisor up to 512, or nearly
        equal blocks where no divisor is large enough. Beyond the rank: as few blocks as 512 eigenvectors each allow.
    tau : float or "auto"
        Scale τ of the Laplace prior, for the paper's map with λ* = η / (2τ). "auto" goes on from there: with λ* at the
        level of the spectrum the map finds neighbours in a sample of 10,000 rows, and a second map is learned from
        what belongs together among them, without labels (``isch.hashing.belonging``).
    eta : float
        Sparseness weight η of the lasso.
    n_iter : int
        Iterations of the rotation.
    max_samples : int
        Rows to learn from, drawn at random when there are more. The mean always uses all rows.
    nested : bool
        Whether the first 64, 128, 256, … bits are to be good codes too: ``prefix(64)`` is then a hasher of its own.
    keep_dictionary : bool
        Whether ``save`` also writes the dictionary.
    random_state : int, RandomState or None
        Seed of the random choices.
    """

    name = "isch"
    revision = 4  # a map of what belongs together
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [BITS],
        "objective": [StrOptions({"meaning", "neighbours"})],
        "n_atoms": [POSITIVE, None],
        "dictionary": [StrOptions({"auto", "flat", "hierarchical"})],
        "n_branches": [POSITIVE, None],
        "n_levels": [POSITIVE],
        "projection_dim": [POSITIVE],
        "min_split": [POSITIVE, None],
        "spectrum": [StrOptions({"auto", "exact", "columns", "randomized"})],
        "block_size": [POSITIVE, None],
        "tau": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "eta": [Interval(Real, 0, None, closed="neither")],
        "n_iter": [POSITIVE],
        "max_samples": [Interval(Integral, 2, None, closed="left")],
        "nested": ["boolean"],
        "keep_dictionary": ["boolean"],
        "random_state": ["random_state"],
    }

    _learns: ClassVar[Expected] = {
        "dictionary_": Optional(Array("float32", "atoms", "d")),
        "dictionary_kind_": str,
        "n_atoms_asked_": int,
        "n_atoms_": int,
        "spectrum_kind_": str,
        "spectrum_share_": float,
        "eigenvalues_": Array("float64", "r"),
        "rank_": Optional(int),
        "lambda_star_": Optional(float),
        "tau_": Optional(float),
        "n_neighbours_": Optional(int),
        "unit_": Optional(float),
        "thresholds_": Optional(Array("float32", "m")),
        "block_size_": int,
        "block_overlap_": float,
        "quantization_errors_": list,
        "bit_balance_": Array("float32", "m"),
        "bit_correlation_": float,
    }

    lambda_star_: float | None  # None where no direction is weighted
    tau_: float | None
    n_neighbours_: int | None  # by which the map was learned; None for the paper's own map
    unit_: float | None  # the length in which factors are given
    thresholds_: NDArray[np.float32]  # of the bits; only where they are not all zero (levels.py)

    def __init__(
        self,
        n_bits: int = 128,
        *,
        objective: Literal["meaning", "neighbours"] = "meaning",
        n_atoms: int | None = None,
        dictionary: Literal["auto", "flat", "hierarchical"] = "auto",
        n_branches: int | None = None,
        n_levels: int = 2,
        projection_dim: int = 256,
        min_split: int | None = None,
        spectrum: Literal["auto", "exact", "columns", "randomized"] = "auto",
        block_size: int | None = None,
        tau: float | Literal["auto"] = "auto",
        eta: float = 0.05,
        n_iter: int = 50,
        max_samples: int = 100_000,
        nested: bool = False,
        keep_dictionary: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.n_bits = n_bits
        self.objective = objective
        self.n_atoms = n_atoms
        self.dictionary = dictionary
        self.n_branches = n_branches
        self.n_levels = n_levels
        self.projection_dim = projection_dim
        self.min_split = min_split
        self.spectrum = spectrum
        self.block_size = block_size
        self.tau = tau
        self.eta = eta
        self.n_iter = n_iter
        self.max_samples = max_samples
        self.nested = nested
        self.keep_dictionary = keep_dictionary
        self.random_state = random_state

    def factors(self, X: Any) -> NDArray[np.float16]:
        """Two numbers per row that estimate 2-norms (``isch.nearest_estimated``), with ``objective="neighbours"``.

        Parameters
        ----------
        X : array, sparse matrix, Dask array, path or Features
            As for ``transform``.

        Returns
        -------
        ndarray of float16, (n, 2)
            The squared distance from the mean, and the correction of the product with the code.
        """
        return recall.factors(self, X)

    def _check_size(self, features: Features) -> None:
        super()._check_size(features)
        if self.nested and self.objective == "neighbours":
            raise ParameterError("objective='neighbours' needs all of its bits; expected nested=False")
        if self.nested and self.block_size:
            raise ParameterError(f"nested=True learns one rotation without blocks; got block_size = {self.block_size}")
        if self.n_bits % (self.block_size or 1):
            raise ParameterError(f"block_size must divide n_bits = {self.n_bits}; got {self.block_size}")

    def _fit(self, features: Features, run: Run) -> dict[str, Any]:
        if self.objective == "neighbours":
            return self._fit_neighbours(features, run)
        mean = run(fitting.mean, features)
        sample = run(fitting.draw, features, self.max_samples)
        known = self._learn_dictionary(run, sample, mean)
        learn = nested.learn if self.nested else rotation.learn
        found, more = self._weighed(run, sample, mean, known["dictionary_"])
        return {"mean_": mean, **known, **more, **self._rotate(run, found, sample, mean, learn)}

    def _fit_neighbours(self, features: Features, run: Run) -> dict[str, Any]:
        """The same with principal directions and f ≡ 1."""
        mean, pairs, learn = recall.principal_pairs(run, features, self.n_bits)
        sample = run(fitting.draw, features, self.max_samples)
        pairs = run(spectrum.dealt, pairs, self._n_blocks(len(pairs.eigenvalues)))
        return {
            "mean_": mean,
            "dictionary_kind_": "none",
            "n_atoms_asked_": 0,
            "n_atoms_": 0,
            "spectrum_kind_": "principal",
            "lambda_star_": None,
            "tau_": None,
            "n_neighbours_": None,
            **_described(run, pairs),
            **self._rotate(run, Directions(pairs.eigenvectors, pairs.blocks), sample, mean, learn),
        }

    def _dictionary_kind(self, shape: tuple[int, int]) -> str:
        """Of a sample of this shape."""
        auto = "flat" if shape[1] <= FLAT_LIMIT or shape[0] <= FEW_ROWS else "hierarchical"
        return auto if self.dictionary == "auto" else self.dictionary

    def _tree(self, shape: tuple[int, int]) -> Tree:
        """The hierarchical dictionary of a sample of this shape."""
        branches = self.n_branches or dictionary.branches_for(shape[1], shape[0], self.n_levels)
        return Tree(branches, self.n_levels, self.projection_dim, self.min_split)

    def _spectrum_kind(self, shape: tuple[int, int]) -> str:
        """Of a dictionary of this shape."""
        auto = "exact" if min(shape) <= EXACT_LIMIT else "randomized"
        return auto if self.spectrum == "auto" else self.spectrum

    def _n_pairs(self) -> int:
        """Eigenpairs that are wanted: as many as bits, and at least those in which neighbours are looked for."""
        further = self.tau == "auto" and self.spectrum != "columns"
        return max(self.n_bits, belonging.WIDTH) if further else self.n_bits

    def _n_blocks(self, n_pairs: int) -> int:
        """Q, from the block size ℓ: m = Q ℓ, or as few blocks as may be where nothing divides evenly."""
        if self.nested:
            return 1
        if self.block_size:
            return min(self.n_bits // self.block_size, n_pairs)
        size = max(s for s in range(1, BLOCK_LIMIT + 1) if n_pairs % s == 0)
        uneven = n_pairs < self.n_bits or size < min(n_pairs, BLOCK_LEAST)
        return math.ceil(n_pairs / (BLOCK_LIMIT if uneven else size))

    def _learn_dictionary(self, run: Run, sample: Features, mean: NDArray[np.float64]) -> dict[str, Any]:
        """D, with a warning when it is not overcomplete."""
        n, d = sample.shape
        kind = self._dictionary_kind((n, d))
        if kind == "flat":
            asked = self.n_atoms or 2 * d
            atoms = run(dictionary.learn_flat, sample, mean, min(asked, n), KMEANS_ITERATIONS)
        else:
            tree = self._tree((n, d))
            asked = dictionary.tree_size(tree.n_branches, tree.n_levels)
            atoms = run(dictionary.hierarchical, sample, mean, tree, KMEANS_ITERATIONS)
        run(dictionary.check, atoms, asked, sample)
        return {
            "dictionary_": atoms,
            "dictionary_kind_": kind,
            "n_atoms_asked_": asked,
            "n_atoms_": len(atoms),
        }

    def _decompose(self, run: Run, atoms: Atoms, kind: str) -> Spectrum:
        """The eigenpairs that are wanted; sampled ones as many as bits."""
        if kind == "columns":
            return run(spectrum.columns, atoms, self.n_bits, self._n_blocks(min(self.n_bits, *atoms.shape)))
        return run(spectrum.exact if kind == "exact" else spectrum.randomized, atoms, self._n_pairs())

    def _weighed(
        self, run: Run, sample: Features, mean: NDArray[np.float64], atoms: Atoms
    ) -> tuple[Directions, dict[str, Any]]:
        """W of the paper, or learned; with λ* and τ, given or those of the paper's map that finds neighbours."""
        kind = self._spectrum_kind(atoms.shape)
        pairs = self._decompose(run, atoms, kind)
        sampled = kind == "columns"
        n_blocks = len(pairs.sizes) if sampled else self._n_blocks(min(self.n_bits, len(pairs.eigenvalues)))
        lambda_star = pairs.level if self.tau == "auto" else self.eta / (2 * self.tau)
        known = {"spectrum_kind_": kind, "lambda_star_": lambda_star, "tau_": self.eta / (2 * lambda_star)}
        if self.tau != "auto":
            pairs = pairs if sampled else run(spectrum.dealt, pairs, n_blocks)
            known |= {"n_neighbours_": None, **_described(run, pairs)}
            return Directions(run(spectrum.weigh, pairs, lambda_star), pairs.blocks), known
        pairs = belonging.grouped(run, pairs)
        rows = run(fitting.draw, sample, belonging.SAMPLE_ROWS)
        n_neighbours = neighbours.count(len(rows)) if len(rows) >= belonging.LEAST_ROWS else None
        known |= {"n_neighbours_": n_neighbours, **_described(run, pairs)}
        with run.holding(pairs.eigenvectors):
            Z = run(blocks.unit_scaled, run(blocks.project, rows, mean, pairs.eigenvectors))
            return belonging.directions(run, Z, pairs, self.n_bits, n_blocks), known

    def _rotate(
        self, run: Run, found: Directions, sample: Features, mean: NDArray[np.float64], learn: blocks.Learn
    ) -> dict[str, Any]:
        """L = W R block by block, and what the codes look like."""
        rows = run(fitting.draw, sample, max(2, ROTATION_VALUES // self.n_bits))
        with run.holding(found.W, Sized((len(found.W), self.n_bits))):
            Z = run(blocks.project, rows, mean, found.W)
            Z, W, scale = run(blocks.unit_mean_square, Z, found.W, self.n_bits)
            turned = blocks.learn(run, Directions(W, found.blocks), Z, learn, self.n_iter, self.n_bits)
        known = {
            "unit_": math.sqrt(self.n_bits) / scale if self.objective == "neighbours" else None,
            "projection_": turned.projection,
            "quantization_errors_": turned.errors,
            "block_size_": turned.block_size,
            "bit_balance_": turned.balance,
            "bit_correlation_": turned.correlation,
        }
        return known if turned.thresholds is None else known | {"thresholds_": turned.thresholds}

    def _projector(self) -> Projector:
        return Linear(self.mean_, self.projection_, getattr(self, "thresholds_", None))

    def _learned(self) -> dict[str, Any]:
        learned = super()._learned()
        if not self.keep_dictionary:
            learned.pop("dictionary_", None)
        return learned

    def _check_learned(self, attributes: dict[str, Any]) -> dict[str, Any]:
        needed = ("unit_",) if self.objective == "neighbours" else ("lambda_star_", "tau_")
        for name in needed:
            if attributes.get(name) is None:
                raise InputError(f"{name} is missing")
        return super()._check_learned(attributes)


def _described(run: Run, pairs: Spectrum) -> dict[str, Any]:
    """What is known of eigenpairs."""
    return {
        "eigenvalues_": pairs.eigenvalues,
        "rank_": pairs.rank,
        "spectrum_share_": pairs.share,
        "block_overlap_": run(diagnostics.block_overlap, pairs.eigenvectors, pairs.blocks),
    }
