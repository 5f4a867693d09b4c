"""Pictures a second of each descriptor, beside the plain library call it stands on, on the same pictures and cores.

python benchmarks/describe.py [names ...]      # needs $ISCH_DATA
"""

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from report import machine, section, table

from isch import compute, describe
from isch.describe import efficientnet
from isch.describe.gist import gabor_filters
from isch.describe.images import decode, find
from isch.errors import require

DATA = Path(os.environ.get("ISCH_DATA", "datasets"))
FILTERS = gabor_filters(32, (8, 8, 8, 8))


def thumbnails(n: int) -> list[str]:
    paths = find(DATA / "tiny-imagenet-20k").paths
    return paths[:: len(paths) // n][:n]


def faces(n: int) -> list[str]:
    return find(DATA / "orl-faces").paths[:n]


def cifar(n: int) -> NDArray[np.uint8]:
    raw = np.fromfile(DATA / "cifar-10" / "cifar-10-batches-bin" / "data_batch_1.bin", np.uint8, n * 3073)
    return raw.reshape(-1, 3073)[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def rate(function: Callable[[], object], n: int) -> float:
    """Pictures a second, the best of three runs."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return n / min(seconds)


def threaded(function: Callable[[Any], object], items: Any) -> None:
    with ThreadPoolExecutor(compute.n_threads()) as pool:
        list(pool.map(function, items))


def plain_gist(image: NDArray[np.uint8]) -> NDArray[np.float64]:
    """One picture, as the definition reads, filter by filter."""
    x = np.pad(np.log(1 + image.mean(axis=2)), 5, "symmetric")
    f = np.fft.fftfreq(42, 1 / 42)
    low = np.exp(-(f[:, None] ** 2 + f**2) / (4 / np.sqrt(np.log(2))) ** 2)
    x = x - np.real(np.fft.ifft2(np.fft.fft2(x) * low))
    x = (x / (0.2 + np.sqrt(np.abs(np.fft.ifft2(np.fft.fft2(x**2) * low)))))[5:-5, 5:-5]
    spectrum = np.fft.fft2(x)
    responses = [np.abs(np.fft.ifft2(spectrum * transfer)) for transfer in FILTERS]
    blocks = [
        (slice(8 * row, 8 * row + 8), slice(8 * column, 8 * column + 8)) for column in range(4) for row in range(4)
    ]
    return np.array([response[block].mean() for response in responses for block in blocks])


def gist() -> list[object]:
    pictures, few = cifar(4000), cifar(400)
    np.testing.assert_allclose(describe.GIST().transform(few[:2])[1], plain_gist(few[1]), atol=1e-5)
    ours = rate(lambda: describe.GIST().transform(pictures), len(pictures))
    with ProcessPoolExecutor(compute.n_threads()) as pool:
        plain = rate(lambda: list(pool.map(plain_gist, few, chunksize=20)), len(few))
    peer = "NumPy, picture by picture, a process per core"
    return ["GIST-512", "CIFAR-10, 32 × 32, in memory", ours, peer, plain, ours / plain]


def cnn() -> list[object]:
    cv2, onnxruntime = require("cv2", "images"), require("onnxruntime", "images")

    paths = thumbnails(192)
    ours = rate(lambda: describe.CNN().transform(paths), len(paths))
    session = onnxruntime.InferenceSession(efficientnet.model(), providers=["CPUExecutionProvider"])

    def run(batch: list[str]) -> Any:
        squares = [cv2.resize(cv2.imread(path)[..., ::-1], (224, 224)) for path in batch]
        x = (np.stack(squares).transpose(0, 3, 1, 2).astype(np.float32) - 127) / 128
        return session.run(["features"], {"images": np.ascontiguousarray(x)})

    plain = rate(lambda: [run(paths[i : i + 32]) for i in range(0, len(paths), 32)], len(paths))
    peer = "OpenCV and onnxruntime, its own threads"
    return ["CNN-1280", "thumbnails, 64 × 64 JPEG", ours, peer, plain, ours / plain]


def lbp() -> list[object]:
    from skimage.feature import local_binary_pattern

    paths = faces(400)
    describe.LBP().transform(paths[:2])
    ours = rate(lambda: describe.LBP().transform(paths), len(paths))

    def run(path: str) -> Any:
        labels = local_binary_pattern(decode(path)[..., 0], 8, 1, "nri_uniform")
        cells = [c for band in np.array_split(labels, 10) for c in np.array_split(band, 10, axis=1)]
        return [np.bincount(cell.ravel().astype(int), minlength=59) for cell in cells]

    plain = rate(lambda: threaded(run, paths), len(paths))
    return ["LBP-5900", "ORL, 92 × 112 PGM", ours, "scikit-image", plain, ours / plain]


def le() -> list[object]:
    cv2 = require("cv2", "images")

    paths = faces(200)
    describer = describe.LE().fit(paths)
    ours = rate(lambda: describer.transform(paths), len(paths))
    plain = rate(lambda: threaded(cv2.imread, paths), len(paths))
    return ["LE-20736", "ORL, 92 × 112 PGM", ours, "OpenCV, decoding only", plain, ours / plain]


def local(name: str, label: str, **parameters: Any) -> list[object]:
    """A descriptor of dense SIFT, beside OpenCV's SIFT alone at as many points."""
    cv2 = require("cv2", "images")

    paths = thumbnails(192)
    describer = describe.describer(name, **parameters).fit(paths)
    ours = rate(lambda: describer.transform(paths), len(paths))
    points = [cv2.KeyPoint(float(x), float(y), 10.0) for y in range(10, 60, 10) for x in range(10, 60, 10)]

    def run(path: str) -> Any:
        return cv2.SIFT_create().compute(cv2.imread(path, cv2.IMREAD_GRAYSCALE), points)

    plain = rate(lambda: threaded(run, paths), len(paths))
    return [label, "thumbnails, 64 × 64 JPEG", ours, "OpenCV SIFT at 25 points, no coding", plain, ours / plain]


ROWS: dict[str, Callable[[], list[object]]] = {
    "gist": gist,
    "cnn": cnn,
    "lbp": lbp,
    "le": le,
    "bow": lambda: local("bow", "BoW-1000", n_words=1000),
    "vlad": lambda: local("vlad", "VLAD-25600", n_words=200),
    "fisher": lambda: local("fisher", "Fisher-16384", n_words=64),
    "llc": lambda: local("llc", "LLC-21000", n_words=1000),
}


def main() -> None:
    rows = []
    for name in sys.argv[1:] or ROWS:
        rows.append(ROWS[name]())
        print(name, *rows[-1], sep=" | ", flush=True)
    if len(rows) == len(ROWS):
        header = ["descriptor", "pictures", "pictures/s", "beside", "pictures/s", "ratio"]
        text = f"## Descriptors\n\n{table(header, rows)}\n\n{machine('scipy', 'onnxruntime', 'opencv-python-headless')}"
        section("describe", text)


if __name__ == "__main__":
    main()
