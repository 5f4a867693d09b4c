"""Encoding against a bare float32 matrix product of the same shape, in the same run; exact, and by 8-bit products.

    python benchmarks/encode.py speed | agreement

Agreement is what 8-bit products change: bits that differ, and label precision of the first 100, on digits, GIST
descriptors and CNN features.
"""

import sys
import time
from collections.abc import Callable

import numpy as np
import report

from isch import datasets, nearest
from isch.describe import describer
from isch.hashing import quick
from isch.hashing.isch import ISCH

SHAPES = ((784, 128), (1280, 256), (4096, 512), (25600, 3200))  # (dimensions, bits)
ROUNDS, SECONDS = 7, 60  # of each function, and of all together; at least two rounds
IDLE = 0.2  # seconds before each timing: threads of OpenBLAS go on spinning for a while after a product


def best(*functions: Callable[[], object]) -> list[float]:
    """The shortest time of each function, taken in turns so that all meet the same machine."""
    times = [[float("inf")] for _ in functions]
    began = time.perf_counter()
    for number in range(ROUNDS):
        if number >= 2 and time.perf_counter() - began > SECONDS:
            break
        for function, seconds in zip(functions, times, strict=True):
            time.sleep(IDLE)
            start = time.perf_counter()
            function()
            seconds.append(time.perf_counter() - start)
    return [min(t) for t in times]


def fitted(n_features: int, n_bits: int) -> ISCH:
    """A hasher with a random projection: encoding does not care how it was learnt."""
    rng = np.random.default_rng(0)
    hasher = ISCH(n_bits)
    hasher.n_features_in_, hasher.n_samples_ = n_features, 2
    hasher.mean_ = rng.standard_normal(n_features)
    hasher.projection_ = rng.standard_normal((n_features, n_bits), dtype=np.float32)
    return hasher


def speed() -> None:
    """Print and record the times."""
    rows: list[list[object]] = []
    for n_features, n_bits in SHAPES:
        n = max(8192, min(60_000, int(3e11 / (2 * n_features * n_bits))))
        X = np.random.default_rng(1).standard_normal((n, n_features), dtype=np.float32)
        hasher = fitted(n_features, n_bits)
        product, encode, fast = best(
            lambda X=X, h=hasher: X @ h.projection_,
            lambda X=X, h=hasher: h.transform(X),
            lambda X=X, h=hasher: h.transform(X, exact=False),
        )
        rows.append([n_features, n_bits, n, n / product, n / encode, product / encode, n / fast, product / fast])
        print(rows[-1], flush=True)
    header = ["dimensions", "bits", "rows", "bare product, rows/s", "encode, rows/s", "ratio", "8-bit, rows/s", "ratio"]
    text = f"""## Encoding

Ratios of a bare float32 `X @ L` to `transform` (centre, project, threshold, pack), exact and with `exact=False`
({"8-bit products" if quick.available() else "this machine has no fast 8-bit products, so it is the same"}).

{report.table(header, rows)}

{report.machine("numkong")}"""
    report.section("encode", text)


def agreement() -> None:
    """Print and record what 8-bit products change."""
    digits = datasets.load("mnist")
    sets = {
        "MNIST pixels": (digits.images[:12_000].reshape(12_000, -1).astype(np.float32), digits.labels[:12_000]),
        "GIST of CIFAR-10": described("cifar10", "gist"),
        "CNN of ImageNet thumbnails": described("tiny-imagenet", "cnn"),
    }
    rows = [line for name, (X, y) in sets.items() for line in compared(name, X, np.asarray(y))]
    table = report.table(["features", "bits", "bits that differ", "precision@100, exact", "8-bit", "difference"], rows)
    report.section("encode-agreement", f"## Encoding: what 8-bit products change\n\n{table}")


def described(name: str, descriptor: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of 6,000 pictures of a dataset, in no order."""
    pictures = datasets.load(name)
    some = np.random.default_rng(0).permutation(len(pictures.images))[:6000]
    chosen = [pictures.images[int(row)] for row in some]
    return describer(descriptor).fit(chosen[:10]).transform(chosen), np.asarray(pictures.labels)[some]


def compared(name: str, X: np.ndarray, y: np.ndarray) -> list[list[object]]:
    """Lines of the table for some features, whose first 1,000 rows are the queries."""
    lines: list[list[object]] = []
    for n_bits in (128, 256):
        hasher = ISCH(n_bits).fit(X[1000:])
        exact, fast = hasher.transform(X), hasher.transform(X, exact=False)
        found = [(y[1000:][nearest(c[:1000], c[1000:], 100)[1]] == y[:1000, None]).mean() for c in (exact, fast)]
        precision = [*(f"{p:.4f}" for p in found), f"{found[1] - found[0]:+.4f}"]
        lines.append([name, n_bits, f"{np.bitwise_count(exact ^ fast).mean() / 8:.4f}", *precision])
        print(lines[-1], flush=True)
    return lines


if __name__ == "__main__":
    for part in sys.argv[1:] or ("speed", "agreement"):
        {"speed": speed, "agreement": agreement}[part]()
