"""How two codes are compared. A hasher declares one of these; the search kernels know how to compute each.

Smaller is always nearer.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Hamming:
    """|a ⊕ b|: the number of bits that differ."""


@dataclass(frozen=True)
class SphericalHamming:
    """|a ⊕ b| / |a ∧ b| (Heo et al. 2012). 0 when both codes are equal; +inf when they share no set bit and differ."""


@dataclass(frozen=True, eq=False)
class WeightedHamming:
    """Σ w_i [a_i ≠ b_i]."""

    weights: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ProductAffinity:
    """−asinh of the affinity of multidimensional spectral hashing (Weiss, Fergus, Torralba 2012).

    Bits are ±1. The affinity of a group of bits is Π_k (1 + Σ_{i of coordinate k} w_i a_i b_i); groups are added up.
    The paper subtracts 1 per group, a constant in which small products would be lost. asinh keeps the order of products
    over hundreds of coordinates within single precision.
    """

    weights: NDArray[np.float32]
    coordinates: NDArray[np.int32]
    groups: NDArray[np.int32]


Distance = Hamming | SphericalHamming | WeightedHamming | ProductAffinity

HAMMING = Hamming()
