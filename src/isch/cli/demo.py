"""The demo: scikit-learn's digits, three methods, one search."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.cli.console import done, say
from isch.cli.outputs import claim
from isch.cli.progress import shown
from isch.evaluate import metrics
from isch.files import replacing
from isch.hashing import hasher
from isch.hashing.base import Hasher
from isch.scan.exact import distances, nearest

METHODS = ("isch", "itq", "lsh")
BITS = (16, 32, 48)
N_QUERIES = 300
K = 50
SHOWN = 7  # which query is drawn
SHADES = " .:-=+*#%@"


def run(folder: Path, force: bool) -> None:
    """Compare methods, show the neighbours of one digit, leave a model and codes in ``folder``."""
    from sklearn.datasets import load_digits

    folder.mkdir(parents=True, exist_ok=True)
    files = [claim(folder / name, [], force).wanted for name in ("model.safetensors", "digits.npy", "codes.npy")]
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.data))
    queries, database = order[:N_QUERIES], order[N_QUERIES:]
    X, labels = digits.data.astype(np.float32), digits.target
    relevant = labels[queries, None] == labels[database]
    say(f"{len(database)} handwritten digits of 8 × 8 pixels to search in, {N_QUERIES} to search for.")
    say(f"precision@{K}: of the {K} nearest, how many show the same digit.")
    say()
    with shown():
        _compare(X[queries], X[database], relevant)
        model = hasher("isch", n_bits=BITS[-1]).fit(X[database])
    codes = model.transform(X[database])
    near, rows = nearest(model.transform(X[queries[SHOWN : SHOWN + 1]]), codes, 5)
    _draw(digits.images[queries[SHOWN]], digits.images[database[rows[0]]], near[0])
    _leave(files, model, X[database], codes)


def _leave(files: list[Path], model: Hasher, digits: NDArray[np.float32], codes: NDArray[np.uint8]) -> None:
    """Write the files, and say what to do with them."""
    model.save(files[0])
    arrays: tuple[NDArray[Any], ...] = (digits, codes)
    for path, array in zip(files[1:], arrays, strict=True):
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.save(file, array)
    done(
        [
            "",
            f"model, codes and digits are in {files[0].parent}; next, with these or a feature file of your own:",
            f"  isch info {files[0]}",
            f"  isch fit {files[1]} --bits 48 -o model.safetensors",
            f"  isch encode model.safetensors {files[1]} -o codes.npy",
            f"  isch index build {files[1]} --model model.safetensors -o digits.isch",
        ]
    )


def _compare(queries: NDArray[np.float32], database: NDArray[np.float32], relevant: NDArray[np.bool_]) -> None:
    """A table of precision by method and code length, and of the 2-norm."""
    say(f"{'':>8}" + "".join(f"{bits:>4} bits" for bits in BITS))
    for name in METHODS:
        cells = []
        for bits in BITS:
            model = hasher(name, n_bits=bits).fit(database)
            near = distances(model.transform(queries), model.transform(database))
            profiles = [metrics.from_integers(d, r, bits + 1) for d, r in zip(near, relevant, strict=True)]
            cells.append(f"{_precision(profiles):>9.3f}")
        say(f"{name:>8}" + "".join(cells))
    squares = (database**2).sum(axis=1) - 2 * queries @ database.T
    profiles = [metrics.from_floats(d, r) for d, r in zip(squares, relevant, strict=True)]
    say(f"{'2-norm':>8}{_precision(profiles):>9.3f}  ({database.shape[1]} floats, {database.shape[1] * 32} bits)")


def _precision(profiles: list[metrics.Profile]) -> float:
    measure = metrics.measure(f"precision@{K}")
    return float(np.mean([measure.of(profile) for profile in profiles]))


def _draw(query: NDArray[np.float64], neighbours: NDArray[np.float64], near: NDArray[np.int32]) -> None:
    """The query and its neighbours side by side in characters."""
    say()
    say(f"A digit, and its {len(neighbours)} nearest by {BITS[-1]}-bit ISCH codes (bits that differ below):")
    say()
    pictures = [query, *neighbours]
    for row in range(len(query)):
        lines = ["".join(SHADES[int(v / 17 * len(SHADES))] * 2 for v in picture[row]) for picture in pictures]
        say("  " + " │ ".join(lines))
    say("  " + " │ ".join(f"{label:^16}" for label in ["query", *map(str, near)]))
