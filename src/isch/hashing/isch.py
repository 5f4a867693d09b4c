"""ISCH — Implicit Sparse Code Hashing (Lin, Ke, Liu, arXiv 1512.00130): the paper, in the order of its section 3.

Codes preserve the inner products of sparse codes without computing the sparse codes. The model is x = D c + ε with
c_j ~ Laplace(τ), ε ~ N(0, σ²) and η = σ²/τ. The linear map that best preserves ⟨c_i, c_j⟩ in expectation is

    L* = Rᵀ diag(f(λ)) Vᵀ = Rᵀ W,        D Dᵀ = V diag(λ) Vᵀ,                      (L)
    f(λ) = √(4τ⁴λ / (σ⁴ + 4τ²σ²λ + 4τ⁴λ²)) = √λ / (λ + λ*),   λ* = σ²/2τ² = η/2τ,   (f)

up to a factor that signs ignore; the denominator is a square. (λ, V) are the m largest eigenpairs, and R is the
rotation with the smallest quantisation error. Bit i of x is [L*_i (x − μ) ≥ 0].

Rows of arrays are items here, so the code has the transposes: X (n, d), atoms = Dᵀ (k, d), W (d, m), L (d, m).
"""

from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from isch import fitting
from isch.features import Features
from isch.fitting import Run, step
from isch.hashing import blocks, dictionary, rotation, spectrum
from isch.hashing.base import LinearHasher
from isch.hashing.blocks import Directions
from isch.hashing.spectrum import Spectrum, Vector
from isch.learned import Array, Expected, Optional
from isch.parameters import BITS, POSITIVE, Interval, StrOptions


