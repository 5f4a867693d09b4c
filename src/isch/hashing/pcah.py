"""Signs of principal components: as they are (PCAH), and after a random rotation (PCA-RR).

Principal component hashing: Wang, Kumar, Chang 2010, *Semi-supervised hashing for scalable image retrieval*.
Random rotation, which evens out the variance of the bits: Jégou, Douze, Schmid, Pérez 2010, *Aggregating local
descriptors into a compact image representation*.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isch.features import Features
from isch.fitting import Run
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

    def _fit(self, features: Features, run: Run) -> dict[str, Any]:
        basis = pca.principal(run, features, self.n_bits)
        run(pca.warn_rank, self._label, basis, self.n_bits)
        return {
            "mean_": basis.mean,
            "variances_": basis.variances,
            "projection_": run(pca.single, basis),
        }


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

    def _fit(self, features: Features, run: Run) -> dict[str, Any]:
        basis = pca.spanning(run, features, self.n_bits)
        R = run(rotation.random, len(basis.variances), columns=self.n_bits)
        return {
            "mean_": basis.mean,
            "variances_": basis.variances,
            "projection_": run(rotation.turned, basis.directions, R),
        }
