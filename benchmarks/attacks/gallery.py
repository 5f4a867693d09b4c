"""Small real files of every format that is read."""

import io
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil

from isch.errors import require


def scene(height: int = 48, width: int = 64) -> NDArray[np.uint8]:
    """A smooth picture with a bright corner, so that turns can be told apart."""
    y, x = np.mgrid[:height, :width]
    picture = np.stack([x * 200 // width, y * 200 // height, (x + y) * 100 // (width + height)], -1)
    picture[: height // 3, : width // 3] = 255
    return picture.astype(np.uint8)


def encoded(array: NDArray[Any], format: str, mode: str | None = None, **options: Any) -> bytes:
    """An array as the bytes of a picture file."""
    buffer = io.BytesIO()
    picture = Pil.fromarray(array)
    (picture.convert(mode) if mode else picture).save(buffer, format, **options)
    return buffer.getvalue()


def heic(array: NDArray[Any], **options: Any) -> bytes:
    """An array as the bytes of a HEIC file."""
    pillow_heif: Any = require("pillow_heif", "photos")
    buffer = io.BytesIO()
    pillow_heif.from_pillow(Pil.fromarray(array)).save(buffer, quality=90, **options)
    return buffer.getvalue()


def directory(entries: dict[int, tuple[int, Any]], start: int, following: int = 0) -> bytes:
    """A TIFF directory at a position of a file, its long values behind it; entries are {tag: (type, values)}."""
    codes = {1: "B", 2: "s", 3: "H", 4: "I", 5: "II", 7: "s", 10: "ii"}
    head, tail = struct.pack("<H", len(entries)), b""
    behind = start + 2 + 12 * len(entries) + 4
    for tag, (kind, values) in sorted(entries.items()):
        content = values if isinstance(values, bytes) else struct.pack(f"<{codes[kind][0] * len(values)}", *values)
        count = len(values) // (2 if kind in (5, 10) else 1)
        place = content.ljust(4, b"\0") if len(content) <= 4 else struct.pack("<I", behind + len(tail))
        head += struct.pack("<HHI", tag, kind, count) + place
        tail += content + b"\0" * (len(content) % 2) if len(content) > 4 else b""
    return head + struct.pack("<I", following) + tail


def dng(
    array: NDArray[np.uint8] | None = None,
    preview: bytes | None = None,
    orientation: int = 1,
    taken: bytes = b"2021:03:04 05:06:07\0",
) -> bytes:
    """A minimal camera RAW file: Bayer values of the array, and a JPEG preview of it unless it is empty."""
    array = scene(64, 96) if array is None else array
    height, width = array.shape[:2]
    preview = encoded(array, "jpeg", quality=95) if preview is None else preview
    bayer = np.empty((height, width), "<u2")
    bayer[::2, ::2], bayer[1::2, 1::2] = array[::2, ::2, 0], array[1::2, 1::2, 2]
    bayer[::2, 1::2], bayer[1::2, ::2] = array[::2, 1::2, 1], array[1::2, ::2, 1]
    values = (bayer * 200).tobytes()
    matrix = [n for row in np.eye(3, dtype=int).ravel() for n in (int(row), 1)]
    start, exif_at, raw_at = 8, 2000, 3000
    data_at = 4000
    first: dict[int, tuple[int, Any]] = {
        254: (4, [1]),
        271: (2, b"Maker\0"),
        272: (2, b"Model 1\0"),
        274: (3, [orientation]),
        330: (4, [raw_at]),
        34665: (4, [exif_at]),
        50706: (1, [1, 4, 0, 0]),
        50708: (2, b"Maker Model 1\0"),
        50721: (10, matrix),
        50728: (5, [1, 1, 1, 1, 1, 1]),
        50778: (3, [21]),
    }
    if preview:
        first |= {
            256: (4, [width]),
            257: (4, [height]),
            258: (3, [8, 8, 8]),
            259: (3, [7]),
            262: (3, [6]),
            273: (4, [data_at]),
            277: (3, [3]),
            278: (4, [height]),
            279: (4, [len(preview)]),
        }
    raw: dict[int, tuple[int, Any]] = {
        254: (4, [0]),
        256: (4, [width]),
        257: (4, [height]),
        258: (3, [16]),
        259: (3, [1]),
        262: (3, [32803]),
        273: (4, [data_at + len(preview)]),
        277: (3, [1]),
        278: (4, [height]),
        279: (4, [len(values)]),
        33421: (3, [2, 2]),
        33422: (1, [0, 1, 1, 2]),
        50714: (3, [0]),
        50717: (4, [51000]),
    }
    content = bytearray(data_at)
    content[:8] = b"II*\0" + struct.pack("<I", start)
    for at, part in (
        (start, directory(first, start)),
        (exif_at, directory({36867: (2, taken)}, exif_at)),
        (raw_at, directory(raw, raw_at)),
    ):
        content[at : at + len(part)] = part
    return bytes(content) + preview + values


def psd(array: NDArray[np.uint8]) -> bytes:
    """A Photoshop file without layers."""
    height, width = array.shape[:2]
    head = b"8BPS" + struct.pack(">H6xHIIHH", 1, 3, height, width, 8, 3)
    return head + bytes(12) + b"\0\0" + np.moveaxis(array, 2, 0).tobytes()


def tagged() -> Pil.Exif:
    """EXIF of a camera held upright, the picture lying."""
    exif = Pil.Exif()
    exif[0x010F], exif[0x0110], exif[0x0112] = "Maker", "Model", 6
    return exif


def frames() -> dict[str, Any]:
    """Options that save two more frames."""
    return {"save_all": True, "append_images": [Pil.fromarray(np.roll(scene(), 9 * i, 0)) for i in (1, 2)]}


SAMPLES: dict[str, Callable[[], bytes]] = {
    "plain.jpg": lambda: encoded(scene(), "jpeg", exif=tagged()),
    "progressive.jpg": lambda: encoded(scene(), "jpeg", progressive=True),
    "cmyk.jpg": lambda: encoded(scene(), "jpeg", "CMYK"),
    "plain.png": lambda: encoded(scene(), "png", exif=tagged()),
    "palette.png": lambda: encoded(scene(), "png", "P"),
    "deep.png": lambda: encoded(scene()[..., 0].astype(np.uint16) * 256, "png"),
    "animated.png": lambda: encoded(scene(), "png", **frames()),
    "animated.gif": lambda: encoded(scene(), "gif", **frames()),
    "plain.bmp": lambda: encoded(scene(), "bmp"),
    "plain.tif": lambda: encoded(scene(), "tiff", exif=tagged()),
    "deflate.tif": lambda: encoded(scene(), "tiff", compression="tiff_deflate"),
    "jpeg.tif": lambda: encoded(scene(), "tiff", compression="jpeg"),
    "fax.tif": lambda: encoded(scene(), "tiff", "1", compression="group4"),
    "plain.webp": lambda: encoded(scene(), "webp", exif=tagged()),
    "lossless.webp": lambda: encoded(scene(), "webp", lossless=True),
    "animated.webp": lambda: encoded(scene(), "webp", **frames()),
    "plain.avif": lambda: encoded(scene(), "avif", exif=tagged()),
    "plain.heic": lambda: heic(scene()),
    "square.heic": lambda: heic(scene(64, 64)),
    "plain.jp2": lambda: encoded(scene(), "jpeg2000"),
    "plain.j2k": lambda: encoded(scene(), "jpeg2000", no_jp2=True),
    "plain.ppm": lambda: encoded(scene(), "ppm"),
    "text.pgm": lambda: b"P2 4 2 255\n0 1 2 3\n4 5 6 250\n",
    "plain.pcx": lambda: encoded(scene(), "pcx"),
    "plain.tga": lambda: encoded(scene(), "tga"),
    "packed.tga": lambda: encoded(scene(), "tga", compression="tga_rle"),
    "plain.psd": lambda: psd(scene()),
    "preview.dng": dng,
    "plain.dng": lambda: dng(preview=b""),
}  # one file of every format that is read, and of its kinds that are decoded differently
