"""Pictures that stand for photographs: random, with the spectrum of natural scenes."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

Picture = NDArray[np.uint8]


def scene(seed: int, height: int = 180, width: int = 240) -> Picture:
    """A colour picture whose detail falls off with frequency as in photographs."""
    rng = np.random.default_rng(seed)
    down, across = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)
    falloff = 1 / np.maximum(np.hypot(down, across), 1 / width)
    waves = rng.standard_normal((3, *falloff.shape)) + 1j * rng.standard_normal((3, *falloff.shape))
    common, *tints = (np.fft.irfft2(wave * falloff, (height, width)) for wave in (waves[0], *waves))
    values = np.stack([common + 0.2 * tint for tint in tints], axis=2)
    values = (values - values.mean()) / values.std()
    return np.clip(120 + 50 * values, 0, 255).astype(np.uint8)


@pytest.fixture
def photograph() -> Callable[..., Picture]:
    """A function from a seed to a picture."""
    return scene
