"""ISCH without labels beside the paper's map with the best λ* that labels can find, and what learning the map costs.

python benchmarks/kernel_map.py [--bits 32,128,512] [NAME=FEATURES.npy,LABELS.npy[,DRAW] ...] [--only WORD] [--cost]

Regret is the precision of the best of λ* = 1, 2, …, 256, chosen by labels, minus that of the map in question: that of
``tau="auto"``, the paper's with λ* at the level of the spectrum, or ITQ's of the same length. It is negative where that
map is better than any λ*. It is taken for the first 10 results and for as many as half a class. The dictionary of a set
is learned once; rotations are short, alike for all. Writes a section of docs/methods.md; sets that are not measured
keep their rows. DRAW are the numbers of a ``Draw``, such as 3000,10,1,1000000,31; by default 9,000 rows.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import report
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import isch
from isch.evaluate import datasets
from isch.evaluate.described import features_of
from isch.evaluate.metrics import measure
from isch.evaluate.prepare import DataSpec, cache_home
from isch.evaluate.rankers import CodeRanker
from isch.evaluate.ranking import Truth, score
from isch.fitting import Fit
from isch.hashing import dictionary, kernel_map, pca, rotation, spectrum
from isch.hashing.dictionary import KMEANS_ITERATIONS
from isch.hashing.isch import f

TRIED = np.exp2(np.arange(9.0))
QUERIES, HEAD, LONGEST = 1200, 10, 200
ROTATION_ROWS, ROUNDS = 4000, 10
BELOW = 0.003  # of precision: what counts as worse than ITQ
PAGE = Path(__file__).parents[1] / "docs" / "methods.md"

Matrix = NDArray[np.float32]
Labels = NDArray[Any]


class Draw(NamedTuple):
    """Some rows of some classes of a dataset; ``merged`` classes count as one."""

    rows: int
    classes: int = 1_000_000
    merged: int = 1
    per_class: int = 1_000_000
    seed: int = 0

    def of(self, features: Any, labels: Labels) -> tuple[Matrix, Labels]:
        """The rows and their labels, in random order."""
        rng = np.random.default_rng(self.seed)
        chosen = rng.permutation(np.unique(labels))[: self.classes]
        order = rng.permutation(np.flatnonzero(np.isin(labels, chosen)))
        order = np.concatenate([order[labels[order] == label][: self.per_class] for label in chosen])
        kept = rng.permutation(order)[: self.rows]
        ascending, back = np.unique(kept, return_inverse=True)
        place = {label: number // self.merged for number, label in enumerate(chosen)}
        return np.asarray(features.take(ascending), np.float32)[back], np.array([place[y] for y in labels[kept]])


KINDS: list[tuple[str, str, str | None, Draw]] = [
    ("MNIST", "mnist", None, Draw(11_500)),
    ("MNIST, few rows", "mnist", None, Draw(3000, seed=1)),
    ("MNIST, three digits", "mnist", None, Draw(4000, 3, seed=11)),
    ("MNIST, five digits", "mnist", None, Draw(7000, 5, seed=2)),
    ("GIST", "cifar10", "gist", Draw(11_000)),
    ("GIST, four classes", "cifar10", "gist", Draw(5000, 4, seed=3)),
    ("CNN, 200 classes", "tiny-imagenet", "cnn", Draw(11_000)),
    ("CNN, 200 classes of 20", "tiny-imagenet", "cnn", Draw(4000, per_class=20, seed=4)),
    ("CNN, 100 classes of 25", "tiny-imagenet", "cnn", Draw(2500, 100, per_class=25, seed=7)),
    ("CNN, 80 classes", "tiny-imagenet", "cnn", Draw(8000, 80, seed=17)),
    ("CNN, 37 classes", "tiny-imagenet", "cnn", Draw(3700, 37, seed=1)),
    ("CNN, 15 classes", "tiny-imagenet", "cnn", Draw(1500, 15, seed=2)),
    ("CNN, ten classes as one", "tiny-imagenet", "cnn", Draw(7000, merged=10, seed=5)),
    ("CNN, five classes as one", "tiny-imagenet", "cnn", Draw(5000, 50, 5, seed=6)),
    ("faces, LE", "orl-faces", "le", Draw(400)),
    ("faces, LBP", "orl-faces", "lbp", Draw(400, seed=42)),
    ("faces, GIST", "orl-faces", "gist", Draw(400, seed=43)),
    ("MNIST, 1,000 rows", "mnist", None, Draw(1000, seed=38)),
    ("MNIST, 30,000 rows", "mnist", None, Draw(30_000, seed=39)),
    ("GIST, 4,500 rows", "cifar10", "gist", Draw(4500, seed=35)),
    ("CNN, ten classes", "tiny-imagenet", "cnn", Draw(1000, 10, seed=21)),
    ("CNN, 60 classes of 40", "tiny-imagenet", "cnn", Draw(2400, 60, per_class=40, seed=22)),
    ("CNN, 200 classes of 50", "tiny-imagenet", "cnn", Draw(10_000, per_class=50, seed=23)),
]


@cache
def described(name: str, descriptor: str | None) -> tuple[Any, Labels]:
    """The features and labels of a dataset."""
    dataset = datasets.load(name)
    spec = DataSpec.of({"dataset": name} | ({"descriptor": descriptor} if descriptor else {}))
    return features_of(dataset, spec, cache_home()), np.asarray(dataset.labels)


def sets(further: Sequence[str], only: str) -> Iterator[tuple[str, Matrix, Labels]]:
    """(name, features, labels) of each set whose data are here."""
    if only in "digits":
        yield "digits", load_digits().data.astype(np.float32), load_digits().target
    for label, name, descriptor, draw in KINDS:
        if only in label and datasets.state(name, None, {}) == "here":
            yield label, *draw.of(*described(name, descriptor))
    for text in further:
        label, _, paths = text.partition("=")
        features, labels, *numbers = paths.split(",")
        if only in label:
            draw = Draw(*map(int, numbers)) if numbers else Draw(9000)
            yield label, *draw.of(isch.features.open(features), np.load(labels))


class Judge:
    """Rows in the coordinates of eigenvectors and of principal directions, and the precision of their codes."""

    def __init__(self, X: Matrix, y: Labels, longest: int) -> None:
        self.n_queries = min(QUERIES, len(X) // 4)
        base = X[self.n_queries :]
        mean = base.mean(axis=0, dtype=np.float64)
        rng = np.random.default_rng(0)
        atoms = dictionary.flat(base - mean.astype(np.float32), min(2 * X.shape[1], len(base)), KMEANS_ITERATIONS, rng)
        self.pairs = spectrum.exact(atoms, min(atoms.shape))
        self.Z = dictionary.unit_scale(((X - mean) @ self.pairs.eigenvectors).astype(np.float32))
        found = pca.spanning(Fit(rng), isch.features.open(base), longest)
        self.P = ((X - mean) @ found.directions).astype(np.float32)
        self.truth = Truth(y[: self.n_queries], y[self.n_queries :], None)
        per_class = np.unique(y[self.n_queries :], return_counts=True)[1]
        half = int(np.clip(np.median(per_class) // 2, 5, LONGEST))
        self.measures = [measure(f"precision@{HEAD}"), measure(f"precision@{half}")]

    def paper(self, star: float, n_bits: int) -> tuple[float, ...]:
        """The precisions of the paper's map with this λ*."""
        eigenvalues = self.pairs.eigenvalues[:n_bits]
        return self.precisions(self.Z[:, :n_bits] * f(eigenvalues, star).astype(np.float32), n_bits)

    def learned(self, n_bits: int) -> tuple[float, ...]:
        """The precisions of the map that is learned without labels."""
        pairs, database = self.pairs.first(max(n_bits, kernel_map.WIDTH)), self.Z[self.n_queries :]
        r, sample = (
            len(pairs.eigenvalues),
            np.random.default_rng(2).permutation(len(database))[: kernel_map.SAMPLE_ROWS],
        )
        (W,) = kernel_map.maps(
            Fit(np.random.default_rng(0)), database[np.sort(sample), :r], pairs, [min(n_bits, r)], n_bits
        )
        return self.precisions(self.Z[:, :r] @ W, n_bits)

    def precisions(self, values: Matrix, n_bits: int) -> tuple[float, ...]:
        """Of the first results and of half a class, after a rotation."""
        learning = values[self.n_queries :][:ROTATION_ROWS]
        learning = learning * np.float32(np.sqrt(learning.shape[0] * n_bits) / np.linalg.norm(learning))
        first = rotation.random(values.shape[1], np.random.default_rng(1), n_bits)
        R = rotation.learn(learning, ROUNDS, np.random.default_rng(0), first).matrix.astype(np.float32)
        packed = np.packbits(values @ R >= 0, axis=1)
        ranker = CodeRanker(packed[: self.n_queries], packed[self.n_queries :], n_bits)
        found = score(ranker, self.truth, self.measures)
        return tuple(float(found.mean(one.name)) for one in self.measures)

    def regrets(self, n_bits: int) -> NDArray[np.float64]:
        """(learned, level, ITQ) × (first results, half a class)."""
        found = [
            self.learned(n_bits),
            self.paper(self.pairs.level, n_bits),
            self.precisions(self.P[:, :n_bits], n_bits),
        ]
        return np.max([self.paper(star, n_bits) for star in TRIED], axis=0) - np.array(found)


