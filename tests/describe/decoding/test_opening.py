"""What a picture may cost is checked before it is decoded, and whatever a decoder raises becomes ours."""

import io
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from attacks.pictures import png, tiff
from PIL import Image as Pil

from isch.describe import images
from isch.describe.decoding import formats, opening
from isch.describe.decoding.opening import Meter, Target, brief, guarded
from isch.errors import FileError, FormatError, InputError, MissingExtra, ParameterError


def announced(name: str, width: int, height: int, gallery: Path) -> bytes:
    """A sample whose header lies about its size."""
    content = bytearray((gallery / name).read_bytes())
    match name.rpartition(".")[2]:
        case "png":
            return png(width, height, (b"IDAT", zlib.compress(bytes(100))))
        case "gif":
            content[6:10] = struct.pack("<HH", width, height)
        case "bmp":
            content[18:26] = struct.pack("<ii", width, height)
        case "ppm":
            content[:13] = f"P6 {width} {height} 255\n".encode()
        case "tga":
            content[12:16] = struct.pack("<HH", width, height)
        case "psd":
            content[14:22] = struct.pack(">II", height, width)
        case "webp":
            content = bytearray(b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\xff\x27\0" * 2)
        case "jp2":
            at = content.index(b"ihdr") + 4
            content[at : at + 8] = struct.pack(">II", height, width)
        case "tif":
            return tiff([(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (262, 3, 1, 1), (273, 4, 1, 8)])
        case _:
            at = content.index(b"ispe") + 8
            content[at : at + 8] = struct.pack(">II", width, height)
    return bytes(content)


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "name",
    [
        *("plain.png", "animated.gif", "plain.bmp", "plain.ppm", "plain.tga", "plain.psd", "plain.tif", "plain.jp2"),
        *("plain.avif", "square.heic"),
    ],
)
def test_too_many_pixels_are_refused_by_the_header_alone(name: str, gallery: Path, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(announced(name, 13000, 13000, gallery))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Pillow, for GIF
        for read in (images.decode, images.facts, lambda path: images.decode(path, side=8)):
            with pytest.raises(FormatError, match=": 13000 × 13000 pixels are too many for a picture of format"):
                read(path)


def test_webp_is_refused_by_the_header_too(gallery: Path) -> None:
    with pytest.raises(FormatError, match="^the picture: (too many pixels|10240 × 10240|damaged)"):
        images.decode(announced("plain.webp", 0, 0, gallery))


def test_the_caller_may_allow_less(gallery: Path) -> None:
    content = (gallery / "plain.png").read_bytes()
    assert images.decode(content, limits=images.Limits(pixels=48 * 64)).shape == (64, 48, 3)
    with pytest.raises(FormatError, match="^the picture: 64 × 48 pixels are too many .*; the limit is 0.003 million"):
        images.decode(content, limits=images.Limits(pixels=3000))
    with pytest.raises(FormatError, match="^the picture: [0-9,]+ bytes are too many .*; the limit is [0-9,]+ bytes$"):
        images.decode(content, limits=images.Limits(file_bytes=len(content) - 1))


def test_no_limit_of_a_format_is_above_the_default() -> None:
    for format in formats.FORMATS:
        assert format.pixels <= images.LIMITS.pixels
        assert format.file_bytes <= images.LIMITS.file_bytes


TINY = zlib.compress(bytes(40 * 121))
LONG = b"k\0\0" + zlib.compress(bytes(20 << 20))
BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "profile": ("too large", lambda: png(40, 40, (b"iCCP", LONG), (b"IDAT", TINY))),
    "text": ("too large", lambda: png(40, 40, (b"zTXt", LONG), (b"IDAT", TINY))),
    "metadata": ("takes too long", lambda: png(40, 40, (b"prIv", bytes(80 << 20)), (b"IDAT", TINY))),
    "chunks": ("takes too long", lambda: png(2000, 2000)[:-12] + b"\0\0\0\0IDAT\x35\xaf\x06\x1e" * 50_000),
    "comment": ("takes too long", lambda: b"P6 #" + b"x" * 200_000),
    "strips": (
        "4194307 numbers",
        lambda: tiff([(256, 4, 1, 4), (257, 4, 2, 0), (273, 4, 1 << 22, 200)], bytes(17 << 20)),
    ),
    "inner directory": (
        "2097156 numbers",
        lambda: tiff([(34665, 4, 1, 8), (256, 5, 1 << 19, 0), (257, 5, (1 << 19) + 1, 0)]),
    ),
    "directory behind a damaged one": (
        "2097153 numbers",
        lambda: (
            tiff([(34665, 4, 1, 1 << 31), (34853, 4, 1, 50)]).ljust(50, b"\0") + tiff([(1, 4, (1 << 21) - 1, 0)])[8:]
        ),
    ),
    "text file": ("bytes are too many", lambda: b"P1 5000 5000\n" + b"1" * 25_000_000),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "MAX_CALLS", 100_000)  # the same sooner
    reason, made = BOMBS[name]
    with pytest.raises(FormatError, match=f"^the picture: .*{reason}"):
        images.decode(made())


def test_a_sparse_file_without_end_is_refused_at_once(gallery: Path, tmp_path: Path) -> None:
    for name in ("plain.jpg", "plain.png", "plain.webp", "plain.avif", "plain.heic", "preview.dng"):
        path = tmp_path / name
        path.write_bytes((gallery / name).read_bytes()[:100])
        with path.open("ab") as file:
            file.truncate(5 << 30)
        with pytest.raises(FormatError, match="5,368,709,120 bytes are too many for a picture of format"):
            images.decode(path)


def test_a_meter_stops_reading_too_often_or_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "MAX_CALLS", 10)
    often = Meter(io.BytesIO(bytes(100)), 1000)
    with pytest.raises(FormatError, match="takes too long"):
        for _ in range(11):
            often.read(1)
    much = Meter(io.BytesIO(bytes(100)), 50)
    with pytest.raises(FormatError, match="takes too long"):
        much.read()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (SyntaxError("broken\nchunk \x1b[31m"), "x: damaged (broken chunk [31m)"),
        (struct.error(), "x: damaged (error)"),
        (MemoryError(), "x: too large for the available memory"),
        (Pil.DecompressionBombError("long"), "x: too many pixels"),
        (OSError("truncated"), "x: damaged (truncated)"),
        (ValueError(b"bytes of LibRaw"), "x: damaged (bytes of LibRaw)"),
        (RecursionError("a" * 999), f"x: damaged ({'a' * 200})"),
        (FormatError("ours"), "x: ours"),
        (MissingExtra("pip install 'isch[photos]'"), "x: pip install 'isch[photos]'"),
    ],
)
def test_whatever_a_decoder_raises_becomes_one_sentence(error: Exception, expected: str) -> None:
    with pytest.raises(FormatError) as raised, guarded("x"):
        raise error
    assert str(raised.value) == expected


