"""Small versions of pictures, made when they are first asked for and kept on disk by content."""

import io
from contextlib import suppress
from pathlib import Path

from isch.describe.images import decode
from isch.errors import InputError, require
from isch.files import content, plain, replacing

SIZES = (256, 1600)  # the longer side: of the grid, and of a picture looked at
QUALITY = 82
LARGEST = 16 << 20  # bytes of a small version
_BEGIN, _END = b"\xff\xd8", b"\xff\xd9"  # of every whole JPEG; a power failure may have left less


class Thumbnails:
    """The small versions in a folder, by the digest of the picture's file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, path: str, digest: str, size: int) -> bytes:
        """A JPEG whose longer side is at most ``size``."""
        kept = self._folder / digest[:2] / f"{digest}-{size}.jpg"
        with suppress(OSError):
            found = content(plain(kept), LARGEST, "a small picture")
            if found.startswith(_BEGIN) and found.endswith(_END):
                return found
        made = _made(path, size)
        with suppress(OSError):  # on a full disk pictures are still shown
            self._keep(kept, made)
        return made

    def _keep(self, kept: Path, made: bytes) -> None:
        """Write a small version, but never through a link, which may lead to any file of the user."""
        if self._folder.is_symlink() or kept.parent.is_symlink():
            return
        kept.parent.mkdir(parents=True, exist_ok=True)
        if kept.is_symlink():
            kept.unlink()
        with replacing(kept, durable=False) as temporary:
            temporary.write_bytes(made)


def _made(path: str, size: int) -> bytes:
    if size not in SIZES:
        raise InputError(f"size must be one of {', '.join(map(str, SIZES))}; got {size}")
    pil = require("PIL.Image", "images")
    image = pil.fromarray(decode(path, size))
    image.thumbnail((size, size), pil.Resampling.LANCZOS)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=QUALITY)
    return out.getvalue()
