"""ITQ (Gong, Lazebnik 2011, *Iterative quantization: a Procrustean approach to learning binary codes*).

PCA to r = min(m, rank) dimensions, then the rotation R that brings the data V nearest to the corners of a cube.
Learning alternates between B = sign(V R) and R = argmin ‖B − V R‖ over rotations, or for m > r over tight frames
(rotation.py).
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isch import fitting
from isch.features import Features
from isch.fitting import Run
from isch.hashing import nested, pca, rotation
from isch.hashing.base import LinearHasher
from isch.learned import Array, Expected
from isch.parameters import BITS, POSITIVE


class ITQ(LinearHasher):
    """PCA followed by a learned rotation.

    Parameters
    ----------
    n_bits : int
        Bits per code, any number.
    n_iter : int
        Rounds of learning the rotation.
    max_samples : int
        Rows to learn the rotation from, drawn at random when there are more. The principal directions use all rows.
    random_state : int, RandomState or None
        Seed of the first rotation and of the drawn rows.
    nested : bool
        Whether the first 64, 128, 256, … bits are to be good codes too: ``prefix(64)`` is then a hasher of its own.
    """

    name = "itq"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [BITS],
        "n_iter": [POSITIVE],
        "max_samples": [POSITIVE],
        "random_state": ["random_state"],
        "nested": ["boolean"],
    }
    _learns: ClassVar[Expected] = {"errors_": Array("float64", "rounds")}
    errors_: NDArray[np.float64]  # mean square of B − V R before each round

    def __init__(
        self,
        n_bits: int = 128,
        n_iter: int = 50,
        max_samples: int = 100_000,
        random_state: Any = 0,
        nested: bool = False,
    ) -> None:
        self.n_bits = n_bits
        self.n_iter = n_iter
        self.max_samples = max_samples
        self.random_state = random_state
        self.nested = nested

    def _fit(self, features: Features, run: Run) -> dict[str, Any]:
        basis = pca.spanning(run, features, self.n_bits)
        sample = run(fitting.draw, features, self.max_samples)
        V = run(pca.project, sample, basis)
        learn = nested.learn if self.nested else rotation.learn
        found = run(learn, V, self.n_iter, n_bits=self.n_bits)
        return {
            "mean_": basis.mean,
            "projection_": run(rotation.turned, basis.directions, found.matrix),
            "errors_": np.asarray(found.errors, np.float64),
        }
