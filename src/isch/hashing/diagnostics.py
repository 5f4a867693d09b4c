"""Statistics of a fitted model and its codes, and a warning when bits carry no information."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from isch.errors import warn
from isch.fitting import step

STATISTIC_ROWS = 4096
STATISTIC_BITS = 4096


def bit_statistics(bits: NDArray[np.bool_]) -> tuple[NDArray[np.float32], float]:
    """(share of ones per bit, mean absolute correlation between two bits)."""
    balance = bits.mean(axis=0, dtype=np.float64)
    n, m = bits.shape
    some = bits[:: -(-n // STATISTIC_ROWS), :: -(-m // STATISTIC_BITS)].astype(np.float32)
    some -= some.mean(axis=0)
    norms = np.sqrt(np.einsum("ij,ij->j", some, some))
    some /= np.where(norms > 0, norms, 1)
    correlations = np.abs(some.T @ some)
    pairs = correlations.size - len(correlations)
    off_diagonal = float(correlations.sum(dtype=np.float64) - np.trace(correlations))
    return balance.astype(np.float32), off_diagonal / max(1, pairs)


@step(gives=lambda eigenvectors, blocks: 0.0)
def block_overlap(eigenvectors: NDArray[np.float32], blocks: Sequence[slice]) -> float:
    """How much of the first block's span the other blocks repeat on average, from 0 (orthogonal) to 1 (the same)."""
    first, *others = (eigenvectors[:, block] for block in blocks)
    shares = [float(np.square(first.T @ other).sum()) / first.shape[1] for other in others]
    return float(np.mean(shares)) if shares else 0.0


def warn_of_collapse(balance: NDArray[np.float32]) -> None:
    """Warn about bits that hardly ever change."""
    stuck = int(((balance < 0.001) | (balance > 0.999)).sum())
    if stuck:
        warn(
            f"{stuck} of {len(balance)} bits are the same for at least 999 of 1000 rows and carry no information; "
            "a shorter code would be as good"
        )
