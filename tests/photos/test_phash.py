import numpy as np
import pytest
from scipy.fft import dctn

from isch import codes as packed
from isch.photos import phash


@pytest.fixture
def squares():
    return np.random.default_rng(0).integers(0, 255, (5, 64, 64)).astype(np.uint8)


def plain(square):
    """The twin: signs of scipy's cosine transform."""
    values = dctn(square.astype(np.float64))[:12, :12] > 0
    values[0, 0] = False
    return packed.pack(values.reshape(1, -1))[0]


def boxes(*edges, n=5):
    return np.tile(edges, (n, 1))


@pytest.mark.parametrize("box", [(0, 64, 0, 64), (3, 60, 10, 64), (0, 40, 5, 45)])
def test_a_hash_has_the_signs_of_the_cosine_transform_of_its_box(squares, box):
    top, bottom, left, right = box
    expected = [plain(square[top:bottom, left:right]) for square in squares]
    np.testing.assert_array_equal(phash.hashes(squares, boxes(*box)), expected)


def test_a_box_may_end_within_a_pixel(squares):
    fine = np.repeat(np.repeat(squares, 4, axis=1), 4, axis=2)
    coarse = phash.coefficients(squares, boxes(1.25, 60.5, 0.75, 63.25))
    np.testing.assert_allclose(coarse, phash.coefficients(fine, boxes(5, 242, 3, 253)), rtol=1e-4, atol=1e-4)


def test_each_picture_has_its_own_box(squares):
    each = np.array([[i, 64 - i, 2 * i, 64] for i in range(5)])
    alone = [phash.hashes(squares[i : i + 1], each[i])[0] for i in range(5)]
    np.testing.assert_array_equal(phash.hashes(squares, each), alone)


def test_the_codes_of_all_orientations_follow_from_one(squares):
    turned = phash.orientations(phash.hashes(squares, boxes(0, 64, 0, 64)))
    for which in range(8):
        again = phash.hashes(np.ascontiguousarray(phash.oriented(squares, which)), boxes(0, 64, 0, 64))
        np.testing.assert_array_equal(turned[which], again)


def test_the_eight_orientations_are_all_mirror_images_and_quarter_turns():
    picture = np.arange(9).reshape(3, 3)
    found = {phash.oriented(picture, which).tobytes() for which in range(8)}
    turns = [np.rot90(picture, k) for k in range(4)]
    assert found == {view.tobytes() for turn in turns for view in (turn, turn[:, ::-1])}


def test_brightness_and_contrast_change_nothing(squares):
    dim = (squares // 2 + 40).astype(np.uint8)
    exact = (dim.astype(int) - 40) * 2
    np.testing.assert_array_equal(
        phash.hashes(dim, boxes(0, 64, 0, 64)), phash.hashes(exact.astype(np.uint8), boxes(0, 64, 0, 64))
    )


def test_a_crop_takes_a_share_of_each_side():
    np.testing.assert_allclose(phash.cropped([[0, 100, 20, 60]], 0.1), [[10, 90, 24, 56]])
