"""The steps that many methods share: the mean row, a sample of rows, rows in memory."""

import numpy as np
from numpy.typing import NDArray

from isch import compute
from isch.features import Features, Subset
from isch.fitting.costs import Size, Stage
from isch.fitting.steps import ARRAY, Sized, step


@step(
    "mean",
    cost=lambda features: Stage(read=Size.of(features).bytes()),
    gives=lambda features: Sized((features.shape[1],), np.float64),
    kept=ARRAY,
)
def mean(features: Features) -> NDArray[np.float64]:
    """Return μ, the mean row."""
    return compute.mean(features)


@step(gives=lambda features, n: Sized((min(n, len(features)), features.shape[1]), features.dtype), random=True)
def draw(features: Features, n: int, *, rng: np.random.Generator) -> Features:
    """Draw at most ``n`` rows without replacement; all rows if there are no more."""
    return Subset(features, compute.sample(features, n, rng))


def _loading(features: Features, mean: NDArray[np.float64]) -> Stage:
    """One pass over s rows of d values, which become single precision by way of double precision."""
    size = Size.of(features)
    values = size.rows * size.columns
    block = compute.block_rows(size.columns) * size.columns
    held = compute.n_threads() * 12 * block
    return Stage(read=size.bytes(), array=4 * values, memory=held, moved=48 * values)


@step("loading", cost=_loading, gives=lambda features, mean: Sized(features.shape))
def load(features: Features, mean: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return all rows, centred, in memory or in a file (``compute.memory.empty``)."""
    return compute.load(features, np.arange(len(features)), mean)
