"""LBP against scikit-image where definitions agree, and against a plain loop."""

import numpy as np
import pytest
from numpy.typing import NDArray
from skimage.feature import local_binary_pattern

from isch.describe.images import from_array, grey
from isch.describe.lbp import LBP, N_BINS, NEIGHBOURS, bins, histograms
from isch.errors import InputError

PICTURE = np.random.default_rng(0).integers(0, 256, (57, 43), dtype=np.uint8)


def plain(image: NDArray[np.float32], grid: int) -> NDArray[np.int64]:
    """The square neighbourhood, array by array."""
    height, width = image.shape[0] - 2, image.shape[1] - 2
    inner = image[1:-1, 1:-1]
    pattern = np.zeros((height, width), np.int64)
    for k, (dy, dx) in enumerate(NEIGHBOURS):
        pattern |= (image[1 + dy : 1 + dy + height, 1 + dx : 1 + dx + width] >= inner).astype(np.int64) << k
    cell = (np.arange(height) * grid // height)[:, None] * grid + np.arange(width) * grid // width
    return np.bincount((cell * N_BINS + bins()[pattern]).ravel(), minlength=grid**2 * N_BINS).reshape(-1, N_BINS)


def test_there_are_58_uniform_patterns_and_one_bin_for_the_rest() -> None:
    counts = np.bincount(bins())
    assert len(counts) == N_BINS
    assert (counts[:-1] == 1).all()
    assert counts[-1] == 256 - 58
    assert bins()[0] != bins()[255]


@pytest.mark.parametrize("levels", [255, 3])
def test_square_sampling_equals_the_plain_loop(levels: int) -> None:
    image = grey(from_array(PICTURE % levels))
    np.testing.assert_array_equal(histograms(image, bins(), 10, False), plain(image, 10))


def test_circle_sampling_equals_scikit_image() -> None:
    """Both have 59 labels; scikit-image numbers them otherwise, so each of its labels must map to one bin of ours."""
    labels = local_binary_pattern(PICTURE, 8, 1, "nri_uniform")[1:-1, 1:-1].astype(int)
    patterns = local_binary_pattern(PICTURE, 8, 1, "default")[1:-1, 1:-1].astype(int)
    table = {label: bins()[pattern] for label, pattern in zip(labels.ravel(), patterns.ravel(), strict=True)}
    wanted = np.bincount([table[label] for label in labels.ravel()], minlength=N_BINS)
    image = grey(from_array(PICTURE))
    np.testing.assert_array_equal(histograms(image, bins(), 1, True)[0], wanted)
    ours = np.sort(histograms(image, bins(), 1, True)[0])
    np.testing.assert_array_equal(ours, np.sort(np.bincount(labels.ravel(), minlength=N_BINS)))


def test_each_cell_counts_its_pixels() -> None:
    counts = histograms(grey(from_array(PICTURE)), bins(), 10, False)
    assert counts.sum() == 55 * 41
    assert counts.sum(axis=1).min() >= 5 * 4


def test_descriptor() -> None:
    vector = np.asarray(LBP().transform([PICTURE]))[0]
    assert vector.shape == (5900,)
    assert vector.dtype == np.float32
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    rooted = np.asarray(LBP(root=True).transform([PICTURE]))[0]
    np.testing.assert_allclose(rooted**2 / (rooted**2).sum(), vector / vector.sum(), atol=1e-6)


def test_brightness_and_contrast_do_not_matter() -> None:
    half = PICTURE // 2
    np.testing.assert_array_equal(LBP().transform([half]), LBP().transform([half + 90]))


def test_too_small() -> None:
    with pytest.raises(InputError, match="picture 0: expected at least 12 × 12 pixels; got 30 × 11"):
        LBP().transform([np.zeros((11, 30), np.uint8)])
