"""What each bit, and hence each half-byte, of a code adds to a distance that is a sum over bits."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_PATTERNS = (np.arange(16)[:, None] >> np.arange(3, -1, -1) & 1).astype(np.float32)


def costs(projections: Floats) -> tuple[Floats, Floats]:
    """What each bit adds to the asymmetric distance when it is 0 and when it is 1: |z_i| where the sign differs."""
    return np.maximum(projections, 0), np.maximum(-projections, 0)


def half_byte_tables(unset: Floats, is_set: Floats, words: int) -> Floats:
    """What each half-byte adds: (query, half-byte, 16), from what each bit (query, bit) adds when 0 and when 1."""
    n, n_bits = unset.shape
    at_zero, at_one = (np.zeros((n, 64 * words), np.float32) for _ in range(2))
    at_zero[:, :n_bits], at_one[:, :n_bits] = unset, is_set
    low, high = at_zero.reshape(n, -1, 4), at_one.reshape(n, -1, 4)
    return np.asarray(low @ (1 - _PATTERNS.T) + high @ _PATTERNS.T, np.float32)
