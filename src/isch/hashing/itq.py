"""ITQ (Gong, Lazebnik 2011, *Iterative quantization: a Procrustean approach to learning binary codes*).

PCA to m dimensions, then the rotation R that brings the data V nearest to the corners of a cube. Learning alternates
between B = sign(V R) and R = argmin ‖B − V R‖ over rotations.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isch import compute
from isch.features import Features
from isch.hashing import pca, rotation
from isch.hashing.base import LinearHasher
from isch.learned import Array, Expected
from isch.parameters import POSITIVE


class ITQ(LinearHasher):
    """PCA followed by a learned rotation.

    Parameters
    ----------
    n_bits : int
        Bits per code, at most the number of features.
    n_iter : int
        Rounds of learning the rotation.
    max_samples : int
        Rows to learn the rotation from, drawn at random when there are more. The principal directions use all rows.
    random_state : int, RandomState or None
        Seed of the first rotation and of the drawn rows.
    """

    name = "itq"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [POSITIVE],
        "n_iter": [POSITIVE],
        "max_samples": [POSITIVE],
        "random_state": ["random_state"],
    }
    _learns: ClassVar[Expected] = {"errors_": Array("float64", "rounds")}
    errors_: NDArray[np.float64]  # mean square of B − V R before each round

    def __init__(self, n_bits: int = 128, n_iter: int = 50, max_samples: int = 100_000, random_state: Any = 0) -> None:
        self.n_bits = n_bits
        self.n_iter = n_iter
        self.max_samples = max_samples
        self.random_state = random_state

    def _fit(self, features: Features) -> None:
        pca.check_limit(self._label, self.n_bits, features.shape[1])
        rng = self._rng()
        basis = pca.principal(features, self.n_bits, rng)
        pca.warn_rank(self._label, basis)
        rows = compute.sample(features, self.max_samples, rng)
        learned = rotation.learn(pca.project_rows(features, rows, basis), self.n_iter, rng)
        self.mean_ = basis.mean
        self.projection_ = (basis.directions @ learned.matrix).astype(np.float32)
        self.errors_ = np.asarray(learned.errors, np.float64)
