"""Pictures of every format."""

import os
import struct
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from attacks import gallery
from attacks.target import Target, nothing
from isch.describe import images


def attempt(path: Path) -> Any:
    """The picture in full and reduced, and the facts about it.

    No array and no number: every format has fields without a checksum, so damage may well change all of them.
    """
    whole, small, facts = images.decode(path), images.thumbnail(path, 16), images.facts(path)
    digest = zlib.crc32(whole.tobytes(), zlib.crc32(small.tobytes()))
    return {"digest": f"{digest} {whole.shape}", "facts": str(facts)}


def make(name: str, folder: Path) -> Path:
    """One sample."""
    (folder / name).write_bytes(gallery.SAMPLES[name]())
    return folder / name


def crafted(folder: Path) -> Iterator[Path]:
    """Programs, bombs, endless headers and what is not a file."""
    os.mkfifo(folder / "pipe.jpg")
    (folder / "link.jpg").symlink_to("pipe.jpg")
    (folder / "zeros.jpg").symlink_to("/dev/zero")
    (folder / "folder.jpg").mkdir()
    yield from (folder / name for name in ("pipe.jpg", "link.jpg", "zeros.jpg", "folder.jpg"))
    for name, content in {**programs(folder.parent / "executed"), **bombs()}.items():
        (folder / name).write_bytes(content)
        yield folder / name
    with (folder / "sparse.png").open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n\x7f\xff\xff\xffprIv")
        file.truncate(3 << 30)
    yield folder / "sparse.png"


def programs(trace: Path) -> dict[str, bytes]:
    """What a picture must never be taken for."""
    head = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n"
    script = head + f"({trace}) (w) file closefile\n".encode()
    binary = b"\xc5\xd0\xd3\xc6" + struct.pack("<II", 30, len(script)) + bytes(18) + script
    return {
        "eps.jpg": script,
        "loop.jpg": head + b"{} loop\n",
        "binary.jpg": binary,
        "page.jpg": b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        "metafile.jpg": b"\xd7\xcd\xc6\x9a\0\0" + bytes(100),
    }


def bombs() -> dict[str, bytes]:
    """Small files that would take minutes or all the memory."""
    jpeg = gallery.encoded(gallery.scene(), "jpeg")
    scans = gallery.encoded(gallery.scene(2000, 2000), "jpeg", progressive=True)
    again = scans[scans.rfind(b"\xff\xda") : -2]
    rows = 1 << 22
    strips = [(256, 4, 1, 4), (257, 4, 1, rows), (258, 3, 1, 8), (262, 3, 1, 1), (273, 4, rows, 200), (278, 4, 1, 1)]
    return {
        "pixels.png": png(13_000, 13_000, (b"IDAT", zlib.compress(bytes(1000)))),
        "profile.png": png(10, 10, (b"iCCP", b"k\0\0" + zlib.compress(bytes(50 << 20))), (b"IDAT", b"")),
        "chunks.png": png(2000, 2000)[:-12] + b"\0\0\0\0IDAT\x35\xaf\x06\x1e" * 2_000_000,
        "scans.jpg": scans[:-2] + again * 2000 + scans[-2:],
        "zeros.jfif": jpeg[:20] + bytes(50 << 20) + jpeg[20:],
        "segments.jpg": jpeg[:20] + b"\xff\xfe\0\2" * (10 << 20) + jpeg[20:],
        "exif.jpg": jpeg[:20] + (b"\xff\xe1\xff\xffExif\0\0" + bytes(65527)) * 500 + jpeg[20:],
        "comment.ppm": b"P6 #" + b"x" * (50 << 20),
        "text.pbm": b"P1 9000 9000\n" + b"1" * 81_000_000,
        "strips.tif": tiff(strips, bytes(4 * rows)),
        "canvas.webp": b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\xff\x3e\0" * 2 + bytes(100),
    }


def png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG of chunks behind a header that announces so many pixels."""
    header = (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in (header, *chunks, (b"IEND", b""))
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def tiff(entries: list[tuple[int, int, int, int]], rest: bytes = b"") -> bytes:
    """A TIFF of entries (tag, type, count, value)."""
    directory = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return b"II*\0\x08\0\0\0" + directory + bytes(4) + rest


TARGETS = [
    Target(f"pictures {name}", partial(make, name), attempt, sealed=False, crafted=nothing if i else crafted)
    for i, name in enumerate(gallery.SAMPLES)
]
