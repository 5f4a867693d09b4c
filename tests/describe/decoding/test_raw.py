"""HEIC and camera RAW."""

from datetime import datetime
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from isch.describe import images
from isch.describe.decoding.reader import Trait
from isch.errors import FormatError

pytest.importorskip("rawpy")
UPRIGHT = {1: 0, 3: 2, 6: -1, 8: 1}  # quarter turns to the left that make a picture upright, by orientation


def corner(picture: np.ndarray) -> tuple[int, int]:
    """(row, column), 0 or 1 each, of the corner that is brightest."""
    ends = (0, -1)
    return max(((i, j) for i in (0, 1) for j in (0, 1)), key=lambda at: int(picture[ends[at[0]], ends[at[1]]].sum()))


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("kind", ["preview", "developed"])
def test_raw_is_upright(make: ModuleType, kind: str, orientation: int) -> None:
    content = make.dng(orientation=orientation, preview=None if kind == "preview" else b"")
    expected = np.rot90(make.scene(64, 96), UPRIGHT[orientation])
    picture = images.decode(content)
    assert picture.shape[0] * (1 if kind == "preview" else 2) == expected.shape[0]
    assert corner(picture) == corner(expected)
    facts = images.facts(content)
    assert (facts.height, facts.width) == expected.shape[:2]
    assert facts.orientation == orientation


def test_the_preview_is_the_picture(make: ModuleType) -> None:
    array = make.scene(640, 960)
    picture = images.decode(make.dng(array))
    assert picture.shape == array.shape
    assert np.abs(picture.astype(int) - array).mean() < 2
    assert images.decode(make.dng(array), side=64).shape == (160, 240, 3)  # a JPEG, so decoded at reduced size


def test_a_preview_that_is_too_small_does_not_stand_in(make: ModuleType) -> None:
    content = make.dng(make.scene(640, 960), preview=make.encoded(make.scene(60, 90), "jpeg"))
    assert images.decode(content).shape == (320, 480, 3)
    assert images.decode(content, side=50).shape == (60, 90, 3)
    assert images.decode(content, side=100).shape == (320, 480, 3)


@pytest.mark.parametrize("preview", [b"no JPEG at all", b"\xff\xd8\xff\xe0" + bytes(500)])
def test_a_damaged_preview_does_not_hide_the_rest(make: ModuleType, preview: bytes) -> None:
    content = make.dng(preview=preview)
    assert images.decode(content).shape == (32, 48, 3)
    assert images.facts(content).make == "Maker"


def test_a_damaged_rest_does_not_hide_the_preview(make: ModuleType) -> None:
    preview = make.encoded(make.scene(30, 40), "jpeg")
    content = make.dng(make.scene(640, 960), preview=preview)[: 4000 + len(preview)]
    assert images.decode(content).shape == (30, 40, 3)
    with pytest.raises(FormatError, match="^the picture: damaged"):
        images.decode(make.dng(preview=b"")[:4500])


def test_facts_of_raw(make: ModuleType) -> None:
    facts = images.facts(make.dng())
    assert facts == images.Facts(96, 64, "RAW", 1, datetime(2021, 3, 4, 5, 6, 7), "Maker", "Model 1", facts.traits)
    assert Trait.DATED in facts.traits


def test_raw_is_known_by_content_and_tiff_by_name(make: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.tif").write_bytes(make.dng())
    assert images.facts(tmp_path / "a.tif").format == "RAW"
    (tmp_path / "a.nef").write_bytes(make.encoded(make.scene(), "tiff"))
    with pytest.raises(FormatError, match="a.nef: damaged .Unsupported file format or not RAW file"):
        images.decode(tmp_path / "a.nef")


def test_files_beside_a_raw_are_not_opened(make: ModuleType, tmp_path: Path) -> None:
    """LibRaw given a name looks for a JPEG of the same name."""
    (tmp_path / "a.dng").write_bytes(make.dng(preview=b""))
    (tmp_path / "a.jpg").write_bytes(make.encoded(make.scene(640, 960), "jpeg"))
    assert images.decode(tmp_path / "a.dng").shape == (32, 48, 3)


def test_a_sensor_of_absurd_size_is_refused(make: ModuleType) -> None:
    content = bytearray(make.dng())
    for tag in (256, 257):
        at = content.index(tag.to_bytes(2, "little") + b"\4\0\1\0\0\0", 3000)
        content[at + 8 : at + 12] = (40_000).to_bytes(4, "little")
    with pytest.raises(FormatError, match="40000 × 40000 pixels are too many for a picture of format RAW"):
        images.decode(bytes(content))


@pytest.mark.parametrize("orientation", UPRIGHT)
def test_heic_is_turned_once(make: ModuleType, orientation: int) -> None:
    """The file tells the turn twice, as its own property and in EXIF, and the second must not count."""
    from PIL import Image as Pil

    exif = Pil.Exif()
    exif[0x0112], exif[0x010F] = orientation, "Maker"
    array = make.scene(64, 96)
    content = make.heic(array, exif=exif.tobytes())
    expected = np.rot90(array, UPRIGHT[orientation])
    picture = images.decode(content)
    assert picture.shape == expected.shape
    assert np.abs(picture.astype(int) - expected).mean() < 6
    facts = images.facts(content)
    assert (facts.height, facts.width, facts.make) == (*expected.shape[:2], "Maker")


def test_heic_with_transparency_lies_on_white(make: ModuleType) -> None:
    rgba = np.zeros((64, 64, 4), np.uint8)
    rgba[32:, :, 3] = 255
    picture = images.decode(make.heic(rgba))
    assert picture[:16].min() > 240
    assert picture[48:].max() < 15
