"""Pictures and facts of every format."""

import io
import struct
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pil

from isch.describe import images
from isch.describe.decoding.reader import Trait
from isch.errors import InputError

LOSSLESS = {".png", ".bmp", ".tif", ".ppm", ".pcx", ".tga", ".psd", ".jp2", ".j2k"}
UPRIGHT = {"plain.jpg", "plain.png", "plain.tif", "plain.webp", "plain.avif"}  # stored with orientation 6


@pytest.fixture(scope="module")
def original(gallery: Path) -> NDArray[np.uint8]:
    return images.decode(gallery / "plain.bmp")


def test_every_format_gives_the_picture(gallery: Path, original: NDArray[np.uint8]) -> None:
    special = {
        "text.pgm",
        "deep.png",
        "fax.tif",
        "palette.png",
        "animated.gif",
        "preview.dng",
        "plain.dng",
        "square.heic",
    }
    for path in sorted(gallery.iterdir()):
        if path.name not in special:
            expected = np.rot90(original, -1) if path.name in UPRIGHT else original
            result = images.decode(path)
            assert result.shape == expected.shape, path.name
            difference = np.abs(result.astype(int) - expected)
            exact = path.suffix in LOSSLESS and path.name != "jpeg.tif"
            assert difference.mean() < (0.5 if exact else 6), path.name
            assert result.flags.c_contiguous
            assert result.flags.writeable


def test_pixels_and_facts_come_together(gallery: Path) -> None:
    for path in gallery.iterdir():
        for side in (None, 16):
            image, facts = images.with_facts(io.BytesIO(path.read_bytes()), str(path), side)
            np.testing.assert_array_equal(image, images.decode(path, side), path.name)
            assert facts == images.facts(path)


def test_the_first_frame_counts(gallery: Path, original: NDArray[np.uint8]) -> None:
    for name in ("animated.png", "animated.webp", "animated.gif"):
        assert np.abs(images.decode(gallery / name).astype(int) - original).mean() < 12, name


def test_facts_are_those_of_the_decoded_picture(gallery: Path) -> None:
    for path in gallery.iterdir():
        facts = images.facts(path)
        height, width = images.decode(path).shape[:2]
        scale = 2 if path.name == "plain.dng" else 1  # developed at half size
        assert (facts.width, facts.height) == (scale * width, scale * height), path.name
        assert facts.orientation == (6 if path.name in UPRIGHT else 1)
        known = path.name in UPRIGHT or path.suffix == ".dng"
        assert (facts.make, facts.model[:5]) == (("Maker", "Model") if known else ("", "")), path.name


def exif_block(entries: list[tuple[int, int, int, bytes]], rest: bytes = b"") -> bytes:
    body = b"".join(struct.pack("<HHI4s", tag, kind, count, value) for tag, kind, count, value in entries)
    return b"II*\0\x08\0\0\0" + struct.pack("<H", len(entries)) + body + bytes(4) + rest


def with_exif(block: bytes, format: str = "png") -> bytes:
    buffer = io.BytesIO()
    Pil.new("RGB", (6, 4)).save(buffer, format, exif=b"Exif\0\0" + block)
    return buffer.getvalue()


@pytest.mark.parametrize("format", ["jpeg", "png", "webp"])
def test_date_and_camera(format: str) -> None:
    exif = Pil.Exif()
    exif[0x010F], exif[0x0110], exif[0x0132] = "Leica Camera AG", "Q2", "2020:01:01 00:00:00"
    exif.get_ifd(0x8769)[0x9003] = "2019:08:07 06:05:04"
    facts = images.facts(with_exif(exif.tobytes()[6:], format))
    assert facts.taken == datetime(2019, 8, 7, 6, 5, 4)
    assert (facts.make, facts.model) == ("Leica Camera AG", "Q2")
    exif.get_ifd(0x8769).clear()
    assert images.facts(with_exif(exif.tobytes()[6:], format)).taken == datetime(2020, 1, 1)


