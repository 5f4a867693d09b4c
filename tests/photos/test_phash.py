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


def hashes(squares, box, crops=phash.WHOLE):
    return phash.bits(phash.coefficients(squares, box, crops))[:, 0]


def boxes(*edges, n=5):
    return np.tile(edges, (n, 1))


@pytest.mark.parametrize("box", [(0, 64, 0, 64), (3, 60, 10, 64), (0, 40, 5, 45)])
def test_a_hash_has_the_signs_of_the_cosine_transform_of_its_box(squares, box):
    top, bottom, left, right = box
    expected = [plain(square[top:bottom, left:right]) for square in squares]
    np.testing.assert_array_equal(hashes(squares, boxes(*box)), expected)


def test_a_box_may_end_within_a_pixel(squares):
    fine = np.repeat(np.repeat(squares, 4, axis=1), 4, axis=2)
    coarse = phash.coefficients(squares, boxes(1.25, 60.5, 0.75, 63.25))
    np.testing.assert_allclose(coarse, phash.coefficients(fine, boxes(5, 242, 3, 253)), rtol=1e-4, atol=1e-4)


def test_each_picture_has_its_own_box(squares):
    each = np.array([[i, 64 - i, 2 * i, 64] for i in range(5)])
    alone = [hashes(squares[i : i + 1], each[i])[0] for i in range(5)]
    np.testing.assert_array_equal(hashes(squares, each), alone)


def test_the_codes_of_all_orientations_follow_from_one(squares):
    turned = phash.orientations(hashes(squares, boxes(0, 64, 0, 64)))
    for which in range(8):
        again = hashes(np.ascontiguousarray(phash.oriented(squares, which)), boxes(0, 64, 0, 64))
        np.testing.assert_array_equal(turned[which], again)


def test_the_eight_orientations_are_all_mirror_images_and_quarter_turns():
    picture = np.arange(9).reshape(3, 3)
    found = {phash.oriented(picture, which).tobytes() for which in range(8)}
    turns = [np.rot90(picture, k) for k in range(4)]
    assert found == {view.tobytes() for turn in turns for view in (turn, turn[:, ::-1])}


def test_brightness_and_contrast_change_nothing(squares):
    dim = (squares // 2 + 40).astype(np.uint8)
    exact = (dim.astype(int) - 40) * 2
    np.testing.assert_array_equal(hashes(dim, boxes(0, 64, 0, 64)), hashes(exact.astype(np.uint8), boxes(0, 64, 0, 64)))


def test_crops_are_boxes_of_the_box(squares):
    crops = [(0.1, 0.1, 0.1, 0.1), (0.25, 0, 0, 0), (0, 0.05, 0.5, 0), (0.25, 0, 0.5, 0)]
    together = phash.coefficients(squares, boxes(4, 44, 10, 50), crops)
    cut = [(8, 40, 14, 46), (14, 44, 10, 50), (4, 42, 30, 50), (14, 44, 30, 50)]
    alone = np.stack([phash.coefficients(squares, boxes(*box))[:, 0] for box in cut], axis=1)
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-4)


def test_the_shelf_has_the_signs_of_the_lowest_coefficients(squares):
    values = phash.coefficients(squares, boxes(0, 64, 0, 64))[:, 0]
    expected = [sum(int(value[u, v] > 0) << 7 - i for i, (u, v) in enumerate(phash.SHELF)) for value in values]
    assert phash.shelves(phash.bits(values)).tolist() == expected


def test_small_coefficients_are_unsure():
    value = np.ones((1, 12, 12), np.float32)
    value[0, 0, 1], value[0, 2, 1], value[0, 2, 2] = 0.1, -0.2, 0.5
    assert np.unpackbits(phash.unsure(value)).tolist() == [1, 0, 0, 0, 0, 0, 1, 0]


def test_unsure_signs_turn_with_the_picture(squares):
    values = phash.coefficients(squares, boxes(0, 64, 0, 64))[:, 0]
    turned = phash.unsure_orientations(phash.unsure(values))
    for which in range(8):
        again = phash.coefficients(np.ascontiguousarray(phash.oriented(squares, which)), boxes(0, 64, 0, 64))
        np.testing.assert_array_equal(turned[which], phash.unsure(again[:, 0]))
