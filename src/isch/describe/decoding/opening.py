"""Opening a picture with exactly one reader, after checking its cost and before decoding anything."""

import os
import struct
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from isch.describe.decoding import formats, jpeg, tiff
from isch.describe.decoding.formats import Format, Limits
from isch.errors import FileError, FormatError, MissingExtra, ParameterError, require

MAX_CALLS = 2_000_000  # of ``read``; a few seconds in Pillow's Python loops
MAX_REREAD = 4  # times the size of the file may be read in total, plus ``SLACK``
SLACK = 256 * formats.MIB
MAX_NUMBERS = 1 << 20  # in the directories of a TIFF: readers create a Python object for each
MAX_REASON = 200  # characters of a decoder's own message


@dataclass(frozen=True)
class Opened:
    """A picture whose header was read; nothing is decoded yet."""

    image: Any  # PIL.ImageFile.ImageFile, perhaps set to decode at reduced size
    width: int  # as stored
    height: int
    held: int  # pixels that the decoder will hold in memory


@dataclass(frozen=True)
class Target:
    """The size at which a picture will be used, so that less of it may be decoded."""

    side: int | None = None  # the side to which a larger picture will be shrunk
    longer: bool = False  # whether this is the longer side; otherwise the shorter

    def __post_init__(self) -> None:
        if self.side is not None and self.side < 1:
            raise ParameterError(f"side must be at least 1; got {self.side}")

    def least(self, width: int, height: int) -> tuple[int, int]:
        """The smallest size that is good enough: twice the final one, so that smoothing has something to average."""
        if self.side is None:
            return width, height
        if not self.longer:
            return 2 * self.side, 2 * self.side
        longest = max(width, height)
        return max(1, 2 * self.side * width // longest), max(1, 2 * self.side * height // longest)

    def factor(self, width: int, height: int) -> int:
        """How many times smaller each side may become."""
        across, down = self.least(width, height)
        return max(1, min(width // across, height // down))


ANY = Target(side=1)  # as few pixels as possible


class Meter:
    """A file that limits how much is read, because crafted files make decoders read forever."""

    def __init__(self, file: BinaryIO, left: int) -> None:
        self._file = file
        self._calls = MAX_CALLS
        self.left = left  # bytes
        for name in ("seek", "tell", "fileno", "getvalue", "flush"):
            if hasattr(file, name):
                setattr(self, name, getattr(file, name))

    def read(self, size: int = -1) -> bytes:
        """Like ``read`` of a file; raises once too much was read in total, or too often."""
        content = self._file.read(size)
        self._calls -= 1
        self.left -= len(content)
        if self._calls < 0 or self.left < 0:
            raise FormatError("damaged (reading it takes too long)")
        return content


@contextmanager
def guarded(where: str) -> Iterator[None]:
    """Turn any error of a decoder into one of ours: one sentence that begins with ``where``."""
    try:
        yield
    except Exception as error:  # decoders of damaged files raise nearly anything
        if isinstance(error, OSError) and error.errno:
            raise FileError(f"{where}: {error.strerror}") from error
        raise FormatError(f"{where}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """The part of a decoder's error that is worth telling."""
    if isinstance(error, FormatError | MissingExtra):
        return str(error)
    if isinstance(error, MemoryError):
        return "too large for the available memory"
    if isinstance(error, require("PIL.Image", "images").DecompressionBombError):
        return "too many pixels"
    told = error.args[0] if error.args else ""
    text = told.decode("utf-8", "replace") if isinstance(told, bytes) else str(error)  # LibRaw's are bytes
    return f"damaged ({brief(text) or type(error).__name__})"


def brief(text: str, most: int = MAX_REASON) -> str:
    """Untrusted text on one line: control characters become spaces, and long text is cut."""
    plain = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in text[: 4 * most])
    return " ".join(plain.split())[:most]


def size_of(file: BinaryIO) -> int:
    """The size of an open file or buffer in bytes."""
    return file.seek(0, os.SEEK_END)


def identify(file: BinaryIO, name: str, limits: Limits) -> Format:
    """The format of a file; refuses a file too large for its format."""
    format = formats.recognised_file(file, name)
    if format is formats.TIFF and _is_raw(file):
        format = formats.RAW
    size, most = size_of(file), min(limits.file_bytes, format.file_bytes)
    if size > most:
        raise FormatError(
            f"{size:,} bytes are too many for a picture of format {format.name}; the limit is {most:,} bytes"
        )
    return format


@contextmanager
def opened(file: BinaryIO, format: Format, limits: Limits, target: Target) -> Iterator[Opened]:
    """An open picture within the limits; a JPEG will be decoded at 1/2, 1/4 or 1/8 size if that is enough."""
    frame = jpeg.frame(file) if format is formats.JPEG else None
    if format is formats.TIFF:
        _check_tiff(file)
    size = size_of(file)
    meter: Any = Meter(file, format.header_bytes)
    meter.seek(0)
    with _reader(format)(meter) as image:
        meter.left = MAX_REREAD * size + SLACK
        width, height = image.size
        held = _draft(image, frame, limits, target) if frame else width * height
        format.check(image.width, image.height, limits)
        yield Opened(image, width, height, held)


def _reader(format: Format) -> Any:
    module, _, name = format.reader.partition(":")
    return getattr(require(module, format.extra), name)


def _draft(image: Any, frame: jpeg.Frame, limits: Limits, target: Target) -> int:
    """Set a JPEG to be decoded at reduced size if that is enough; returns the pixels that the decoder will hold."""
    if (frame.width, frame.height) != image.size:
        raise FormatError(f"damaged (both {frame.width} × {frame.height} and {image.width} × {image.height} pixels)")
    most = min(formats.PROGRESSIVE_PIXELS, limits.pixels) if frame.buffered else limits.jpeg_pixels
    formats.JPEG.check_most(frame.width, frame.height, most)
    if target.side is not None:
        image.draft(None, target.least(*image.size))
    return frame.width * frame.height if frame.buffered else image.width * image.height


def _is_raw(file: BinaryIO) -> bool:
    """Whether a TIFF is camera RAW: it says so, or its first picture is a small copy of another one inside."""
    with suppress(ValueError, struct.error):
        first = tiff.first_directory(file)
        small = (first.integer(tiff.SUBFILE) or 0) & 1
        return tiff.DNG_VERSION in first.entries or (bool(small) and tiff.SUB_IFDS in first.entries)
    return False


def _check_tiff(file: BinaryIO) -> None:
    """Refuse directories that announce too many numbers, because readers create an object for each."""
    first = tiff.first_directory(file)
    total = first.numbers
    for tag in (tiff.EXIF, tiff.GPS, tiff.INTEROPERABILITY):
        with suppress(ValueError, struct.error):  # one that is damaged does not hide the next
            inner = first.inner(tag)
            total += inner.numbers if inner else 0
            deeper = inner.inner(tiff.INTEROPERABILITY) if inner else None
            total += deeper.numbers if deeper else 0
    if total > MAX_NUMBERS:
        raise FormatError(f"damaged (its directory holds {total} numbers)")
