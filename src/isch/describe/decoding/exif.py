"""Values from the EXIF block of a picture; a damaged block counts as empty."""

import io
import struct
from contextlib import suppress
from datetime import datetime
from typing import Any, BinaryIO

from isch.describe.decoding import tiff
from isch.describe.decoding.opening import brief
from isch.describe.decoding.tiff import Directory

MAX_BLOCK = 1 << 20
MAX_TEXT = 100
MAKE, MODEL, ORIENTATION, SOFTWARE, CHANGED, TAKEN, DIGITISED = 271, 272, 274, 305, 306, 36867, 36868
WIDTH, HEIGHT = 40962, 40963
PREFIX = b"Exif\0\0"


def of_image(image: Any) -> Directory | None:
    """The first directory of the EXIF block that came with an open PIL image."""
    block = image.info.get("exif")
    if not isinstance(block, bytes) or len(block) > MAX_BLOCK:
        return None
    return of_file(io.BytesIO(block.removeprefix(PREFIX)))


def of_file(file: BinaryIO) -> Directory | None:
    """The first directory of a TIFF or camera RAW file."""
    with suppress(ValueError, struct.error):
        return tiff.first_directory(file)
    return None


def orientation(exif: Directory | None) -> int:
    """How the camera was held, from 1 (upright) to 8."""
    with suppress(ValueError, struct.error):
        value = exif.integer(ORIENTATION) if exif else None
        return value if value is not None and 1 <= value <= 8 else 1
    return 1


def text(exif: Directory | None, tag: int) -> str:
    """The text of a tag on one line, at most ``MAX_TEXT`` characters; empty if there is none."""
    with suppress(ValueError, struct.error):
        content = (exif.text(tag, 4 * MAX_TEXT) if exif else None) or b""
        return brief(content.partition(b"\0")[0].decode("utf-8", "replace"), MAX_TEXT)
    return ""


def taken(exif: Directory | None) -> datetime | None:
    """When the picture was taken, in the camera's local time; if unknown, when it was digitised or changed."""
    return shot(exif) or _moment(exif, CHANGED)


def shot(exif: Directory | None) -> datetime | None:
    """When the picture was taken or digitised, in the camera's local time; a date of change does not count."""
    with suppress(ValueError, struct.error):
        inner = exif.inner(tiff.EXIF) if exif else None
        return _moment(inner, TAKEN) or _moment(inner, DIGITISED)
    return None


def size(exif: Directory | None) -> tuple[int, int] | None:
    """The width and height that the camera recorded; programs that change the size often leave them as they were."""
    with suppress(ValueError, struct.error):
        inner = exif.inner(tiff.EXIF) if exif else None
        width = inner.integer(WIDTH) if inner else None
        height = inner.integer(HEIGHT) if inner else None
        return (width, height) if width and height else None
    return None


def _moment(exif: Directory | None, tag: int) -> datetime | None:
    with suppress(ValueError):
        return datetime.strptime(text(exif, tag)[:19].replace("-", ":"), "%Y:%m:%d %H:%M:%S")
    return None
