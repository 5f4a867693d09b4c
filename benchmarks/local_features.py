"""Dense SIFT, BoW, VLAD, Fisher vectors and LLC: images a second beside OpenCV's SIFT on the same grid, and precision.

    python benchmarks/local_features.py speed
    python benchmarks/local_features.py precision [llc=llc.npz ...]     vectors stored before are not computed again

Needs the thumbnails in $ISCH_DATA/tiny-imagenet-20k.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from report import machine, section, table
from skimage import data

from isch import compute, features
from isch.describe import sift
from isch.describe.bow import BoW
from isch.describe.fisher import Fisher
from isch.describe.images import Image, find, grey
from isch.describe.llc import LLC
from isch.describe.vlad import VLAD
from isch.features import stack

SCALES = (1.0, 0.5, 0.25)
THUMBNAIL_STEP = 4
REPEATS = 3


def paths() -> list[str]:
    return find(os.path.join(os.environ["ISCH_DATA"], "tiny-imagenet-20k")).paths


def opencv_sift(image: Image, min_side: int, step: int) -> int:
    """The number of descriptors of OpenCV's SIFT on the grid of ``sift.multiscale``, bins of the same 5 pixels."""
    picture = sift.fitted(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float32), min_side, 300)
    detector, count = cv2.SIFT_create(), 0  # type: ignore[attr-defined]
    for scale in SCALES:
        resized = sift.resized(picture, *(max(1, round(side * scale)) for side in picture.shape)).astype(np.uint8)
        points = keypoints(*resized.shape, step)
        if points:
            count += len(detector.compute(resized, points)[1])
    return count


@cache
def keypoints(height: int, width: int, step: int) -> list[Any]:
    rows, columns = (sift.grid(side, 20, step) for side in (height, width))
    return [cv2.KeyPoint(float(x + 7.5), float(y + 7.5), 10 / 3, 0, 0, 0) for y in rows for x in columns]


def our_sift(image: Image, min_side: int, step: int) -> int:
    return len(sift.multiscale(sift.fitted(grey(image), min_side, 300), 20, step, SCALES).values)


def per_second(function: Callable[[Any], Any], items: Sequence[Any]) -> float:
    """Items a second on all cores, the best of several runs after one to warm up.

    Items are shared out to the cores, or come one by one to OpenCV's own threads, whichever is faster.
    """

    def seconds(run: Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]], cv_threads: int) -> float:
        cv2.setNumThreads(cv_threads)
        start = time.perf_counter()
        for _ in run(function, items):
            pass
        return time.perf_counter() - start

    ways: list[tuple[Any, int]] = [(compute.parallel, 1), (map, compute.n_threads())]
    return len(items) / min(seconds(*way) for _ in range(1 + REPEATS) for way in ways)


def sift_rows() -> Iterable[list[object]]:
    """Decoded pictures to descriptors."""
    thumbnails = [cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB) for path in paths()[::100]]
    photos = [data.astronaut(), data.coffee(), data.chelsea(), data.rocket()] * 10
    settings = [
        ("64 × 64 thumbnails enlarged to 128, every 4 pixels", thumbnails, 128, THUMBNAIL_STEP),
        ("photographs shrunk to 300, every 10 pixels", photos, 128, 10),
        ("photographs shrunk to 300, every 4 pixels", photos, 128, 4),
    ]
    for name, images, min_side, step in settings:
        ours, theirs = (partial(f, min_side=min_side, step=step) for f in (our_sift, opencv_sift))
        if ours(images[0]) != theirs(images[0]):
            raise RuntimeError(f"{name}: the two compute different grids")
        speeds = [per_second(f, images) for f in (ours, theirs)]
        yield [name, ours(images[0]), *speeds, f"{speeds[0] / speeds[1]:.1f} ×"]


def describers() -> list[BoW | VLAD | Fisher | LLC]:
    return [VLAD(step=THUMBNAIL_STEP), LLC(step=THUMBNAIL_STEP), BoW(step=THUMBNAIL_STEP), Fisher(step=THUMBNAIL_STEP)]


