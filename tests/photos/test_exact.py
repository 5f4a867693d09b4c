import hashlib
import os

import numpy as np
import pytest
from PIL import Image

from isch.errors import FileError, FormatError
from isch.photos.exact import content_hash, same, same_pixels


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
