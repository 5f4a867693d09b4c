"""Pictures at another size as Pillow makes them, and the input of a network as NumPy does."""

import os

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from isch.describe import images
from isch.describe.resampling import planes

BILINEAR = Image.Resampling.BILINEAR
RNG = np.random.default_rng(0)


def one_axis_after_the_other(picture: NDArray[np.uint8], side: int, fraction: float) -> NDArray[np.uint8]:
    """The twin: Pillow, told which axis comes first."""
    (height, width), whole = picture.shape[:2], Image.fromarray(picture)
    edge = fraction * min(height, width)
    left, top = (width - edge) / 2, (height - edge) / 2
    if side < edge:
        return np.asarray(
            whole.resize((width, side), BILINEAR, box=(0, top, width, top + edge)).resize(
                (side, side), BILINEAR, box=(left, 0, left + edge, side)
            )
        )
    return np.asarray(
        whole.resize((side, height), BILINEAR, box=(left, 0, left + edge, height)).resize(
            (side, side), BILINEAR, box=(0, top, side, top + edge)
        )
    )


@pytest.mark.parametrize("side", [1, 4, 33, 224])
@pytest.mark.parametrize("fraction", [1.0, 0.875, 0.31])
@pytest.mark.parametrize("shape", [(1, 1), (64, 64), (300, 77), (75, 401), (260, 259), (2, 500)])
def test_a_square_is_pillows_to_the_last_bit(shape: tuple[int, int], fraction: float, side: int) -> None:
    for picture in (RNG.integers(0, 256, (*shape, 3), np.uint8), 255 * RNG.integers(0, 2, (*shape, 3), np.uint8)):
        found = images.centre_square(picture, side, fraction)
        np.testing.assert_array_equal(found, one_axis_after_the_other(picture, side, fraction))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows does not tell how much memory was used")
@pytest.mark.parametrize("shape", [(4_000_000, 3, 3), (3, 4_000_000, 3), (300, 100_000, 3)])
def test_a_long_strip_takes_no_more_memory_than_its_middle(shape: tuple[int, int, int]) -> None:
    import resource

    strip = np.full(shape, 7, np.uint8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (images.centre_square(strip, 224) == 7).all()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB


def test_a_view_of_a_picture_is_a_picture() -> None:
    picture = RNG.integers(0, 256, (50, 60, 3), np.uint8)
    for view in (picture[::-1], picture[:, ::2], np.swapaxes(picture, 0, 1), picture[..., ::-1]):
        np.testing.assert_array_equal(
            images.centre_square(view, 20), images.centre_square(np.ascontiguousarray(view), 20)
        )


def test_planes_are_numpys() -> None:
    squares = RNG.integers(0, 256, (3, 5, 7, 3), np.uint8)
    gain, offset = np.array([1 / 128, 0.5, 2], np.float32), np.array([-1, 0, 3.5], np.float32)
    expected = np.moveaxis(squares * gain + offset, 3, 1)
    np.testing.assert_allclose(planes(squares, gain, offset), expected, rtol=1e-6)
