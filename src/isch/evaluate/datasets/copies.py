"""A small instance-retrieval set made from any images: each scene is an image and distorted copies of it.

The protocol of INRIA Holidays and Copydays, for machines without either: the query is the original, the relevant items
are its copies, and every image that was not chosen as a scene is a distractor.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isch.errors import InputError, require
from isch.evaluate.datasets.base import DISTRACTOR, Dataset
from isch.evaluate.datasets.folders import load_thumbnails

N_COPIES = 4


def load(folder: Path, scenes: int = 500, seed: int = 0) -> Dataset:
    """``scenes`` thumbnails with ``N_COPIES`` distorted copies each, then the other thumbnails as distractors."""
    from isch.describe.images import decode

    source = load_thumbnails(folder)
    paths = list(source.images if source.images is not None else ())
    if scenes >= len(paths):
        raise InputError(f"{folder}: {scenes} scenes need more than the {len(paths)} images there are")
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(len(paths), scenes, replace=False))
    images: list[NDArray[np.uint8] | str] = []
    for row in chosen:
        original = decode(paths[row])
        images += [original, *(distorted(original, rng) for _ in range(N_COPIES))]
    rest = np.delete(np.arange(len(paths)), chosen)
    labels = np.concatenate([np.repeat(np.arange(scenes), N_COPIES + 1), np.full(len(rest), DISTRACTOR)])
    images += [paths[row] for row in rest]
    return Dataset(
        "copies", len(images), labels, images=images, queries=np.arange(0, scenes * (N_COPIES + 1), N_COPIES + 1)
    )


def distorted(image: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """The image seen again: turned by up to 20°, cropped to 60–90 % of its sides, brighter or darker, compressed."""
    import io

    pil, enhance = require("PIL.Image", "images"), require("PIL.ImageEnhance", "images")
    height, width = image.shape[:2]
    picture = pil.fromarray(image).rotate(rng.uniform(-20, 20), resample=pil.Resampling.BILINEAR)
    share = rng.uniform(0.6, 0.9)
    left, top = rng.uniform(0, (1 - share) * width), rng.uniform(0, (1 - share) * height)
    box = (left, top, left + share * width, top + share * height)
    picture = picture.resize((width, height), pil.Resampling.BILINEAR, box=box)
    picture = enhance.Brightness(picture).enhance(rng.uniform(0.6, 1.5))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=int(rng.integers(15, 60)))
    with pil.open(buffer) as compressed:
        return np.asarray(compressed.convert("RGB"))