def test_traits_tell_what_was_done_to_a_picture(gallery: Path) -> None:
    exif = Pil.Exif()
    exif[0x0132] = "2020:01:01 00:00:00"
    assert images.facts(with_exif(exif.tobytes()[6:])).traits == Trait.NONE  # when it was changed tells nothing
    exif.get_ifd(0x8769).update({0x9003: "2019:08:07 06:05:04", 0xA002: 6, 0xA003: 4})
    exif[0x0131] = "16.3.1"  # a telephone names its system here
    assert images.facts(with_exif(exif.tobytes()[6:])).traits == Trait.DATED
    exif.get_ifd(0x8769)[0xA002] = 12
    exif[0x0131] = "Adobe Photoshop 25.0 (Windows)"
    assert images.facts(with_exif(exif.tobytes()[6:])).traits == Trait.DATED | Trait.EDITED | Trait.RESIZED
    animated = {path.name for path in gallery.iterdir() if Trait.FRAMES in images.facts(path).traits}
    assert animated == {"animated.gif", "animated.png", "animated.webp"}


@pytest.mark.parametrize("quality", [30, 75, 92, 100])
def test_the_quality_of_a_jpeg_is_known(quality: int) -> None:
    buffer = io.BytesIO()
    Pil.new("RGB", (16, 16)).save(buffer, "jpeg", quality=quality)
    assert abs(images.facts(buffer.getvalue()).quality - quality) <= 1


@pytest.mark.parametrize("text", ["0000:00:00 00:00:00", "    :  :     :  :  ", "2019:13:45 99:99:99", "yesterday", ""])
def test_odd_dates_are_no_dates(text: str) -> None:
    exif = Pil.Exif()
    exif[0x0132] = text
    assert images.facts(with_exif(exif.tobytes()[6:])).taken is None


def test_camera_names_of_strangers_are_harmless() -> None:
    long = b"<img onerror=x>\r\n\x1b[2J\xff\xfe" + "\u202e".encode() + b"A" * 5000
    block = exif_block([(271, 2, len(long), struct.pack("<I", 50)), (272, 2, 1 << 31, struct.pack("<I", 50))])
    facts = images.facts(with_exif(block.ljust(50, b"\0") + long))
    for text in (facts.make, facts.model):
        assert text.startswith("<img onerror=x> [2J\ufffd\ufffd A")
        assert len(text) <= 100
        assert text.isprintable()


DAMAGED = [
    b"",
    b"II*\0",
    b"II*\0\xff\xff\xff\xff",
    b"XX*\0\x08\0\0\0",
    exif_block([(274, 3, 1, b"\x63\0\0\0")]),
    exif_block([(274, 2, 1, b"6\0\0\0")]),
    exif_block([(274, 3, 0, b"\6\0\0\0")]),
    exif_block([(34665, 4, 1, struct.pack("<I", 8))] * 3),  # a directory that is its own child
    exif_block([(34665, 4, 1, b"\xff\xff\xff\xff")]),
    exif_block([(306, 2, 20, b"\xff\xff\xff\x7f"), (271, 5, 1 << 30, b"\xff\xff\xff\xff")]),
]


@pytest.mark.parametrize("block", DAMAGED)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_damaged_exif_says_nothing(block: bytes) -> None:
    content = with_exif(block)
    facts = images.facts(content)
    assert (facts.width, facts.height, facts.orientation, facts.taken) == (6, 4, 1, None)
    assert images.decode(content).shape == (4, 6, 3)


def test_huge_exif_is_not_read() -> None:
    block = exif_block([(274, 3, 1, b"\6\0\0\0")], bytes(2 << 20))
    assert images.facts(with_exif(block)).orientation == 1


@pytest.mark.parametrize("source", [None, 5, np.zeros((4, 4, 3), np.uint8)])
def test_only_files_have_facts(source: object) -> None:
    with pytest.raises(InputError, match="expected a path or the bytes of a file; got"):
        images.facts(source)
