"""How much label precision is lost by choosing λ* without labels, and what the choice costs.

python benchmarks/lambda_star.py [--rows 4000] [--bits 32,128] [--seeds 1] [NAME=FEATURES.npy,LABELS.npy ...]

Regret is the precision of the best of λ* = 1, 2, …, 256, chosen by labels, minus that of the λ* in question: chosen by
``tau="auto"``, the typical eigenvalue (the rule of earlier versions), or ITQ's codes of the same length.
"""

import argparse
import time
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import report
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import isch
from isch.evaluate import datasets
from isch.evaluate.described import features_of
from isch.evaluate.metrics import from_integers, measure
from isch.evaluate.prepare import DataSpec, cache_home
from isch.hashing import spectrum
from isch.search.exact import distances

TRIED = np.exp2(np.arange(9.0))
QUERIES = 500
ETA = 0.05

Matrix = NDArray[np.float32]
Labels = NDArray[Any]


class Cell(NamedTuple):
    """Regrets of one set, length and seed."""

    chosen: float
    typical: float
    itq: float


@cache
def described(name: str, descriptor: str | None) -> tuple[Any, Labels]:
    """The features and labels of a dataset."""
    dataset = datasets.load(name)
    spec = DataSpec.of({"dataset": name} | ({"descriptor": descriptor} if descriptor else {}))
    return features_of(dataset, spec, cache_home()), np.asarray(dataset.labels)


def drawn(
    name: str, descriptor: str | None, rows: int, n_classes: int, merged: int, seed: int
) -> tuple[Matrix, Labels]:
    """Some rows of some classes; ``merged`` classes count as one."""
    features, labels = described(name, descriptor)
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.unique(labels))[:n_classes]
    keep = np.sort(rng.permutation(np.flatnonzero(np.isin(labels, order)))[:rows])
    place = {label: number // merged for number, label in enumerate(order)}
    return np.asarray(features.take(keep), np.float32), np.array([place[label] for label in labels[keep]])


def sets(rows: int, further: list[str], seed: int) -> Iterator[tuple[str, Matrix, Labels]]:
    """(name, features, labels) of each set whose data are here."""
    yield "digits", load_digits().data.astype(np.float32), load_digits().target
    kinds = [
        ("MNIST", "mnist", None, 10, 1),
        ("MNIST, five digits", "mnist", None, 5, 1),
        ("CIFAR-10 GIST", "cifar10", "gist", 10, 1),
        ("CNN, 200 classes", "tiny-imagenet", "cnn", 200, 1),
        ("CNN, 37 classes", "tiny-imagenet", "cnn", 37, 1),
        ("CNN, ten merged", "tiny-imagenet", "cnn", 200, 10),
    ]
    for label, name, descriptor, n_classes, merged in kinds:
        if datasets.state(name, None, {}) == "here":
            yield label, *drawn(name, descriptor, rows, n_classes, merged, seed)
    for text in further:
        label, _, paths = text.partition("=")
        features, labels = (np.load(path) for path in paths.split(","))
        keep = np.sort(np.random.default_rng(seed).permutation(len(features))[:rows])
        yield label, features[keep].astype(np.float32), labels[keep]


def precision(hasher: Any, X: Matrix, y: Labels, n_queries: int) -> float:
    """Mean label precision at half the size of a class, the first rows being the queries."""
    packed = hasher.transform(X)
    found, relevant = distances(packed[:n_queries], packed[n_queries:]), y[n_queries:]
    at = measure(f"precision@{int(np.clip(np.median(np.unique(relevant, return_counts=True)[1]) // 2, 5, 200))}")
    profiles = (from_integers(row, relevant == label, hasher.n_bits + 1) for row, label in zip(found, y, strict=False))
    return float(np.mean([at.of(profile) for profile in profiles]))


def regrets(X: Matrix, y: Labels, n_bits: int, seed: int) -> Cell:
    """What is lost on one set."""
    order = np.random.default_rng(seed).permutation(len(X))
    X, y, n_queries = X[order], y[order], min(QUERIES, len(X) // 4)

    def of(hasher: Any) -> float:
        return precision(hasher.fit(X[n_queries:]), X, y, n_queries)

    auto = isch.ISCH(n_bits, random_state=seed)
    chosen = of(auto)
    tried = [of(isch.ISCH(n_bits, tau=ETA / (2 * star), random_state=seed)) for star in TRIED]
    eigenvalues = np.linalg.svd(auto.dictionary_.astype(np.float64), compute_uv=False) ** 2
    rule = spectrum.typical(eigenvalues)
    typical = float(np.interp(np.log(rule), np.log(TRIED), tried))
    best = max(*tried, chosen)
    return Cell(best - chosen, best - typical, best - of(isch.ITQ(n_bits, random_state=seed)))


def cost(rows: int) -> str:
    """The processor time of a fit that chooses λ*, over that of one that is given it."""
    X, _ = drawn("mnist", None, rows, 10, 1, 0)
    spent = []
    for tau in (0.001, "auto"):
        start = time.process_time()
        isch.ISCH(128, tau=tau).fit(X)
        spent.append(time.process_time() - start)
    ratio = spent[1] / spent[0]
    return f"A fit of {rows:,} rows of MNIST, 128 bits, takes {ratio:.2f} × the processor time with λ* given."


def main() -> None:
    """Print and record the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--bits", default="32,128")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("further", nargs="*")
    asked = parser.parse_args()
    rows = []
    for seed in range(asked.seeds):
        for name, X, y in sets(asked.rows, asked.further, seed):
            for n_bits in map(int, asked.bits.split(",")):
                cell = regrets(X, y, n_bits, seed)
                rows.append([name, len(X), n_bits, seed, *(f"{1000 * value:.0f}" for value in cell)])
                print(*rows[-1], flush=True)
    titles = ["data", "rows", "bits", "seed", "chosen", "typical eigenvalue", "ITQ"]
    text = "## λ* without labels\n\nRegret in thousandths of label precision."
    report.section("lambda_star", f"{text} {cost(60_000)}\n\n{report.table(titles, rows)}")


if __name__ == "__main__":
    main()
