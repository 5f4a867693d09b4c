import numpy as np
import pytest
from scipy import ndimage

from isch.photos import fingerprint, phash, registration

STARTS, WAVES = registration._starts(), registration._waves()


@pytest.fixture
def space():
    return registration._Space(np.zeros((8, 8)), np.zeros(8), np.zeros(8), np.zeros(3))


def thumbnail(picture, box=(0.0, 1.0, 0.0, 1.0)):
    """Of a part of a picture: top, bottom, left, right as shares."""
    square = fingerprint.grey_square(picture)
    return fingerprint.thumbnails(square[None], 128 * np.array([box]))[0]


def distance(one, other):
    rows = np.array([0]), np.array([1])
    return registration.distances(np.stack([one, other]), *rows)[0]


def warped(picture, affine):
    """The twin of ``overlay``: scipy's interpolation at the places of a map."""
    n = len(picture)
    v, u = (np.mgrid[:n, :n] + 0.5) * 2 / n - 1
    x = affine[0] * u + affine[1] * v + affine[2]
    y = affine[3] * u + affine[4] * v + affine[5]
    inside = (np.abs(x) <= 1) & (np.abs(y) <= 1)
    return ndimage.map_coordinates(
        picture, [(y + 1) * n / 2 - 0.5, (x + 1) * n / 2 - 0.5], order=1, mode="nearest"
    ), inside


def test_an_overlay_is_the_interpolated_picture(photograph):
    under, over = (thumbnail(photograph(seed)).astype(float) for seed in (1, 2))
    affine = np.array([0.9, 0.05, 0.1, -0.04, 0.95, -0.2])
    laid, inside = registration.overlay(under, over, affine)
    expected, where = warped(under, affine)
    np.testing.assert_array_equal(inside, where)
    np.testing.assert_allclose(laid[where], expected[where])


def test_a_step_solves_the_least_squares_problem(photograph, space):
    under, over = (thumbnail(photograph(3), box).astype(float) for box in ((0, 1, 0, 1), (0.02, 0.97, 0.03, 1)))
    affine = np.array([1.0, 0, 0, 0, 1, 0])
    registration.gather(under, over, affine, space)
    normal = np.tril(space.normal) + np.tril(space.normal, -1).T
    right = space.right.copy()
    assert registration.solve(space.normal, space.right)
    ridge = np.diag([registration._RIDGE * np.diag(normal)[:6].mean() + 1e-6] * 6 + [1e-6] * 2)
    np.testing.assert_allclose(space.right, np.linalg.solve(normal + ridge, right), rtol=1e-6)


def test_equations_that_say_nothing_are_not_solved():
    assert not registration.solve(np.full((8, 8), -1.0), np.ones(8))


def test_detail_is_the_picture_without_its_local_mean(photograph):
    picture = thumbnail(photograph(4)).astype(float)
    total, count = (
        ndimage.convolve(values, np.ones((5, 5)), mode="constant") for values in (picture, np.ones_like(picture))
    )
    found = registration.detail(picture, np.ones(picture.shape, bool))
    np.testing.assert_allclose(found, picture - total / count)


@pytest.mark.parametrize("which", range(8))
def test_orientations_are_those_of_the_hash(which):
    picture = np.random.default_rng(0).random((8, 8))
    np.testing.assert_array_equal(registration.oriented(picture, which), phash.oriented(picture, which))


@pytest.mark.parametrize(
    "box", [(0, 1, 0, 1), (0, 1, 0.15, 1), (0, 0.8, 0, 1), (0.1, 1, 0, 0.88), (0.08, 0.98, 0.03, 0.91)]
)
@pytest.mark.parametrize("which", [0, 3, 5])
def test_a_cropped_and_turned_copy_is_near(photograph, box, which):
    picture = photograph(5)
    copy = np.ascontiguousarray(phash.oriented(thumbnail(picture, box), which))
    assert distance(thumbnail(picture), copy) < 20
    assert distance(copy, thumbnail(picture)) < 20


def test_a_slight_turn_and_a_covered_corner_do_not_matter(photograph):
    picture = photograph(6)
    turned = ndimage.rotate(picture, 3, reshape=False, order=1, mode="constant")
    turned[:40, :50] = 255
    assert distance(thumbnail(picture), thumbnail(turned)) < 28


def test_different_pictures_are_far_apart(photograph):
    thumbnails = np.stack([thumbnail(photograph(seed)) for seed in range(12)])
    first, second = np.triu_indices(12, 1)
    assert registration.distances(thumbnails, first, second).min() > 36


@pytest.mark.parametrize("value", [0, 255])
def test_a_flat_picture_can_be_laid_over_nothing(photograph, value):
    flat = np.full((32, 32), value, np.uint8)
    assert distance(flat, thumbnail(photograph(7))) > 60
    assert distance(flat, flat) > 60


def test_no_pairs_have_no_distances():
    none = np.empty(0, np.int64)
    assert len(registration.distances(np.zeros((0, 32, 32), np.uint8), none, none)) == 0