def describer_rows() -> Iterable[list[object]]:
    """JPEG files to vectors; models learned from few descriptors, which does not change the speed."""
    files = paths()[::25]
    plain = per_second(
        lambda path: opencv_sift(cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB), 128, THUMBNAIL_STEP), files
    )
    for describer in describers():
        describer.set_params(max_descriptors=10_000, n_iter=2).fit(files)
        describer.transform(files[:64])
        start = time.perf_counter()
        describer.transform(files)
        speed = len(files) / (time.perf_counter() - start)
        yield [describer.name, f"{describer.n_features_out:,}", speed, plain, f"{speed / plain:.1f} ×"]


def speed() -> None:
    ours = table(["pictures", "descriptors", "isch images/s", "OpenCV images/s", "ratio"], list(sift_rows()))
    whole = table(
        ["descriptor", "dimensions", "images/s", "OpenCV's SIFT alone, images/s", "ratio"], list(describer_rows())
    )
    text = f"""## Local features: dense SIFT and what is made of it

{machine("opencv-python-headless")} All cores for everybody: pictures
shared out to threads, or one by one with OpenCV's own threads, whichever was faster.

Decoded pictures to SIFT at scales 1, 1/2, 1/4, beside `cv2.SIFT.compute` on the same grid:

{ours}

JPEG thumbnails to vectors (every {THUMBNAIL_STEP} pixels at 128 × 128), beside OpenCV decoding the same files and
computing the same SIFT without encoding it:

{whole}
"""
    section("local-features-speed", text)
    print(text)


def precision_at_10(rows: Any, labels: NDArray[np.intp], n_queries: int = 2000) -> float:
    """Share of the ten nearest others (2-norm, unit rows) that are of the query's class."""
    queries = np.sort(np.random.default_rng(0).choice(len(labels), n_queries, replace=False))
    hits = 0
    for part in np.array_split(queries, n_queries // 250):
        products = rows[part] @ rows.T
        similarity = products if isinstance(products, np.ndarray) else products.toarray()
        similarity[np.arange(len(part)), part] = -np.inf
        nearest = np.argpartition(-similarity, 10, axis=1)[:, :10]
        hits += int((labels[nearest] == labels[part][:, None]).sum())
    return hits / (10 * n_queries)


def vectors_of(describer: BoW | VLAD | Fisher | LLC, files: list[str]) -> Any:
    if isinstance(describer, BoW):
        describer.set_params(norm="l2")  # so that products rank as distances do
    describer.fit(files)
    return stack([batch.vectors for batch in describer.batches(files, strict=True) if batch.vectors is not None])


def stored_vectors(path: str) -> Any:
    source = features.open(path)
    block = source.read(0, len(source))
    return block.astype(np.float32) if isinstance(block, np.ndarray) else block


def precision(*stored: str) -> None:
    files, known = paths(), dict(pair.split("=", 1) for pair in stored)
    _, labels = np.unique([os.path.basename(os.path.dirname(path)) for path in files], return_inverse=True)
    chance = (np.bincount(labels)[0] - 1) / (len(labels) - 1)
    rows: list[list[object]] = []
    for describer in describers():
        name = describer.name
        vectors = stored_vectors(known[name]) if name in known else vectors_of(describer, files)
        value = precision_at_10(vectors, labels)
        rows.append([name, f"{vectors.shape[1]:,}", f"{value:.4f}", f"{value / chance:.1f} ×"])
        print(rows[-1], flush=True)
        report_precision(rows)  # after each, since the whole takes long


def report_precision(rows: list[list[object]]) -> None:
    text = f"""## Local features: precision

20,000 thumbnails of 200 classes; dense SIFT every {THUMBNAIL_STEP} pixels at 128 × 128; words and mixtures learned from
200,000 descriptors without labels; 2-norm precision@10 over 2,000 queries, each left out.

{table(["descriptor", "dimensions", "precision@10", "times chance"], rows)}
"""
    section("local-features-precision", text)


if __name__ == "__main__":
    {"speed": speed, "precision": precision}[sys.argv[1]](*sys.argv[2:])
