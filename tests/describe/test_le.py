"""LE: its encoder, its codes, and the properties the paper claims."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates

from isch.describe.images import from_array, grey
from isch.describe.le import LE, MARGIN, N_CODES, band_passed, codes, grow, patch_histograms, ring_taps, sampled
from isch.errors import InputError

RNG = np.random.default_rng(0)
PICTURES = [np.cumsum(RNG.integers(-9, 10, (40, 36)), axis=1).clip(-127, 127).astype(np.int16) + 128 for _ in range(12)]
PICTURES = [picture.astype(np.uint8) for picture in PICTURES]


def neighbourhoods(filtered: NDArray[np.float32]) -> Any:
    """Unit vectors around all pixels, by SciPy's interpolation."""
    height, width = (size - 2 * MARGIN for size in filtered.shape)
    angles = [(0, 0)] + [(r, 2 * np.pi * k / (8 * r)) for r in (1, 2) for k in range(8 * r)]
    y, x = np.mgrid[:height, :width] + MARGIN
    at = [np.array([y + r * np.sin(a), x + r * np.cos(a)]) for r, a in angles]
    vectors = np.stack([map_coordinates(filtered.astype(float), p, order=1) for p in at], axis=-1).reshape(-1, 25)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


@pytest.fixture(scope="module")
def fitted() -> LE:
    return LE(grid=4).fit(PICTURES)


def test_samples_equal_scipys_interpolation() -> None:
    filtered = band_passed(grey(from_array(PICTURES[0])))
    pixels = np.argwhere(np.ones((40, 36), bool))
    np.testing.assert_allclose(sampled(filtered, pixels, *ring_taps()), neighbourhoods(filtered), atol=2e-5)


def test_codes_equal_the_plain_descent(fitted: LE) -> None:
    filtered = band_passed(grey(from_array(PICTURES[0])))
    nodes = np.zeros(40 * 36, int)
    vectors = neighbourhoods(filtered)
    for _ in range(8):
        projected = np.einsum("ij,ij->i", vectors, fitted.directions_[nodes])
        nodes = 2 * nodes + np.where(projected >= fitted.thresholds_[nodes], 2, 1)
    ours = codes(filtered, *ring_taps(), fitted.directions_, fitted.thresholds_).ravel()
    assert (ours == nodes - (N_CODES - 1)).mean() > 0.995  # rounding at thresholds


def test_leaves_are_balanced_on_training_data() -> None:
    vectors = RNG.standard_normal((25_600, 25)).astype(np.float32)
    directions, thresholds = grow(vectors, np.random.default_rng(1))
    nodes = np.zeros(len(vectors), int)
    for _ in range(8):
        projected = np.einsum("ij,ij->i", vectors, directions[nodes])
        nodes = 2 * nodes + np.where(projected >= thresholds[nodes], 2, 1)
    counts = np.bincount(nodes - (N_CODES - 1), minlength=N_CODES)
    assert counts.min() >= 95
    assert counts.max() <= 105


def test_patches_count_their_pixels() -> None:
    leaves = RNG.integers(0, 256, (41, 37)).astype(np.uint8)
    counts = patch_histograms(leaves, 9)
    assert counts.shape == (81, 256)
    rows, columns = (np.bincount(np.arange(n) * 9 // n) for n in (41, 37))
    np.testing.assert_array_equal(counts.sum(axis=1), np.outer(rows, columns).ravel())
    np.testing.assert_array_equal(counts.sum(axis=0), np.bincount(leaves.ravel(), minlength=256))


@pytest.mark.parametrize(("gain", "offset"), [(0.5, 0), (1, 60), (0.25, 30)])
def test_brightness_and_contrast_leave_codes_unchanged(fitted: LE, gain: float, offset: float) -> None:
    image = grey(from_array(PICTURES[1])) // 4 * 4
    tree = (*ring_taps(), fitted.directions_, fitted.thresholds_)
    before, after = codes(band_passed(image), *tree), codes(band_passed(image * np.float32(gain) + offset), *tree)
    assert (before == after).mean() > 0.99  # rounding at thresholds


def test_descriptor(fitted: LE) -> None:
    vectors = np.asarray(fitted.transform(PICTURES))
    assert vectors.shape == (12, 16 * 256)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert LE().n_features_out == 20_736


def test_the_seed_decides(fitted: LE) -> None:
    np.testing.assert_array_equal(LE(grid=4).fit(iter(PICTURES)).directions_, fitted.directions_)
    assert (LE(grid=4, random_state=1).fit(PICTURES).directions_ != fitted.directions_).any()


def test_too_small(fitted: LE) -> None:
    with pytest.raises(InputError, match="expected at least 4 × 4 pixels; got 3 × 9"):
        fitted.transform([np.zeros((9, 3), np.uint8)])