class ISCH(LinearHasher):
    """Implicit Sparse Code Hashing, as in the paper.

    Take it to follow the paper. To find the same kind of thing, ``DiffusionHash`` finds more; to find the nearest
    vectors, take ``DistanceHash``.

    Parameters
    ----------
    n_bits : int
        Bits per code, m: any number. Beyond the rank of D, R is a tight frame: a matrix with orthonormal rows.
    n_atoms : int, optional
        k, the size of a flat dictionary; by default twice the number of features. Ignored for a hierarchical one.
    dictionary : {"auto", "flat", "hierarchical"}
        How the dictionary is learned. "auto" is flat up to 4,096 features or 1,024 rows.
    n_branches : int, optional
        k_1, the clusters at the first level of a hierarchical dictionary; by default enough that the dictionary has
        more atoms than there are features. Each level splits into twice as many parts as the one above.
    n_levels : int
        H, the levels of a hierarchical dictionary.
    projection_dim : int
        d_ℓ, the dimension of the random projections in which a hierarchical dictionary clusters rows.
    min_split : int, optional
        Clusters with fewer rows are not split; by default a cluster needs as many rows as it gets parts.
    spectrum : {"auto", "exact", "columns", "randomized"}
        How eigenpairs are found. "columns" is the paper's column sampling; "randomized", not in the paper, is nearly
        exact. "auto" is exact up to 4,096 features and column sampling beyond.
    block_size : int, optional
        ℓ, the bits per rotation block, a divisor of ``n_bits``; by default the largest divisor up to 512, or nearly
        equal blocks where no divisor is large enough. Beyond the rank: as few blocks as 512 eigenvectors each allow.
    tau : float or "auto"
        τ, the scale of the Laplace prior. The paper has 0.001 to 0.12, by dataset. "auto", not in the paper, takes the
        λ* that lies at the level of the spectrum (``isch.hashing.spectrum.entropy_level``).
    eta : float
        η, the sparseness weight of the lasso.
    n_iter : int
        Iterations of the rotation.
    max_samples : int
        Rows to learn from, drawn at random when there are more. The mean always uses all rows.
    keep_dictionary : bool
        Whether ``save`` also writes the dictionary.
    random_state : int, RandomState or None
        Seed of the random choices.
    """

    name = "isch"
    revision = 4
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [BITS],
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
        "lambda_star_": float,
        "tau_": float,
        **blocks.LEARNS,
    }
    dictionary_: NDArray[np.float32]
    dictionary_kind_: str
    n_atoms_asked_: int
    n_atoms_: int
    spectrum_kind_: str
    spectrum_share_: float  # of Σλ in one block (columns) or in all of them
    eigenvalues_: Vector
    rank_: int | None  # of D, where the whole spectrum is known
    lambda_star_: float
    tau_: float

    def __init__(
        self,
        n_bits: int = 128,
        *,
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
        keep_dictionary: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.n_bits = n_bits
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
        self.keep_dictionary = keep_dictionary
        self.random_state = random_state

    def _fit(self, X: Features, run: Run) -> dict[str, Any]:
        mean = run(fitting.mean, X)  # μ
        sample = run(fitting.draw, X, self.max_samples)

        # the dictionary: x ≈ D c, with atoms of unit length
        D = dictionary.learn(run, sample, mean, self._form(sample.shape))

        # section 3.2: D Dᵀ = V diag(λ) Vᵀ, in Q blocks
        kind = spectrum.kind_of(self.spectrum, D.atoms.shape, large="columns")
        Q = blocks.count(self.n_bits, min(self.n_bits, *D.atoms.shape), self.block_size)
        pairs = spectrum.solve(run, D.atoms, kind, self.n_bits, Q)
        if kind != "columns":
            Q = blocks.count(self.n_bits, len(pairs.eigenvalues), self.block_size)
            pairs = run(spectrum.interleaved, pairs, Q)
        known = spectrum.described(run, pairs)

        # section 3.1: W = diag(f(λ)) Vᵀ
        lambda_star = pairs.level if self.tau == "auto" else self.eta / (2 * self.tau)  # λ* = σ²/2τ² = η/2τ
        W = Directions(run(weighed, pairs, lambda_star), pairs.blocks)

        # section 3.3: L = Rᵀ W, with R = diag(R_1, …, R_Q) of the smallest quantisation error
        rotated = blocks.rotate(run, W, sample, mean, rotation.learn, self.n_iter, self.n_bits)
        return {
            "mean_": mean,
            **D.learned(),
            "spectrum_kind_": kind,
            **known,
            "lambda_star_": lambda_star,
            "tau_": self.eta / (2 * lambda_star),
            **rotated.learned(),
        }

    def _form(self, shape: tuple[int, int]) -> dictionary.Form:
        """The dictionary for a sample of this shape."""
        if dictionary.kind_of(self.dictionary, shape) == "flat":
            return dictionary.Flat(self.n_atoms or 2 * shape[1])
        branches = self.n_branches or dictionary.branches_for(shape[1], shape[0], self.n_levels)
        return dictionary.Tree(branches, self.n_levels, self.projection_dim, self.min_split)

    def _check_size(self, features: Features) -> None:
        super()._check_size(features)
        blocks.check_size(self.n_bits, self.block_size)

    def _learned(self) -> dict[str, Any]:
        learned = super()._learned()
        if not self.keep_dictionary:
            learned.pop("dictionary_", None)
        return learned


def f(eigenvalues: Vector, lambda_star: float) -> Vector:
    """Return f(λ) = √λ / (λ + λ*): the paper's equation (f), with λ* = σ²/2τ² = η/2τ."""
    return np.asarray(np.sqrt(eigenvalues) / (eigenvalues + lambda_star))


@step(gives=lambda pairs, lambda_star: pairs.eigenvectors)
def weighed(pairs: Spectrum, lambda_star: float) -> NDArray[np.float32]:
    """Return W = V diag(f(λ)), in place of V: nobody needs V any more, and there may be no room for both."""
    W = pairs.eigenvectors
    W *= f(pairs.eigenvalues, lambda_star).astype(np.float32)
    return W
