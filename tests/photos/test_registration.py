import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from isch.photos import differences, fingerprint, phash, registration, sampling


@pytest.fixture
def space():
    return registration.space()


def fine(picture, box=(0.0, 1.0, 0.0, 1.0)):
    """Of a part of a picture: top, bottom, left, right as shares; 64 pixels a side."""
    grey = np.asarray(Image.fromarray(fingerprint.square(picture)).convert("L"))
    return fingerprint.thumbnails(grey[None], 128 * np.array([box]))[0]


def thumbnail(picture, box=(0.0, 1.0, 0.0, 1.0)):
    """The same at 32 pixels a side."""
    return sampling.halved(fine(picture, box))


def compared(*pictures):
    """What is measured of all pairs of pictures at 64 pixels a side."""
    records = np.zeros(len(pictures), fingerprint.FINGERPRINT)
    records["thumbnail"], records["box"] = pictures, (0, 128, 0, 128)
    return differences.compare(records, *np.triu_indices(len(pictures), 1))


def distance(one, other):
    return compared(one, other).bits[0]


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
    laid, inside = differences.overlay(under, over, affine)
    expected, where = warped(under, affine)
    np.testing.assert_array_equal(inside, where)
    np.testing.assert_allclose(laid[where], expected[where])


def test_what_is_not_seen_is_filled_with_the_other_picture_adapted(photograph):
    over = thumbnail(photograph(1)).astype(float)
    seen = np.random.default_rng(0).random(over.shape) < 0.7
    laid = np.where(seen, 0.5 * over + 20, 0)
    differences.adapt(laid, over, seen)
    np.testing.assert_allclose(laid, 0.5 * over + 20)


def test_a_covered_block_is_taken_out_and_others_are_not(photograph):
    over = thumbnail(photograph(2)).astype(float)
    laid, seen = over + np.random.default_rng(0).normal(0, 3, over.shape), np.ones(over.shape, bool)
    laid[8:12, 16:20] = np.arange(16).reshape(4, 4) * 12
    assert differences.uncover(laid, over, seen)
    assert not seen[8:12, 16:20].any()
    assert seen.mean() > 0.8


def test_equal_pictures_have_nothing_covered(photograph):
    over, seen = thumbnail(photograph(2)).astype(float), np.ones((32, 32), bool)
    assert not differences.uncover(over.copy(), over, seen)
    assert seen.all()


def middle(inside):
    """Without the edge that is left out."""
    kept = np.zeros_like(inside)
    edge = len(inside) // registration.EDGE
    kept[edge:-edge, edge:-edge] = inside[edge:-edge, edge:-edge]
    return kept


def test_a_step_solves_the_least_squares_problem(photograph, space):
    """The twin: numpy's least squares over slopes by finite differences."""
    under, over = (thumbnail(photograph(3), box).astype(float) for box in ((0, 1, 0, 1), (0.02, 0.97, 0.03, 1)))
    affine, tiny, change = np.array([0.97, 0.01, 0.004, -0.02, 0.96, 0.003]), 1e-7, np.empty(8)
    count, _ = registration.gather(under, over, affine, space)
    assert registration.solve(space.equations[:, :count], change)
    here, inside = warped(under, affine)
    inside = middle(inside)
    slopes = [(warped(under, affine + tiny * step)[0] - here)[inside] / tiny for step in np.eye(6)]
    columns = np.stack([*slopes, -over[inside], -np.ones(count)], axis=1)
    ridge = np.sqrt(1e-6 + registration._RIDGE * (columns[:, :6] ** 2).sum(axis=0).mean())
    columns = np.concatenate([columns, np.diag([ridge] * 6 + [1e-3] * 2)])
    right = np.concatenate([-here[inside], np.zeros(8)])
    np.testing.assert_allclose(change, np.linalg.lstsq(columns, right)[0], rtol=1e-3, atol=1e-5)


def test_the_correlation_is_numpys(photograph, space):
    under, over = (thumbnail(photograph(seed)).astype(float) for seed in (1, 2))
    affine = np.array([0.9, 0.05, 0.1, -0.04, 0.95, -0.2])
    laid, inside = warped(under, affine)
    inside = middle(inside)
    expected = np.corrcoef(laid[inside], over[inside])[0, 1]
    np.testing.assert_allclose(registration.correlation(under, over, affine), expected)
    np.testing.assert_allclose(registration.gather(under, over, affine, space), [inside.sum(), expected])
    assert registration.correlation(under, over, np.array([1, 0, 1.5, 0, 1, 0.0])) == -1


