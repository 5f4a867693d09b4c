import math

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from isch.describe import sift

Array = NDArray[np.float32]


def picture(height: int = 96, width: int = 80, seed: int = 0) -> Array:
    noise = np.random.default_rng(seed).uniform(0, 255, (height, width)).astype(np.float32)
    return np.asarray(cv2.GaussianBlur(noise, (0, 0), 1.5)) * 8 % 255


def plain_descriptor(image: Array, left: int, top: int, size: int) -> NDArray[np.float64]:
    """The definition, pixel by pixel, in double precision."""
    gradient_x, gradient_y = (
        np.gradient(image.astype(np.float64), axis=1),
        np.gradient(image.astype(np.float64), axis=0),
    )
    out = np.zeros((4, 4, 8))
    for y, x in np.ndindex(image.shape):
        dx, dy = gradient_x[y, x], gradient_y[y, x]
        angle = math.atan2(dy, dx) % (2 * math.pi) * 4 / math.pi
        u, v = (x - left) / size, (y - top) / size
        magnitude = math.hypot(dx, dy) * math.exp(-((u - 1.5) ** 2 + (v - 1.5) ** 2) / 8)
        for b, c, o in np.ndindex(4, 4, 8):
            turn = abs(angle - o)
            near = max(0, 1 - min(turn, 8 - turn))
            out[b, c, o] += magnitude * max(0, 1 - abs(v - b)) * max(0, 1 - abs(u - c)) * near
    clipped = np.minimum(out.ravel() / np.linalg.norm(out), 0.2)
    return np.asarray(clipped / np.linalg.norm(clipped))


def test_equals_the_definition_at_corners_and_in_the_middle() -> None:
    image = picture(30, 27)
    values = sift.dense_sift(image, 20, 3).values
    rows, columns = sift.grid(30, 20, 3), sift.grid(27, 20, 3)
    assert len(values) == len(rows) * len(columns) == 5 * 4
    for i, j in ((0, 0), (2, 1), (4, 3)):
        expected = plain_descriptor(image, int(columns[j]), int(rows[i]), 5)
        np.testing.assert_allclose(values[i * len(columns) + j], expected, atol=5e-5)


def test_agrees_with_opencv_on_the_same_grid() -> None:
    """OpenCV smooths to σ = 1.6 before, lets angles grow the other way, and keeps bytes of 512 × the value."""
    image = picture(120, 120).astype(np.uint8)
    first = sift.grid(120, 24, 8)[2:-2]
    points = [cv2.KeyPoint(float(x + 9), float(y + 9), 4.0, 0, 0, 0) for y in first for x in first]
    _, theirs = cv2.SIFT_create().compute(image, points)  # type: ignore[attr-defined]
    smooth = cv2.GaussianBlur(image.astype(np.float32), (0, 0), math.sqrt(1.6**2 - 0.5**2))
    n = len(sift.grid(120, 24, 8))
    ours = sift.dense_sift(np.asarray(smooth), 24, 8).values.reshape(n, n, 128)[2:-2, 2:-2].reshape(-1, 4, 4, 8)
    turned = ours[..., -np.arange(8) % 8].reshape(-1, 128)
    cosine = (turned * theirs).sum(axis=1) / np.linalg.norm(theirs, axis=1)
    assert cosine.min() > 0.99


def test_mirrored_picture_has_mirrored_descriptors() -> None:
    image = picture(64, 64)
    values = sift.dense_sift(image, 20, 4).values.reshape(13, 13, 4, 4, 8)
    mirrored = sift.dense_sift(np.ascontiguousarray(image[:, ::-1]), 20, 4).values.reshape(13, 13, 4, 4, 8)
    np.testing.assert_allclose(values, mirrored[:, ::-1, :, ::-1][..., (4 - np.arange(8)) % 8], atol=1e-5)


def test_brightness_and_contrast_do_not_matter() -> None:
    image = picture()
    np.testing.assert_allclose(sift.dense_sift(3 * image + 20).values, sift.dense_sift(image).values, atol=1e-5)


def test_flat_picture_has_zero_descriptors() -> None:
    local = sift.dense_sift(np.full((40, 40), 7, np.float32))
    assert len(local.values) == 9
    assert not local.values.any()
    assert not sift.root(local.values).any()


@given(st.integers(1, 80), st.sampled_from([4, 16, 20]), st.integers(1, 15))
def test_grid_holds_as_many_patches_as_fit_and_lies_in_the_middle(length: int, patch: int, step: int) -> None:
    first = sift.grid(length, patch, step)
    span = 3 * patch // 4
    assert len(first) == max(0, (length - 1 - span) // step + 1)
    if len(first):
        before, after = first[0], length - 1 - (first[-1] + span)
        assert 0 <= before <= after <= before + 1


def test_positions_are_fractions_of_the_picture() -> None:
    local = sift.dense_sift(picture(51, 31), 20, 5)
    assert local.positions.shape == (len(local.values), 2)
    np.testing.assert_allclose(local.positions[0], [(0 + 1 + 7.5) / 31, (0 + 1 + 7.5) / 51])
    np.testing.assert_allclose(local.positions[1], [(5 + 1 + 7.5) / 31, (0 + 1 + 7.5) / 51])
    np.testing.assert_allclose(local.positions[-1], [(15 + 1 + 7.5) / 31, (35 + 1 + 7.5) / 51])


def test_scales_follow_one_another_and_tiny_ones_are_left_out() -> None:
    image = picture(80, 64)
    together = sift.multiscale(image, 20, 10, (1, 0.5, 0.125))
    half = sift.dense_sift(sift.resized(image, 40, 32), 20, 10)
    whole = sift.dense_sift(image, 20, 10)
    np.testing.assert_array_equal(together.values, np.concatenate([whole.values, half.values]))
    np.testing.assert_array_equal(together.positions, np.concatenate([whole.positions, half.positions]))


def test_picture_without_room_gives_no_descriptors() -> None:
    local = sift.multiscale(picture(10, 200), 20, 10, (1, 0.5))
    assert local.values.shape == (0, 128)
    assert local.positions.shape == (0, 2)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((600, 400), (300, 200)), ((64, 32), (128, 64)), ((200, 150), (200, 150)), ((900, 1), (300, 1))],
)
def test_pictures_are_brought_into_the_range_of_sizes(shape: tuple[int, int], expected: tuple[int, int]) -> None:
    assert sift.fitted(np.zeros(shape, np.float32), 128, 300).shape == expected


def test_root_sift_has_unit_length_and_hellinger_products() -> None:
    values = sift.dense_sift(picture()).values
    rooted = sift.root(values)
    np.testing.assert_allclose(np.linalg.norm(rooted, axis=1), 1, atol=1e-5)
    shares = values / values.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(rooted @ rooted.T, np.sqrt(shares[:, None] * shares).sum(axis=2), atol=1e-5)
