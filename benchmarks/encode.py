"""Encoding against a bare float32 matrix product of the same shape, in the same run."""

import time
from collections.abc import Callable

import numpy as np
import report

from isch.hashing.isch import ISCH

SHAPES = ((784, 128), (1280, 256), (4096, 512), (25600, 3200))  # (dimensions, bits)
ROUNDS = 7
IDLE = 0.2  # seconds before each timing: threads of OpenBLAS go on spinning for a while after a product


def best(*functions: Callable[[], object]) -> list[float]:
    """The shortest time of each function, taken in turns so that all meet the same machine."""
    times = [[float("inf")] for _ in functions]
    for _ in range(ROUNDS):
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


def main() -> None:
    """Print and record the table."""
    rows: list[list[object]] = []
    for n_features, n_bits in SHAPES:
        n = max(8192, min(60_000, int(3e11 / (2 * n_features * n_bits))))
        X = np.random.default_rng(1).standard_normal((n, n_features), dtype=np.float32)
        hasher = fitted(n_features, n_bits)
        product, encode = best(lambda X=X, h=hasher: X @ h.projection_, lambda X=X, h=hasher: h.transform(X))
        rows.append([n_features, n_bits, n, n / product, n / encode, product / encode])
        print(rows[-1], flush=True)
    header = ["dimensions", "bits", "rows", "bare product, rows/s", "encode, rows/s", "ratio"]
    text = "## Encoding\n\nRatio of a bare float32 `X @ L` to `transform` (centre, project, threshold, pack).\n\n"
    report.section("encode", f"{text}{report.table(header, rows)}\n\n{report.machine()}")


if __name__ == "__main__":
    main()