def test_errors_of_the_system_and_interruptions_keep_their_meaning() -> None:
    with pytest.raises(FileError, match="^x: Input/output error$"), guarded("x"):
        raise OSError(5, "Input/output error")
    with pytest.raises(KeyboardInterrupt), guarded("x"):
        raise KeyboardInterrupt


def test_text_of_strangers_is_one_short_line() -> None:
    assert brief("a\r\n\tb\x00\x1b[0m\u202ec\u2028d \ud800e") == "a b [0m c d e"
    assert brief("x" * 500, 100) == "x" * 100


def test_targets() -> None:
    assert Target().factor(1000, 10) == 1
    assert Target(50).factor(1000, 400) == 4
    assert Target(50).factor(1000, 40) == 1
    assert Target(50, longer=True).factor(1000, 400) == 10
    assert Target(50, longer=True).factor(1000, 3) == 3


@pytest.mark.parametrize("side", [0, -3])
def test_a_side_is_positive(side: int, gallery: Path) -> None:
    for read in (images.decode, images.thumbnail):
        with pytest.raises(ParameterError, match=f"side must be at least 1; got {side}"):
            read(gallery / "plain.jpg", side)


def test_thumbnails_have_the_longer_side(gallery: Path) -> None:
    assert images.thumbnail(gallery / "plain.jpg", 32).shape == (32, 24, 3)
    assert images.thumbnail(gallery / "plain.jpg", 500).shape == (64, 48, 3)
    assert images.thumbnail(np.zeros((2, 1000, 3), np.uint8), 100).shape == (1, 100, 3)
    with pytest.raises(InputError):
        images.thumbnail(None, 100)


def test_without_the_extra_the_sentence_names_it(gallery: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    monkeypatch.setitem(sys.modules, "rawpy", None)
    for name, package in (("plain.heic", "pillow_heif"), ("preview.dng", "rawpy")):
        for read in (images.decode, images.facts):
            with pytest.raises(FileError, match=rf"{name}: {package} is needed .* pip install 'isch\[photos\]'$"):
                read(gallery / name)
