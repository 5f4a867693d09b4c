"""What is read, and what is refused before any reader sees it."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pil

from isch.describe import images
from isch.describe.decoding import formats
from isch.errors import FormatError

EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 10 10
%%EndComments
(ran) (w) file closefile
{} loop
"""
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


@pytest.fixture
def ghostscript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named gs in front of all others, which leaves a file when it is started."""
    if os.name == "nt":
        pytest.skip("the program is a shell script")
    program, trace = tmp_path / "bin" / "gs", tmp_path / "started"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {trace}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return trace


@pytest.mark.timeout(30)
@pytest.mark.parametrize("start", [b"", b"\xc5\xd0\xd3\xc6\x1e\0\0\0" + len(EPS).to_bytes(4, "little") + bytes(18)])
def test_postscript_named_as_a_picture_is_refused_and_starts_nothing(
    tmp_path: Path, ghostscript: Path, start: bytes
) -> None:
    path = tmp_path / "holiday.jpg"
    path.write_bytes(start + EPS)
    for read in (images.decode, images.facts):
        with pytest.raises(FormatError, match="holiday.jpg: not a picture in a supported format"):
            read(path)
    with pytest.raises(FormatError, match="^the picture: not a picture"):
        images.decode(start + EPS)
    assert not ghostscript.exists()


def test_the_trap_for_ghostscript_works(tmp_path: Path, ghostscript: Path) -> None:
    """Pillow left to itself starts it; so the test above can fail."""
    path = tmp_path / "holiday.jpg"
    path.write_bytes(EPS)
    with Pil.open(path) as picture, pytest.raises(Exception):  # noqa: B017, PT011
        picture.load()
    assert ghostscript.exists()


def test_only_listed_readers_are_ever_used() -> None:
    """No plugin of the list starts a program or opens a file by a name that it found in the picture."""
    starters = {"EpsImagePlugin", "WmfImagePlugin", "IcoImagePlugin", "IcnsImagePlugin", "CurImagePlugin"}
    used = {format.reader.partition(":")[0].removeprefix("PIL.") for format in formats.FORMATS}
    assert not used & starters
    assert used == {
        *("JpegImagePlugin", "PngImagePlugin", "GifImagePlugin", "BmpImagePlugin", "TiffImagePlugin"),
        *("WebPImagePlugin", "AvifImagePlugin", "Jpeg2KImagePlugin", "PsdImagePlugin", "PpmImagePlugin"),
        *("PcxImagePlugin", "TgaImagePlugin", "pillow_heif", ""),
    }


@pytest.mark.parametrize("content", [SVG, b"%PDF-1.7\n", b"\0\0\1\0\1\0", b"qoif" + bytes(20), b"II+\0" + bytes(20)])
def test_what_is_not_listed_is_refused(content: bytes) -> None:
    with pytest.raises(FormatError, match="not a picture in a supported format .JPEG, PNG, .*RAW.$"):
        images.decode(content)


def test_every_sample_is_recognised_by_its_content(gallery: Path) -> None:
    for path in gallery.iterdir():
        content = path.read_bytes()
        if path.suffix == ".tga":  # without a signature: only by its name
            assert formats.recognised(content[: formats.HEAD]) is None
        else:
            assert images.facts(content).format == images.facts(path).format, path.name
            np.testing.assert_array_equal(images.decode(content), images.decode(path))


def test_every_format_has_a_sample_and_a_suffix(gallery: Path) -> None:
    assert {images.facts(path).format for path in gallery.iterdir()} == {format.name for format in formats.FORMATS}
    assert {path.suffix for path in gallery.iterdir()} <= formats.SUFFIXES
    assert sorted(images.find(gallery).paths) == sorted(map(str, gallery.iterdir()))


def test_names_mislead_nobody(gallery: Path, tmp_path: Path) -> None:
    for path in gallery.iterdir():
        if path.suffix not in (".tga", ".dng"):
            other = tmp_path / f"{path.stem}{path.suffix[1:]}.jpg"
            other.write_bytes(path.read_bytes())
            np.testing.assert_array_equal(images.decode(other), images.decode(path))


def test_docs_name_every_format() -> None:
    docs = Path(__file__).parents[3] / "docs" / "descriptors.md"
    text = docs.read_text()
    for format in formats.FORMATS:
        assert format.name in text
        assert all(f"`.{suffix}`" in text for suffix in format.suffixes), format.name
