"""The pictures of ``isch demo``: some photographs, altered copies of them, textures, digits, and scenes that are drawn.

SOURCES.txt says where each comes from; it also marks the folder that they are written to.
"""

import io
import os
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from isch import compute, progress
from isch.errors import FileError, require
from isch.files import printable
from isch.photos.samples.drawing import BRIGHT, DARK, SCENES, WHITE, drawn, mix, shade

SOURCES = "SOURCES.txt"
PHOTOGRAPHS = ("cat", "coffee", "rocket", "galaxies", "temple", "flower")
TEXTURES = {"brick": (172, 84, 60), "gravel": (150, 146, 138), "grass": (92, 140, 52)}  # and the colour of each
N_SCENES = 12  # pictures of each scene
N_DIGITS = 40
MINUTE = 60.0  # from the time of one file to the next, so that the page shows them in our order
QUALITY = 90


class Sample(NamedTuple):
    """A picture: its path in the folder, and what draws it."""

    path: str
    draw: Callable[[], Any]
    quality: int = QUALITY


ALTERED: dict[str, tuple[Callable[[Any], Any], str, int]] = {  # how a copy is made, its suffix and quality
    "again": (lambda image: image, ".jpg", QUALITY),
    "small": (lambda image: image.reduce(2), ".jpg", QUALITY),
    "recompressed": (lambda image: image, ".jpg", 35),
    "as PNG": (lambda image: image, ".png", QUALITY),
    "grey": (lambda image: image.convert("L"), ".jpg", QUALITY),
    "cropped": (lambda image: image.crop((20, 14, image.width - 24, image.height - 18)), ".jpg", QUALITY),
    "framed": (lambda image: require("PIL.ImageOps", "images").expand(image, 18, WHITE), ".jpg", QUALITY),
}


def write(folder: Path) -> None:
    """Write the pictures into a new or empty folder, whole or not at all; a folder that has them stays as it is.

    Raises
    ------
    FileError
        The folder holds something else, or cannot be written.
    """
    mark = files(__package__).joinpath(SOURCES).read_bytes()
    if _holds(folder, mark):
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".isch-demo-", dir=folder.parent) as stage:
            whole = Path(stage) / "pictures"
            _draw(whole)
            (whole / SOURCES).write_bytes(mark)
            if not _holds(folder, mark):  # another process may have been faster
                if folder.exists():
                    folder.rmdir()  # Windows replaces no folder, not even an empty one
                os.rename(whole, folder)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            f"{printable(folder)}: the pictures of the demo cannot be written ({error.strerror})"
        ) from error


def samples() -> list[Sample]:
    """All pictures; the first ones are the first of the page."""
    out = [Sample(f"photographs/{name}.jpg", partial(photograph, name)) for name in PHOTOGRAPHS]
    out += [
        Sample(f"scenes/{scene} {k + 1}.jpg", partial(drawn, scene, k)) for k in range(N_SCENES) for scene in SCENES
    ]
    out += [Sample(f"textures/{name} {k + 1}.jpg", partial(_texture, name, k)) for k in range(4) for name in TEXTURES]
    out += [Sample(f"digits/{label} {k + 1}.png", partial(_digit, k)) for k, label in enumerate(_digits()[1])]
    return out + list(_copies(out))


def photograph(name: str) -> Any:
    """A photograph of this package or of scikit-learn, as a PIL image."""
    pil = require("PIL.Image", "images")
    elsewhere = {"temple": "china.jpg", "flower": "flower.jpg"}
    if name in elsewhere:
        content = files("sklearn.datasets.images").joinpath(elsewhere[name]).read_bytes()
    else:
        content = files(__package__).joinpath(f"{name}.jpg").read_bytes()
    return pil.open(io.BytesIO(content))


def _holds(folder: Path, mark: bytes) -> bool:
    """Whether a folder has the pictures; an error if it holds anything else."""
    if not os.path.lexists(folder):
        return False
    if not folder.is_dir():
        raise FileError(f"{printable(folder)}: expected a folder for the pictures of the demo; it is a file")
    if (folder / SOURCES).is_file() and (folder / SOURCES).read_bytes() == mark:
        return True
    if any(folder.iterdir()):
        raise FileError(
            f"{printable(folder)}: holds files that the demo did not write; name a new or empty folder with --folder"
        )
    return False


def _draw(folder: Path) -> None:
    everything, now = samples(), time.time()
    for kind in {os.path.dirname(sample.path) for sample in everything}:
        (folder / kind).mkdir(parents=True)

    def work(job: tuple[int, Sample]) -> None:
        place, sample = job
        sample.draw().save(folder / sample.path, quality=sample.quality)
        os.utime(folder / sample.path, (now, now - MINUTE * place))

    with progress.task("drawing", len(everything), "pictures") as advance:
        for _ in compute.parallel(work, enumerate(everything)):
            advance(1)


def _copies(originals: list[Sample]) -> Iterator[Sample]:
    """Altered copies: all of every photograph, two of one picture of every scene."""
    ways = list(ALTERED)
    for number, original in enumerate(originals[: len(PHOTOGRAPHS) + len(SCENES)]):
        name, _ = os.path.splitext(os.path.basename(original.path))
        first = number % len(ways)
        chosen = ways if number < len(PHOTOGRAPHS) else [ways[first], ways[(first + 2) % len(ways)]]
        for way in chosen:
            alter, suffix, quality = ALTERED[way]
            yield Sample(f"copies/{name} {way}{suffix}", partial(_altered, original, alter), quality)


def _altered(original: Sample, alter: Callable[[Any], Any]) -> Any:
    return alter(original.draw())


def _texture(name: str, number: int) -> Any:
    """A quarter of a texture in its colour."""
    whole = photograph(name).convert("L")
    half, (row, column) = whole.width // 2, divmod(number, 2)
    part = whole.crop((column * half, row * half, (column + 1) * half, (row + 1) * half))
    colour = TEXTURES[name]
    return require("PIL.ImageOps", "images").colorize(part, shade(colour, 0.2), mix(colour, WHITE, 0.75), mid=colour)


@lru_cache(maxsize=1)
def _digits() -> tuple[Any, list[int]]:
    """(pictures of 8 × 8 pixels from 0 to 16, which digit each shows)."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return found.images[:N_DIGITS], found.target[:N_DIGITS].tolist()


def _digit(number: int) -> Any:
    """A handwritten digit, enlarged, in ink on paper."""
    pil = require("PIL.Image", "images")
    ink = pil.fromarray(np.uint8(np.clip(_digits()[0][number] * 16, 0, 255)))
    ink = ink.resize((240, 240), pil.Resampling.BICUBIC).point(lambda value: int(min(255, max(0, (value - 70) * 2.4))))
    page = pil.new("RGB", (300, 300), mix(BRIGHT[number % len(BRIGHT)], WHITE, 0.85))
    page.paste(pil.new("RGB", ink.size, DARK), (30, 30), ink)
    return page
