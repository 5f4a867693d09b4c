import numpy as np
import pytest
from PIL import Image

from isch.errors import InputError
from isch.photos import fingerprint, phash
from isch.photos.fingerprint import FINGERPRINT, INSIDE, WHOLE, fingerprint_of, fingerprints


def grey_square(picture):
    return np.asarray(Image.fromarray(fingerprint.square(picture)).convert("L"))


def test_a_fingerprint_survives_being_stored(photograph):
    record = fingerprint_of(photograph(1))
    again = np.frombuffer(record.tobytes(), FINGERPRINT)[0]
    assert again == record
    assert len(record.tobytes()) == FINGERPRINT.itemsize == 4757


def test_many_are_as_one_by_one(photograph):
    pictures = [photograph(seed, 100 + 20 * seed, 150) for seed in range(4)]
    together = fingerprints(pictures)
    for picture, record in zip(pictures, together, strict=True):
        assert fingerprint_of(picture) == record


def test_no_pictures_have_no_fingerprints():
    assert len(fingerprints([])) == 0


def test_a_border_changes_the_whole_but_not_the_inside(photograph):
    picture = photograph(2, 128, 128)
    bordered = np.pad(picture, ((64, 64), (64, 64), (0, 0)), constant_values=255)
    plain, framed = fingerprints([picture, bordered])
    apart = [
        np.bitwise_count(plain["codes"][WHOLE, 0] ^ framed["codes"][region, 0]).sum() for region in (WHOLE, INSIDE)
    ]
    assert apart[0] > 40
    assert apart[1] < 12


def test_each_crop_is_hashed(photograph):
    record, square = fingerprint_of(photograph(3)), grey_square(photograph(3))
    for crop, (top, bottom, left, right) in enumerate(fingerprint.CROPS):
        box = np.array([128 * top, 128 * (1 - bottom), 128 * left, 128 * (1 - right)])
        values = phash.coefficients(square[None], box)[0, 0]
        assert np.bitwise_count(record["codes"][WHOLE, crop] ^ phash.bits(values)).sum() <= 1  # rounding at zero
        assert np.bitwise_count(record["unsure"][WHOLE, crop] ^ phash.unsure(values)) <= 1


def test_crops_keep_most_of_the_picture_and_differ():
    assert len(set(fingerprint.CROPS)) == len(fingerprint.CROPS) == 12
    assert all(0 <= share <= 0.15 for crop in fingerprint.CROPS for share in crop)


def test_the_thumbnail_is_the_mean_of_what_each_pixel_covers(photograph):
    square = grey_square(photograph(4))
    expected = square.reshape(64, 2, 64, 2).mean(axis=(1, 3))
    found = fingerprint.thumbnails(square[None], np.array([[0, 128, 0, 128]]))[0]
    np.testing.assert_allclose(found, expected, atol=0.51)


def test_a_thumbnail_of_a_box_may_cut_through_pixels(photograph):
    square = grey_square(photograph(5))
    halves = np.repeat(np.repeat(square[5:101, 10:106], 2, axis=0), 2, axis=1)
    expected = halves.reshape(64, 3, 64, 3).mean(axis=(1, 3))
    found = fingerprint.thumbnails(square[None], np.array([[5, 101, 10, 106]]))[0]
    np.testing.assert_allclose(found, expected, atol=0.51)


def test_photographs_show_more_than_documents_and_plain_scenes(photograph):
    page = np.full((300, 200, 3), 255, np.uint8)
    page[40:200:8, 20:120] = 0
    sky = np.clip(np.random.default_rng(0).normal(90, 2, (200, 300, 3)), 0, 255).astype(np.uint8)
    framed = np.pad(photograph(6), ((90, 90), (60, 60), (0, 0)), constant_values=255)
    shown = fingerprints([photograph(6), framed, page, sky])["evidence"]
    assert shown[:2].min() > 50
    assert shown[2:].max() < 10


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 500, 3), (7, 3, 3)])
def test_tiny_and_narrow_pictures_have_fingerprints(shape):
    record = fingerprint_of(np.full(shape, 200, np.uint8))
    assert record["evidence"] == 0
    assert record["size"].tolist() == [shape[1], shape[0]]


def test_squares_of_another_kind_are_refused():
    with pytest.raises(InputError, match=r"squares uint8 \(n, 128, 128, 3\); got float64 \(2, 64, 64\)"):
        fingerprint.from_squares(np.zeros((2, 64, 64)), [(1, 1)] * 2)