def test_equations_that_say_nothing_are_not_solved():
    assert not registration.solve(np.zeros((9, 4)) * np.nan, np.empty(8))


def test_detail_is_the_picture_without_its_local_mean(photograph):
    picture = thumbnail(photograph(4)).astype(float)
    total, count = (
        ndimage.convolve(values, np.ones((5, 5)), mode="constant") for values in (picture, np.ones_like(picture))
    )
    found = differences.detail(picture, np.ones(picture.shape, bool))
    np.testing.assert_allclose(found, picture - total / count)


@pytest.mark.parametrize("which", range(8))
def test_orientations_are_those_of_the_hash(which):
    picture = np.random.default_rng(0).random((8, 8))
    np.testing.assert_array_equal(sampling.oriented(picture, which), phash.oriented(picture, which))


@pytest.mark.parametrize(
    "box", [(0, 1, 0, 1), (0, 1, 0.15, 1), (0, 0.8, 0, 1), (0.1, 1, 0, 0.88), (0.08, 0.98, 0.03, 0.91)]
)
@pytest.mark.parametrize("which", [0, 3, 5])
def test_a_cropped_and_turned_copy_is_near(photograph, box, which):
    picture = photograph(5)
    copy = np.ascontiguousarray(phash.oriented(fine(picture, box), which))
    for found in (compared(fine(picture), copy), compared(copy, fine(picture))):
        assert found.bits[0] < 20
        assert found.agreement[0] > 0.8
        assert found.alike[0] > 0.9


def test_a_slight_turn_and_a_covered_corner_do_not_matter(photograph):
    picture = photograph(6)
    turned = ndimage.rotate(picture, 3, reshape=False, order=1, mode="constant")
    turned[:40, :50] = 255
    assert distance(fine(picture), fine(turned)) < 28


@pytest.mark.parametrize("which", [0, 6])
def test_a_logo_or_a_bar_does_not_matter(photograph, which):
    picture = photograph(8)
    covered = picture.copy()
    covered[60:115, 150:220] = 250
    copy = np.ascontiguousarray(phash.oriented(fine(covered), which))
    found = compared(fine(picture), copy)
    assert found.bits[0] < 28
    assert found.stain[0] > 50


def test_different_pictures_are_far_apart(photograph):
    found = compared(*(fine(photograph(seed)) for seed in range(12)))
    assert found.bits.min() > 36
    assert found.agreement.max() < 0.5


@pytest.mark.parametrize("value", [0, 255])
def test_a_flat_picture_can_be_laid_over_nothing(photograph, value):
    flat = np.full((64, 64), value, np.uint8)
    assert distance(flat, fine(photograph(7))) > 60
    assert compared(flat, flat).shown[0] == 0


def test_no_pairs_have_no_distances():
    none = np.empty(0, np.int64)
    found = differences.compare(np.zeros(0, fingerprint.FINGERPRINT), none, none)
    assert [len(column) for column in found] == [0] * 6


@pytest.mark.parametrize("box", [(0, 1, 0, 1), (0, 1, 0, 0.99), (0.03, 0.97, 0.03, 0.97)])
def test_the_shift_is_how_far_corners_of_the_frame_lie_apart(photograph, box):
    expected = max(*box[::2], *(1 - edge for edge in box[1::2]))
    assert compared(fine(photograph(9)), fine(photograph(9), box)).shift[0] == pytest.approx(expected, abs=0.002)


def test_agreement_is_that_of_numpy(photograph):
    """The twin: block by block, with variances and covariances by numpy."""
    under, over = fine(photograph(1)).astype(float), fine(photograph(2)).astype(float) / 3
    over[:32] = under[:32] / 3 + 7
    one, other = (x.reshape(8, 8, 8, 8).transpose(0, 2, 1, 3).reshape(64, 64) for x in (under, over))
    other = other * np.sqrt(one.var(axis=1).sum() / other.var(axis=1).sum())
    both = ((one - one.mean(axis=1, keepdims=True)) * (other - other.mean(axis=1, keepdims=True))).mean(axis=1)
    agree = 2 * both / (one.var(axis=1) + other.var(axis=1))
    shown = np.maximum(one.var(axis=1), other.var(axis=1)) >= 9
    expected = [agree[shown].mean(), (agree[shown] >= 0.5).mean(), shown.mean()]
    identity = np.array([1, 0, 0, 0, 1, 0], float)
    np.testing.assert_allclose(differences.agreement(under, over, identity), expected, atol=1e-9)
