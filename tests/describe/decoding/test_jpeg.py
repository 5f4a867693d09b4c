"""JPEG headers: what decoding will cost."""

import io

import numpy as np
import pytest
from PIL import Image as Pil

from isch.describe import images
from isch.describe.decoding import jpeg
from isch.errors import FormatError


def encoded(width: int, height: int, **options: object) -> bytes:
    buffer = io.BytesIO()
    Pil.new("RGB", (width, height), (9, 99, 200)).save(buffer, "jpeg", **options)
    return buffer.getvalue()


def with_segments(segments: bytes) -> bytes:
    content = encoded(16, 16)
    return content[:20] + segments + content[20:]  # behind the first, JFIF


def scanned(width: int, height: int, scans: int) -> bytes:
    """A progressive JPEG whose last scan, a hundred bytes long, comes again and again."""
    content = encoded(width, height, progressive=True)
    return content[:-2] + content[content.rfind(b"\xff\xda") : -2] * scans + content[-2:]


def test_size_and_kind_are_read() -> None:
    assert jpeg.frame(io.BytesIO(encoded(50, 30))) == jpeg.Frame(50, 30, buffered=False)
    assert jpeg.frame(io.BytesIO(encoded(50, 30, progressive=True))) == jpeg.Frame(50, 30, buffered=True)


def test_several_sequential_scans_are_held_in_memory_too() -> None:
    content = bytearray(encoded(50, 30))
    scan = content.index(b"\xff\xda")
    content[scan + 2 : scan + 5] = b"\0\x08\x01"  # the first scan holds one component of three
    assert jpeg.frame(io.BytesIO(bytes(content))).buffered


def test_padding_and_stray_bytes_between_segments_are_skipped() -> None:
    content = with_segments(b"\xff\xff\xff\xfe\0\x05abc" + b"stray" + b"\xff\xfe\0\2")
    assert jpeg.frame(io.BytesIO(content)) == jpeg.Frame(16, 16, buffered=False)
    assert images.decode(content).shape == (16, 16, 3)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 30])
def test_long_headers_are_read_to_their_end(count: int) -> None:
    for stray in (0, 60_000):
        segment = bytes(stray) + b"\xff\xe5\xff\xff" + b"\xff\xda" * 32766 + b"\0"
        assert jpeg.frame(io.BytesIO(with_segments(segment * count))) == jpeg.Frame(16, 16, buffered=False)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "content",
    [
        with_segments(bytes(100 << 20)),
        with_segments(b"\xff" * (100 << 20)),
        with_segments(b"\xff\xfe\0\2" * (10 << 20)),
        with_segments((b"\xff\xe1\xff\xffExif\0\0" + bytes(65527)) * 100),
        with_segments(b"")[:100],
        b"\xff\xd8\xff\xda\0\x02",
    ],
    ids=["zeros", "fill bytes", "segments", "exif", "cut", "no frame"],
)
def test_endless_headers_are_refused_at_once(content: bytes) -> None:
    for read in (images.decode, images.facts):
        with pytest.raises(FormatError, match="^the picture: damaged"):
            read(content)


@pytest.mark.timeout(20)
def test_thousands_of_scans_do_not_hang() -> None:
    with pytest.raises(FormatError, match="damaged .more than [0-9]+ scans of 4000 × 4000 pixels"):
        images.decode(scanned(4000, 4000, 5000), side=64)
    assert images.decode(scanned(40, 40, 50)).shape == (40, 40, 3)


def test_scans_are_counted_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    content = scanned(40, 40, 30)
    for block in range(20, 40):
        monkeypatch.setattr(jpeg, "BLOCK", block)
        monkeypatch.setattr(jpeg, "MAX_SCANNED", 40 * 40 * 40)
        assert jpeg.frame(io.BytesIO(content)).buffered
        monkeypatch.setattr(jpeg, "MAX_SCANNED", 40 * 40 * 39)
        with pytest.raises(FormatError, match="more than 40 scans"):
            jpeg.frame(io.BytesIO(content))


def test_large_jpegs_are_decoded_at_reduced_size_only() -> None:
    limits = images.Limits(pixels=100_000, jpeg_pixels=1_000_000)
    content = encoded(900, 900)
    assert images.decode(content, 100, limits).shape == (225, 225, 3)
    with pytest.raises(FormatError, match="900 × 900 pixels are too many for .* JPEG; the limit is 0.1 million"):
        images.decode(content, None, limits)
    with pytest.raises(FormatError, match="1100 × 1100 .* the limit is 1 million"):
        images.decode(encoded(1100, 1100), 100, limits)
    with pytest.raises(FormatError, match="900 × 900 .* the limit is 0.1"):  # held in memory whatever the reduction
        images.decode(encoded(900, 900, progressive=True), 100, limits)


def test_a_reduced_picture_is_the_same_picture() -> None:
    rng = np.random.default_rng(0)
    array = np.kron(rng.integers(0, 255, (8, 12, 3)), np.ones((64, 64, 1))).astype(np.uint8)
    buffer = io.BytesIO()
    Pil.fromarray(array).save(buffer, "jpeg", quality=95)
    reduced = images.decode(buffer.getvalue(), side=60)
    assert reduced.shape == (128, 192, 3)
    assert np.abs(images.resize(reduced, 8, 12) - images.resize(array, 8, 12).astype(int)).max() < 12
