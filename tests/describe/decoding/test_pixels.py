"""From what Pillow holds to RGB, in strips."""

import io
import os
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pil
from PIL import ImageCms

from isch.describe import images
from isch.describe.decoding import pixels
from isch.describe.decoding.pixels import rgb

RNG = np.random.default_rng(0)
COLOUR = RNG.integers(0, 256, (30, 20, 3), dtype=np.uint8)
GREY = COLOUR[..., 0]
DEEP = GREY.astype(np.uint16) * 256 + 77


def lab(array: NDArray[np.uint8]) -> Any:
    profiles = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
    return ImageCms.profileToProfile(Pil.fromarray(array), *profiles, outputMode="LAB")


def with_palette() -> Any:
    picture = Pil.fromarray(GREY // 64, "L").convert("P")
    picture.putpalette([10, 20, 30, 200, 100, 50, 0, 0, 255, 9, 9, 9])
    picture.info["transparency"] = bytes([255, 255, 0, 255])
    return picture


PALETTE = np.array([[10, 20, 30], [200, 100, 50], [255, 255, 255], [9, 9, 9]], np.uint8)  # the third transparent
HALF = np.dstack([GREY, np.full_like(GREY, 128)])
MODES: dict[str, tuple[Any, NDArray[Any]]] = {
    "RGB": (Pil.fromarray(COLOUR), COLOUR),
    "L": (Pil.fromarray(GREY), np.dstack([GREY] * 3)),
    "1": (Pil.fromarray(GREY > 99), np.dstack([(GREY > 99) * 255] * 3)),
    "P with transparency": (with_palette(), PALETTE[GREY // 64]),
    "LA": (Pil.fromarray(HALF, "LA"), np.dstack([(GREY * 128.0 + 255 * 127) / 255] * 3)),
    "La": (Pil.fromarray(HALF, "LA").convert("La"), np.dstack([(GREY * 128.0 + 255 * 127) / 255] * 3)),
    "RGBA": (Pil.fromarray(np.dstack([COLOUR, GREY * 0]), "RGBA"), np.full_like(COLOUR, 255)),
    "CMYK": (Pil.fromarray(COLOUR).convert("CMYK"), COLOUR),
    "YCbCr": (Pil.fromarray(COLOUR).convert("YCbCr"), COLOUR),
    "HSV": (Pil.fromarray(COLOUR // 2 + 100).convert("HSV"), COLOUR // 2 + 100),
    "LAB": (lab(COLOUR // 2 + 64), COLOUR // 2 + 64),
    "I;16": (Pil.fromarray(DEEP), np.dstack([GREY] * 3)),
    "I;16B": (
        Pil.frombytes("I;16B", (20, 30), (GREY * np.uint16(256) + 77).astype(">u2").tobytes()),
        np.dstack([GREY] * 3),
    ),
    "I": (Pil.fromarray(GREY.astype(np.int32)), np.dstack([GREY] * 3)),
    "I of 16 bits": (Pil.fromarray(GREY.astype(np.int32) * 256), np.dstack([GREY] * 3)),
}


@pytest.mark.parametrize("strip", [60, 1 << 20])
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_becomes_sensible_rgb(mode: str, strip: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "STRIP", strip)
    picture, expected = MODES[mode]
    result = rgb(picture)
    assert result.dtype == np.uint8
    assert result.flags.c_contiguous
    difference = np.abs(result.astype(float) - expected)
    assert difference.max() <= {"YCbCr": 3, "HSV": 12, "LAB": 12}.get(mode, 1)
    assert difference.mean() < 2.5


def test_floats_are_stretched_over_the_whole_picture_and_what_is_not_finite_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pixels, "STRIP", 40)
    values = np.linspace(-3, 7, 600, dtype=np.float32).reshape(30, 20)
    values[4, 4], values[5, 5], values[6, 6] = np.nan, np.inf, -np.inf
    result = rgb(Pil.fromarray(values))[..., 0]
    assert (result[0, 0], result[-1, -1]) == (0, 255)
    assert (result[4, 4], result[5, 5], result[6, 6]) == (0, 255, 0)
    assert result[15, 0] == round(float(300 / 599 * 255))
    assert rgb(Pil.fromarray(np.full((3, 3), np.nan, np.float32))).max() == 0


@pytest.mark.parametrize("strip", [60, 1 << 20])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_turning_agrees_with_pillow(orientation: int, strip: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "STRIP", strip)
    turns = {
        2: Pil.Transpose.FLIP_LEFT_RIGHT,
        3: Pil.Transpose.ROTATE_180,
        4: Pil.Transpose.FLIP_TOP_BOTTOM,
        5: Pil.Transpose.TRANSPOSE,
        6: Pil.Transpose.ROTATE_270,
        7: Pil.Transpose.TRANSVERSE,
        8: Pil.Transpose.ROTATE_90,
    }
    picture = Pil.fromarray(COLOUR)
    expected = picture.transpose(turns[orientation]) if orientation in turns else picture
    np.testing.assert_array_equal(rgb(picture, orientation), np.asarray(expected))


def test_large_pictures_are_shrunk_on_the_way_and_small_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    array = RNG.integers(0, 256, (61, 83, 3), dtype=np.uint8)
    np.testing.assert_array_equal(rgb(Pil.fromarray(array), factor=4), array)
    monkeypatch.setattr(pixels, "LARGE", 1000)
    for strip in (100, 1000, 1 << 20):
        monkeypatch.setattr(pixels, "STRIP", strip)
        result = rgb(Pil.fromarray(array), factor=4)
        np.testing.assert_array_equal(result, np.asarray(Pil.fromarray(array).reduce(4)))
        turned = rgb(Pil.fromarray(array), 6, factor=4)
        np.testing.assert_array_equal(turned, np.rot90(result, -1))


def test_a_large_picture_keeps_twice_the_side_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "LARGE", 1000)
    buffer = io.BytesIO()
    Pil.fromarray(RNG.integers(0, 256, (200, 900, 3), dtype=np.uint8)).save(buffer, "png")
    assert images.decode(buffer.getvalue(), 20).shape == (40, 180, 3)
    assert images.decode(buffer.getvalue()).shape == (200, 900, 3)
    assert images.thumbnail(buffer.getvalue(), 90).shape == (20, 90, 3)


def test_large_pictures_take_turns() -> None:
    turn = pixels.turns.wait(pixels.LARGE + 1)
    with turn:
        assert not turn.acquire(blocking=False)  # type: ignore[attr-defined]
        with pixels.turns.wait(pixels.LARGE):
            pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.timeout(30)
def test_a_child_of_a_process_that_decodes_a_large_picture_can_decode_one() -> None:
    with pixels.turns.wait(pixels.LARGE + 1):
        child = os.fork()
        if not child:
            with pixels.turns.wait(pixels.LARGE + 1):
                os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
