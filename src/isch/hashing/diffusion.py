"""Diffusion hashing: the objective of ISCH with a random-walk kernel in place of the inner products of sparse codes.

It stands on the shoulders of others. A linear map that keeps what a graph of neighbours says: locality preserving
projections (He, Niyogi 2003). Random walks of several steps as a measure of what is alike: diffusion maps (Coifman,
Lafon 2006). Codes from a graph of neighbours: anchor graph hashing (Liu, Wang, Kumar, Chang 2011). The objective, and
the map that finds the neighbours, are those of ISCH (isch.py). The kernel is in kernel_map.py.
"""

from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from isch import fitting
from isch.errors import ParameterError
from isch.features import Features
from isch.fitting import Run
from isch.hashing import blocks, dictionary, kernel_map, knn_graph, nested, rotation, spectrum
from isch.hashing.base import LinearHasher
from isch.hashing.spectrum import Vector
from isch.learned import Array, Expected, Optional
from isch.parameters import BITS, POSITIVE, Interval, StrOptions


class DiffusionHash(LinearHasher):
    """Codes of a linear map learned from random walks among neighbours, without labels.

    Take it to find the same kind of thing: items with the same label, pictures of the same object. To find the nearest
    vectors, take ``DistanceHash``.

    Parameters
    ----------
    n_bits : int
        Bits per code, any number.
    n_atoms : int, optional
        Size of a flat dictionary; by default twice the number of features. Ignored for a hierarchical one.
    dictionary : {"auto", "flat", "hierarchical"}
        How the dictionary is learned. "auto" is flat up to 4,096 features or 1,024 rows.
    n_branches : int, optional
        Clusters at the first of the two levels of a hierarchical dictionary; by default enough that the dictionary has
        more atoms than there are features.
    spectrum : {"auto", "exact", "columns", "randomized"}
        How eigenpairs of the dictionary are found. "auto" is exact up to 4,096 features and randomized beyond.
    block_size : int, optional
        Bits per rotation block, a divisor of ``n_bits``; by default the largest divisor up to 512, or nearly equal
        blocks where no divisor is large enough. Beyond the rank: as few blocks as 512 eigenvectors each allow.
    n_iter : int
        Iterations of the rotation.
    max_samples : int
        Rows to learn from, drawn at random when there are more. The mean always uses all rows.
    nested : bool
        Whether the first 64, 128, 256, … bits are to be good codes too: ``prefix(64)`` is then a hasher of its own.
    random_state : int, RandomState or None
        Seed of the random choices.
    """

    name = "diffusion"
    revision = 4  # that of ISCH, whose default it was
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [BITS],
        "n_atoms": [POSITIVE, None],
        "dictionary": [StrOptions({"auto", "flat", "hierarchical"})],
        "n_branches": [POSITIVE, None],
        "spectrum": [StrOptions({"auto", "exact", "columns", "randomized"})],
        "block_size": [POSITIVE, None],
        "n_iter": [POSITIVE],
        "max_samples": [Interval(Integral, 2, None, closed="left")],
        "nested": ["boolean"],
        "random_state": ["random_state"],
    }

    _learns: ClassVar[Expected] = {
        "dictionary_kind_": str,
        "n_atoms_asked_": int,
        "n_atoms_": int,
        "spectrum_kind_": str,
        "spectrum_share_": float,
        "eigenvalues_": Array("float64", "r"),
        "rank_": Optional(int),
        "lambda_star_": float,
        "n_neighbours_": Optional(int),
        **blocks.LEARNS,
    }
    dictionary_kind_: str
    n_atoms_asked_: int
    n_atoms_: int
    spectrum_kind_: str
    spectrum_share_: float
    eigenvalues_: Vector
    rank_: int | None
    lambda_star_: float  # of the map that finds neighbours
    n_neighbours_: int | None  # per row; None where rows were too few
    quantization_errors_: list[list[float]]
    bit_balance_: NDArray[np.float32]

    def __init__(
        self,
        n_bits: int = 128,
        *,
        n_atoms: int | None = None,
        dictionary: Literal["auto", "flat", "hierarchical"] = "auto",
        n_branches: int | None = None,
        spectrum: Literal["auto", "exact", "columns", "randomized"] = "auto",
        block_size: int | None = None,
        n_iter: int = 50,
        max_samples: int = 100_000,
        nested: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_atoms = n_atoms
        self.dictionary = dictionary
        self.n_branches = n_branches
        self.spectrum = spectrum
        self.block_size = block_size
        self.n_iter = n_iter
        self.max_samples = max_samples
        self.nested = nested
        self.random_state = random_state

    def _fit(self, X: Features, run: Run) -> dict[str, Any]:
        mean = run(fitting.mean, X)
        sample = run(fitting.draw, X, self.max_samples)
        D = dictionary.learn(run, sample, mean, self._form(sample.shape))

        # the directions in which neighbours are looked for; sampled columns give as many as bits
        kind = spectrum.kind_of(self.spectrum, D.atoms.shape, large="randomized")
        n_pairs = self.n_bits if kind == "columns" else max(self.n_bits, kernel_map.WIDTH)
        sampled_blocks = self._n_blocks(min(self.n_bits, *D.atoms.shape))
        pairs = spectrum.solve(run, D.atoms, kind, n_pairs, sampled_blocks)
        n_blocks = len(pairs.sizes) if kind == "columns" else self._n_blocks(min(self.n_bits, len(pairs.eigenvalues)))
        pairs = kernel_map.grouped(run, pairs)

        # W, from random walks among neighbours
        rows = run(fitting.draw, sample, kernel_map.SAMPLE_ROWS)
        known = spectrum.described(run, pairs)
        with run.holding(pairs.eigenvectors):
            Z = run(blocks.unit_scaled, run(blocks.project, rows, mean, pairs.eigenvectors))
            W = kernel_map.directions(run, Z, pairs, self.n_bits, n_blocks)

        learn = nested.learn if self.nested else rotation.learn
        rotated = blocks.rotate(run, W, sample, mean, learn, self.n_iter, self.n_bits)
        return {
            "mean_": mean,
            **{name: value for name, value in D.learned().items() if name != "dictionary_"},
            "spectrum_kind_": kind,
            **known,
            "lambda_star_": pairs.level,
            "n_neighbours_": knn_graph.count(len(rows)) if len(rows) >= kernel_map.LEAST_ROWS else None,
            **rotated.learned(),
        }

    def _form(self, shape: tuple[int, int]) -> dictionary.Form:
        """The dictionary for a sample of this shape."""
        if dictionary.kind_of(self.dictionary, shape) == "flat":
            return dictionary.Flat(self.n_atoms or 2 * shape[1])
        return dictionary.Tree(self.n_branches or dictionary.branches_for(shape[1], shape[0], n_levels=2))

    def _n_blocks(self, n_pairs: int) -> int:
        return 1 if self.nested else blocks.count(self.n_bits, n_pairs, self.block_size)

    def _check_size(self, features: Features) -> None:
        super()._check_size(features)
        if self.nested and self.block_size:
            raise ParameterError(f"nested=True learns one rotation without blocks; got block_size = {self.block_size}")
        blocks.check_size(self.n_bits, self.block_size)
