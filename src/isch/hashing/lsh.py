"""Random hyperplanes (Charikar 2002, *Similarity estimation techniques from rounding algorithms*).

Each bit says on which side of a random hyperplane through the mean a vector lies. Two vectors differ in a bit with
probability angle / π.
"""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from isch import compute
from isch.features import Features
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

    def _work(self, size: compute.Size) -> list[compute.Stage]:
        return [replace(compute.mean_work(size), memory=self._model_bytes(size))]

    def _fit(self, features: Features) -> None:
        self.mean_ = compute.mean(features)
        self.projection_ = self._rng().standard_normal((features.shape[1], self.n_bits), dtype=np.float32)
