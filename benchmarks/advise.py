"""Predictions of ``isch advise`` beside measurements: codes learned from all rows, 2,000 other queries.

python benchmarks/advise.py mnist.npy gist.npy cnn.npy minilm.npy wordllama.npy --rows 200000 --methods itq lsh
"""

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from judged import parser
from numpy.typing import NDArray
from report import section, table

import isch
from isch.errors import IschWarning
from isch.evaluate import advice
from isch.evaluate.advice import Cell

N_QUERIES, K = 2000, 10
WITHIN = 0.02


def main() -> None:
    """Print every cell, and record a line per data set."""
    options = parser(__doc__ or "")
    options.add_argument("--methods", nargs="+", default=advice.METHODS)
    options.add_argument("--bytes", type=int, default=32, help="of the longest code")
    asked = options.parse_args()
    warnings.simplefilter("ignore", IschWarning)
    rows: list[list[object]] = []
    for file in asked.files:
        features = np.asarray(np.load(file, mmap_mode="r")[: asked.rows], np.float32)
        found = advice.advise(features, n_bytes=asked.bytes, methods=asked.methods)
        near, covered, errors = 0, 0, []
        for cell, truth in measured(features, found.cells):
            inside = cell.low <= truth <= cell.high
            errors.append(cell.recall - truth)
            near, covered = near + (abs(errors[-1]) <= WITHIN), covered + inside
            what = (file.stem, cell.method, cell.n_bits, f"×{cell.oversample}")
            told = f"{cell.recall:.3f} [{cell.low:.3f}, {cell.high:.3f}]"
            print(*what, told, f"{truth:.3f}", "" if inside else "outside", sep="\t", flush=True)
        n = len(errors)
        worst = max(errors, key=abs)
        rows.append([file.stem, len(features), n, f"{near / n:.0%}", f"{covered / n:.0%}", f"{worst:+.3f}"])
        print(*rows[-1], sep="\t", flush=True)
    head = ["data", "rows", "cells", f"within {WITHIN}", "inside the interval", "worst error"]
    text = (
        f"## Advice\n\nRecall of {K} true neighbours that `isch advise --bytes {asked.bytes}` predicts, against codes "
        f"learned from all rows and {N_QUERIES} other queries; cells are methods × lengths × oversampling."
    )
    section("advise", f"{text}\n\n{table(head, rows)}")


def measured(features: NDArray[np.float32], cells: list[Cell]) -> Iterator[tuple[Cell, float]]:
    """(cell, recall measured)."""
    chosen = np.sort(np.random.default_rng(99).choice(len(features), N_QUERIES, replace=False))
    truth = neighbours(features, chosen)
    for model in dict.fromkeys((cell.method, cell.n_bits) for cell in cells):
        name = model[0]
        hasher = isch.hasher(name, n_bits=model[1]).fit(features)
        others = (
            found_by_factors(hasher, features, chosen)
            if name == advice.ESTIMATING
            else found_by_bits(hasher, features, chosen)
        )
        for cell in cells:
            if (cell.method, cell.n_bits) == model:
                first = others[:, : K * cell.oversample]
                yield cell, float(np.mean([np.isin(t, f).mean() for t, f in zip(truth, first, strict=True)]))


def found_by_bits(hasher: isch.Hasher, features: NDArray[np.float32], chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """As many other rows as the largest oversampling takes."""
    codes, most = hasher.transform(features), K * max(advice.OVERSAMPLING)
    found = isch.nearest(codes[chosen], codes, most + 1)[1]
    return np.array([rows[rows != query][:most] for rows, query in zip(found, chosen, strict=True)])


def found_by_factors(hasher: isch.Hasher, features: Any, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """What an index with factors finds."""
    with (
        tempfile.TemporaryDirectory() as folder,
        isch.Index.create(Path(folder) / "x.isch", hasher, features, keep_features="factors") as index,
    ):
        found = index.search(features[chosen], K + 1).keys
    return np.array([[row for row in rows if row != query][:K] for rows, query in zip(found, chosen, strict=True)])


def neighbours(features: NDArray[np.float32], chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """The K true neighbours of some rows."""
    centred = features - features.mean(axis=0)
    squares = np.einsum("ij,ij->i", centred, centred)
    parts = []
    for some in np.array_split(chosen, -(-len(chosen) // 200)):
        distances = squares - 2 * (centred[some] @ centred.T)
        distances[np.arange(len(some)), some] = np.inf
        parts.append(np.argpartition(distances, K, axis=1)[:, :K])
    return np.concatenate(parts)


if __name__ == "__main__":
    main()
