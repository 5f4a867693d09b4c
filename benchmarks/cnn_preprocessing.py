"""How pictures are best prepared for the default network, judged without labels.

python benchmarks/cnn_preprocessing.py      # needs $ISCH_DATA

The surer the network is of what it sees, the better it sees: the mean entropy of its 1,000 class probabilities over
thumbnails, for each resampling filter and middle square.
"""

import os
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil
from PIL.Image import Resampling
from report import section, table

from isch.describe import CNN
from isch.describe.images import decode, find

COUNT = 1000
SIDE = 224


def square(image: NDArray[np.uint8], crop: float, resampling: Resampling) -> NDArray[np.uint8]:
    """The middle square, ``crop`` of the shorter side, resized."""
    height, width = image.shape[:2]
    edge = crop * min(height, width)
    left, top = (width - edge) / 2, (height - edge) / 2
    box = (left, top, left + edge, top + edge)
    return np.asarray(Pil.fromarray(image).resize((SIDE, SIDE), resampling, box=box))


def entropy(pictures: list[NDArray[np.uint8]]) -> float:
    logits = CNN(layer="logits", normalise=False).transform(pictures).astype(np.float64)
    shifted = logits - logits.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return float(-(np.exp(logs) * logs).sum(axis=1).mean())


def main() -> None:
    paths = find(Path(os.environ["ISCH_DATA"]) / "tiny-imagenet-20k").paths
    pictures = [decode(path) for path in paths[:: len(paths) // COUNT][:COUNT]]
    crops, filters = (1.0, 0.875), (Resampling.BILINEAR, Resampling.BICUBIC, Resampling.LANCZOS)
    rows: list[list[object]] = []
    for crop in crops:
        prepared = [list(map(partial(square, crop=crop, resampling=f), pictures)) for f in filters]
        rows.append([f"{crop:.1%} of the shorter side", *(f"{entropy(p):.3f}" for p in prepared)])
    section(
        "cnn-preprocessing",
        f"""
## How the CNN wants its pictures

Mean entropy (nats) of the network's class probabilities over {COUNT:,} thumbnails of 64 × 64, by the middle square
taken and the filter that resizes it to {SIDE}. No labels are used; lower means that the network recognises more. The
default is the whole middle square, bilinear.

{table(["square", *(f.name.lower() for f in filters)], rows)}
""",
    )


if __name__ == "__main__":
    main()
