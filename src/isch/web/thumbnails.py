"""Small versions of pictures, made when they are first asked for and kept on disk by content."""

import io
from pathlib import Path

from isch.describe.images import decode
from isch.errors import FileError, InputError, require
from isch.files import replacing

SIZES = (256, 1600)  # the longer side: of the grid, and of a picture looked at
QUALITY = 82


class Thumbnails:
    """The small versions in a folder, by the digest of the picture's file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, path: str, digest: str, size: int) -> bytes:
        """A JPEG whose longer side is at most ``size``."""
        kept = self._folder / digest[:2] / f"{digest}-{size}.jpg"
        try:
            return kept.read_bytes()
        except FileNotFoundError:
            content = _made(path, size)
        except OSError as error:
            raise FileError(f"{kept}: {error.strerror}") from error
        kept.parent.mkdir(parents=True, exist_ok=True)
        with replacing(kept) as temporary:
            temporary.write_bytes(content)
        return content


def _made(path: str, size: int) -> bytes:
    if size not in SIZES:
        raise InputError(f"size must be one of {', '.join(map(str, SIZES))}; got {size}")
    pil = require("PIL.Image", "images")
    image = pil.fromarray(decode(path, size))
    image.thumbnail((size, size), pil.Resampling.LANCZOS)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=QUALITY)
    return out.getvalue()
