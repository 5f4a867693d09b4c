"""Random hyperplanes (Charikar 2002, *Similarity estimation techniques from rounding algorithms*).

Each bit says on which side of a random hyperplane through the mean a vector lies. Two vectors differ in a bit with
probability angle / π.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isch import fitting
from isch.features import Features
from isch.fitting import Run, Sized, step
from isch.hashing.base import LinearHasher
from isch.parameters import BITS


class LSH(LinearHasher):
    """Locality-sensitive hashing by random hyperplanes. Only the mean is learned.

    Parameters
    ----------
    n_bits : int
        Bits per code.
    random_state : int, RandomState or None
        Seed of the hyperplanes.
    """

    name = "lsh"
    _nests = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [BITS],
        "random_state": ["random_state"],
    }

    def __init__(self, n_bits: int = 128, random_state: Any = 0) -> None:
        self.n_bits = n_bits
        self.random_state = random_state

    def _fit(self, features: Features, run: Run) -> dict[str, Any]:
        return {
            "mean_": run(fitting.mean, features),
            "projection_": run(hyperplanes, features.shape[1], self.n_bits),
        }


@step(gives=lambda d, m: Sized((d, m)), random=True)
def hyperplanes(d: int, m: int, *, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw the normals of m random hyperplanes, (d, m)."""
    return rng.standard_normal((d, m), dtype=np.float32)
