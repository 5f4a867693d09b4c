"""How much a JPEG will cost to decode, found from its markers before decoding."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from isch.errors import FormatError

MARKER = re.compile(rb"\xff([\xc0-\xcf\xda-\xfe])")  # markers that are followed by a length and content
SOS, APP1 = 0xDA, 0xE1
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
PROGRESSIVE = frozenset((0xC2, 0xC6, 0xCA, 0xCE))
WINDOW = 1 << 16  # bytes within which the next marker must come
AHEAD = 3 * WINDOW  # bytes in memory: up to the next marker, and its segment
MAX_SEGMENTS = 4096  # before the first scan; each has up to 64 KiB
MAX_HEADER = 1 << 26
MAX_EXIF = 1 << 18
MAX_SCANNED = 4_000_000_000  # pixels times scans, a few seconds; a scan of a huge picture may be as short as 100 bytes
BLOCK = 1 << 20


@dataclass(frozen=True)
class Frame:
    """The picture as its header announces it."""

    width: int
    height: int
    buffered: bool  # in several scans, so the decoder holds all of it even when it decodes at reduced size


def frame(file: BinaryIO) -> Frame:
    """Read the markers up to the first scan; refuse headers crafted to take forever."""
    found, exif = None, 0
    for marker, content in _segments(file):
        if marker == APP1 and content.startswith(b"Exif\0\0"):
            exif += len(content)
        elif marker in FRAMES and len(content) >= 6:
            found = marker, content
        elif marker == SOS and found is not None and content:
            kind, header = found
            several = kind in PROGRESSIVE or content[0] < header[5]
            result = Frame(int.from_bytes(header[3:5], "big"), int.from_bytes(header[1:3], "big"), several)
            break
    else:
        raise FormatError("damaged (the header ends before the picture begins)")
    if exif > MAX_EXIF:
        raise FormatError(f"damaged ({exif} bytes of EXIF)")
    if result.buffered:
        _check_scans(file, result)
    return result


def _segments(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """(marker, content) in order, at most ``MAX_SEGMENTS`` within ``MAX_HEADER`` bytes."""
    file.seek(0)
    head, position = file.read(AHEAD), 2
    for _ in range(MAX_SEGMENTS):
        match = MARKER.search(head, position, position + WINDOW)
        if match is None or position > MAX_HEADER:
            return
        start = match.end() + 2
        position = start + max(int.from_bytes(head[start - 2 : start], "big") - 2, 0)
        yield match[1][0], head[start:position]
        if position + AHEAD > len(head):
            head += file.read(len(head))


def _check_scans(file: BinaryIO, found: Frame) -> None:
    """Refuse a picture with so many scans that decoding would seem to hang."""
    file.seek(0)
    scans, last = 0, b""
    while block := file.read(BLOCK):
        scans += (last + block).count(b"\xff\xda")
        last = block[-1:]
        if scans * found.width * found.height > MAX_SCANNED:
            raise FormatError(f"damaged (more than {scans} scans of {found.width} × {found.height} pixels)")
