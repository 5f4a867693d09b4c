"""Signs of principal components: as they are (PCAH), and after a random rotation (PCA-RR).

Principal component hashing: Wang, Kumar, Chang 2010, *Semi-supervised hashing for scalable image retrieval*.
Random rotation, which evens out the variance of the bits: Jégou, Douze, Schmid, Pérez 2010, *Aggregating local
descriptors into a compact image representation*.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isch.compute import Size, Stage
from isch.features import Features
from isch.hashing import pca, rotation
from isch.hashing.base import LinearHasher
from isch.learned import Array, Expected
from isch.parameters import BITS


class PCAH(LinearHasher):
    """The signs of the leading principal components.

    Parameters
    ----------
    n_bits : int
        Bits per code, at most the number of features.
    random_state : int, RandomState or None
        Used only beyond 4,096 features, where principal directions are found by a randomised method.
    """

    name = "pcah"
    _nests = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [BITS],
        "random_state": ["random_state"],
    }
    _learns: ClassVar[Expected] = {"variances_": Array("float64", "m")}
    variances_: NDArray[np.float64]  # of the principal components

    def __init__(self, n_bits: int = 128, random_state: Any = 0) -> None:
        self.n_bits = n_bits
        self.random_state = random_state

    def _check_size(self, features: Features) -> None:
        super()._check_size(features)
        pca.check_limit(self._label, self.n_bits, features.shape[1])

    def _work(self, size: Size) -> list[Stage]:
        return pca.work(size, min(self.n_bits, size.columns))

    def _fit(self, features: Features) -> None:
        basis = pca.principal(features, self.n_bits, self._rng())
        pca.warn_rank(self._label, basis)
        self.mean_, self.variances_ = basis.mean, basis.variances
        self.projection_ = basis.directions.astype(np.float32)


class PCARR(PCAH):
    """The signs of the leading principal components after one random rotation.

    Parameters
    ----------
    n_bits : int
        Bits per code, any number. With more bits than components that vary, the rotation is a random tight frame: a
        matrix with orthonormal rows.
    random_state : int, RandomState or None
        Seed of the rotation.
    """

    name = "pcarr"
    _nests = False
    _learns: ClassVar[Expected] = {"variances_": Array("float64", "r")}

    def _check_size(self, features: Features) -> None:
        LinearHasher._check_size(self, features)

    def _fit(self, features: Features) -> None:
        rng = self._rng()
        basis = pca.spanning(features, self.n_bits, rng)
        self.mean_, self.variances_ = basis.mean, basis.variances
        turned = basis.directions @ rotation.random(len(basis.variances), rng, self.n_bits)
        self.projection_ = turned.astype(np.float32)