def row(name: str, X: Matrix, y: Labels, lengths: Sequence[int]) -> list[object]:
    """A row of the table: mean / worst regret over the lengths, in thousandths."""
    judge = Judge(X, y, max(lengths))
    found = np.array([judge.regrets(n_bits) for n_bits in lengths])  # lengths × choices × depths
    below = int((found[:, 0] > found[:, 2] + BELOW).sum())
    cells = [f"{1000 * one.mean():.0f} / {1000 * one.max():.0f}" for one in found.transpose(1, 2, 0).reshape(6, -1)]
    return [name, len(X), len(np.unique(y)), *cells, f"{below} of {2 * len(lengths)}"]


def cost(rows: int) -> str:
    """The processor time of a fit that learns its map, over that of one that is given τ."""
    X, _ = Draw(rows).of(*described("mnist", None))
    spent = []
    for hasher in (isch.ISCH(128, tau=0.001), isch.DiffusionHash(128)):
        start = time.process_time()
        hasher.fit(X)
        spent.append(time.process_time() - start)
    ratio = spent[1] / spent[0]
    return f"A fit of {rows:,} rows of MNIST, 128 bits, takes {ratio:.2f} × the processor time with τ given."


def main() -> None:
    """Print and record the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", default="32,128,512")
    parser.add_argument("--only", default="", help="sets whose names contain this")
    parser.add_argument("--cost", action="store_true", help="measure what learning the map costs, too")
    parser.add_argument("further", nargs="*")
    asked = parser.parse_args()
    lengths = list(map(int, asked.bits.split(",")))
    for name, X, y in sets(asked.further, asked.only):
        found = row(name, X, y, lengths)
        print(*found, sep=" | ", flush=True)
        record([*report.kept("belonging", PAGE, {name}), found], lengths)
    if asked.cost:
        print(cost(60_000))


def record(rows: list[list[object]], lengths: Sequence[int]) -> None:
    """Write the table."""
    choices = [f"{what}, {depth}" for what in ("**learned**", "level", "ITQ") for depth in ("first 10", "half a class")]
    heads = ["data", "rows", "classes", *choices, "more than 3 below ITQ"]
    text = f"Regret in thousandths of label precision, mean / worst over {', '.join(map(str, lengths))} bits:"
    report.section("belonging", f"{text}\n\n{report.table(heads, rows)}", PAGE)


if __name__ == "__main__":
    main()
