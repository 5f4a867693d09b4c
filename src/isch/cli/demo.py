"""The demo: scikit-learn's digits, three methods, one search."""

from pathlib import Path

import numpy as np
import typer
from numpy.typing import NDArray

from isch.cli.progress import shown
from isch.evaluate import metrics
from isch.hashing import hasher
from isch.search.exact import distances, nearest

METHODS = ("isch", "itq", "lsh")
BITS = (16, 32, 48)
N_QUERIES = 300
K = 50
SHOWN = 7  # which query is drawn
SHADES = " .:-=+*#%@"


def run(folder: Path) -> None:
    """Compare methods, show the neighbours of one digit, leave a model and codes in ``folder``."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.data))
    queries, database = order[:N_QUERIES], order[N_QUERIES:]
    X, labels = digits.data.astype(np.float32), digits.target
    relevant = labels[queries, None] == labels[database]
    typer.echo(f"{len(database)} handwritten digits of 8 × 8 pixels to search in, {N_QUERIES} to search for.")
    typer.echo(f"precision@{K}: of the {K} nearest, how many show the same digit.\n")
    with shown():
        _compare(X[queries], X[database], relevant)
        model = hasher("isch", n_bits=BITS[-1]).fit(X[database])
    codes = model.transform(X[database])
    near, rows = nearest(model.transform(X[queries[SHOWN : SHOWN + 1]]), codes, 5)
    _draw(digits.images[queries[SHOWN]], digits.images[database[rows[0]]], near[0])
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder / "model.safetensors")
    for name, array in (("digits.npy", X[database]), ("codes.npy", codes)):
        np.save(folder / name, array)
    typer.echo(f"\nmodel, codes and digits are in {folder}; next, with these or a feature file of your own:")
    typer.echo(f"  isch info {folder}/model.safetensors")
    typer.echo(f"  isch fit {folder}/digits.npy --bits 48 -o model.safetensors")
    typer.echo(f"  isch encode model.safetensors {folder}/digits.npy -o codes.npy")
    typer.echo(f"  isch index build {folder}/digits.npy --model model.safetensors -o digits.isch")


def _compare(queries: NDArray[np.float32], database: NDArray[np.float32], relevant: NDArray[np.bool_]) -> None:
    """A table of precision by method and code length, and of the 2-norm."""
    typer.echo(f"{'':>8}" + "".join(f"{bits:>4} bits" for bits in BITS))
    for name in METHODS:
        cells = []
        for bits in BITS:
            model = hasher(name, n_bits=bits).fit(database)
            near = distances(model.transform(queries), model.transform(database))
            profiles = [metrics.from_integers(d, r, bits + 1) for d, r in zip(near, relevant, strict=True)]
            cells.append(f"{_precision(profiles):>9.3f}")
        typer.echo(f"{name:>8}" + "".join(cells))
    squares = (database**2).sum(axis=1) - 2 * queries @ database.T
    profiles = [metrics.from_floats(d, r) for d, r in zip(squares, relevant, strict=True)]
    typer.echo(
        f"{'2-norm':>8}{_precision(profiles):>9.3f}  ({database.shape[1]} floats, {database.shape[1] * 32} bits)"
    )


def _precision(profiles: list[metrics.Profile]) -> float:
    measure = metrics.measure(f"precision@{K}")
    return float(np.mean([measure.of(profile) for profile in profiles]))


def _draw(query: NDArray[np.float64], neighbours: NDArray[np.float64], near: NDArray[np.int32]) -> None:
    """The query and its neighbours side by side in characters."""
    typer.echo(f"\nA digit, and its {len(neighbours)} nearest by {BITS[-1]}-bit ISCH codes (bits that differ below):\n")
    pictures = [query, *neighbours]
    for row in range(len(query)):
        lines = ["".join(SHADES[int(v / 17 * len(SHADES))] * 2 for v in picture[row]) for picture in pictures]
        typer.echo("  " + " │ ".join(lines))
    typer.echo("  " + " │ ".join(f"{label:^16}" for label in ["query", *map(str, near)]))
