import hashlib
import os
from itertools import combinations

import numpy as np
import pytest
from PIL import Image

from isch.errors import FileError, FormatError
from isch.photos.exact import content_hash, identical, pixel_hash, same, same_pixels
from isch.photos.fingerprint import fingerprints


def test_the_content_hash_depends_on_the_bytes_alone(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"x" * 3_000_000)
    assert content_hash(tmp_path / "a") == content_hash(tmp_path / "b")
    assert content_hash(tmp_path / "a") == hashlib.sha256(b"x" * 3_000_000).hexdigest()


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="is a pipe"):
        content_hash(tmp_path / "pipe")


def test_the_same_pixels_in_another_format(tmp_path, photograph):
    picture = Image.fromarray(photograph(1, 40, 50))
    picture.save(tmp_path / "a.png")
    picture.save(tmp_path / "a.bmp")
    picture.save(tmp_path / "a.jpg", quality=30)
    turned = picture.transpose(Image.Transpose.ROTATE_90)
    turned.save(tmp_path / "turned.png", exif=_orientation(6))
    assert same_pixels(tmp_path / "a.png", tmp_path / "a.bmp")
    assert same_pixels(tmp_path / "a.png", tmp_path / "turned.png")
    assert not same_pixels(tmp_path / "a.png", tmp_path / "a.jpg")


def _orientation(value):
    exif = Image.Exif()
    exif[0x0112] = value
    return exif


def test_pictures_of_other_sizes_differ(tmp_path):
    for width in (3, 4):
        Image.fromarray(np.zeros((2, width), np.uint8)).save(tmp_path / f"{width}.png")
    assert not same_pixels(tmp_path / "3.png", tmp_path / "4.png")


def test_a_damaged_picture_is_named(tmp_path):
    (tmp_path / "x.png").write_bytes(b"nothing")
    with pytest.raises(FormatError, match="x.png"):
        same_pixels(tmp_path / "x.png", tmp_path / "x.png")


def test_equal_hashes_are_brought_together():
    assert same(["a", "b", "a", "c", "b", "a"]) == [[0, 2, 5], [1, 4]]
    assert same([]) == []


def test_identical_pictures_have_the_same_bytes_or_the_same_pixels(photograph):
    """Pictures whose hashes say nothing are found too; only those that may be identical are decoded."""
    page = np.full((90, 120, 3), 255, np.uint8)
    page[10:20, 5:70] = 0
    other, blank = page.copy(), np.full((90, 120, 3), 255, np.uint8)
    other[12, 6] = 9
    scene = photograph(1, 90, 120)
    records = fingerprints([page, page, other, blank, scene, scene[:, ::-1], blank[:60]])
    seen = []

    def look(rows):
        seen.extend(rows)
        return {row: f"pixels {min(row, 1) if row < 2 else row}".replace("1", "0") for row in rows}

    found = identical(records, ["a", "b", "c", "d", "e", "f", "d"], look)
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == [(0, 1), (3, 6)]
    assert found.distance.tolist() == [0, 0]
    assert set(seen) == {0, 1, 2}


def test_equal_bytes_and_equal_pixels_come_together():
    records = fingerprints([np.full((5, 5, 3), 7, np.uint8)] * 5)
    found = identical(records, ["a", "b", "a", "b", "c"], lambda rows: {row: "x" for row in rows if row < 2})
    assert set(zip(found.first.tolist(), found.second.tolist(), strict=True)) == set(combinations(range(4), 2))


def test_a_hash_of_pixels_is_that_of_what_is_seen(tmp_path, photograph):
    picture = Image.fromarray(photograph(1, 40, 50))
    picture.save(tmp_path / "a.png")
    picture.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.png", exif=_orientation(6))
    picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(tmp_path / "mirrored.png")
    hashes = [pixel_hash((tmp_path / f"{name}.png").read_bytes()) for name in ("a", "turned", "mirrored")]
    assert hashes[0] == hashes[1] != hashes[2]


def test_nothing_is_identical_to_nothing():
    assert len(identical(fingerprints([]), [], lambda rows: {}).first) == 0
