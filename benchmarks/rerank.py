"""What re-ranking buys: precision@500 and recall@10 of an index on MNIST and on CIFAR-10 GIST, by code length.

python benchmarks/rerank.py mnist cifar                      needs $ISCH_DATA; describing and fitting take minutes
python benchmarks/rerank.py cifar --gist gist.npy            keeps the GIST descriptors for the next run
"""

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from report import machine, section, table

from isch import CodeTable, DiffusionHash, Index, compute, datasets
from isch.scan.exact import nearest_asymmetric

BITS = (32, 64, 128, 256)
N_QUERIES = 500
MAX_SAMPLES = 20_000  # rows that DiffusionHash learns from: enough, and three times quicker than all
K_LABELS, K_NEIGHBOURS = 500, 10


@dataclass
class Task:
    """A database with labels, and queries whose labels and true neighbours are known."""

    name: str
    base: NDArray[np.float32]
    base_labels: NDArray[np.int64]
    queries: NDArray[np.float32]
    query_labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        norms = np.einsum("ij,ij->i", self.base, self.base)

        def order(start: int) -> NDArray[np.intp]:
            block = norms - 2 * self.queries[start : start + 100] @ self.base.T
            near = np.argpartition(block, K_LABELS, axis=1)[:, :K_LABELS]
            return np.take_along_axis(near, np.argsort(np.take_along_axis(block, near, axis=1), axis=1), axis=1)

        self.neighbours = np.concatenate(list(compute.parallel(order, range(0, len(self.queries), 100))))

    def precision(self, rows: Any) -> float:
        """The part of the results that have their query's label."""
        return float((self.base_labels[np.asarray(rows)] == self.query_labels[:, None]).mean())

    def recall(self, rows: Any) -> float:
        """The part of the 10 nearest by 2-norm among as many results."""
        pairs = zip(self.neighbours[:, :K_NEIGHBOURS], rows, strict=True)
        return float(np.mean([len(np.intersect1d(truth, found)) / K_NEIGHBOURS for truth, found in pairs]))


def mnist() -> Task:
    data = datasets.load("mnist")
    return split("MNIST pixels", np.asarray(data.features.read(0, data.n_items)), data.labels, 60_000)


def cifar(cache: Path | None) -> Task:
    from isch.describe.gist import GIST

    data = datasets.load("cifar10")
    if cache is not None and cache.exists():
        features = np.load(cache)
    else:
        features = GIST().fit(None).transform(list(data.images))
        if cache is not None:
            np.save(cache, features)
    return split("CIFAR-10 GIST-512", features, data.labels, 50_000)


def split(name: str, features: Any, labels: Any, n_base: int) -> Task:
    base, queries = slice(0, n_base), slice(n_base, n_base + N_QUERIES)
    return Task(name, features[base], labels[base], features[queries], labels[queries])


def rows_for(task: Task, bits: int, folder: Path) -> list[list[object]]:
    """Results of each kind of re-ranking at one code length."""
    hasher = DiffusionHash(n_bits=bits, max_samples=MAX_SAMPLES).fit(task.base)
    lines: list[list[object]] = []
    with Index.create(folder / f"{bits}.isch", hasher, keep_features="float16") as index:
        index.add(task.base)
        for name in ("none", "asymmetric", "exact"):
            labels = index.search(task.queries, K_LABELS, rerank=name).keys
            near = index.search(task.queries, K_NEIGHBOURS, rerank=name).keys
            lines.append([bits, name, task.precision(labels), task.precision(near), task.recall(near)])
    codes, values = CodeTable(hasher.transform(task.base)), hasher.project(task.queries)
    _, labels = nearest_asymmetric(values, codes, K_LABELS)
    _, near = nearest_asymmetric(values, codes, K_NEIGHBOURS)
    everything = [task.precision(labels), task.precision(near), task.recall(near)]
    lines.insert(2, [bits, "asymmetric, all rows", *everything])
    return lines


def measure(task: Task, folder: Path) -> str:
    truth = [task.precision(task.neighbours), task.precision(task.neighbours[:, :K_NEIGHBOURS]), 1.0]
    lines: list[list[object]] = [["–", "2-norm of the features", *truth]]
    for bits in BITS:
        lines += rows_for(task, bits, folder)
        print(table([""] * 5, lines[-4:]), flush=True)
    header = ["bits", "re-ranking", "precision@500", "precision@10", "recall@10 of the 2-norm"]
    return f"""## Re-ranking: what it buys on {task.name}

`Index.search` with DiffusionHash (learnt from {MAX_SAMPLES:,} rows), {len(task.base):,} items, {N_QUERIES:,} queries.
"none" is the order of the codes; "asymmetric", the default, re-orders the best codes by the query's real projections;
"asymmetric, all rows" scores the whole database, which the default must nearly reach; "exact" re-orders the same
candidates by float16 features.

{table(header, lines)}

{machine()}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+", choices=["mnist", "cifar"])
    parser.add_argument("--gist", type=Path)
    arguments = parser.parse_args()
    for name in arguments.data:
        with tempfile.TemporaryDirectory() as folder:
            text = measure(mnist() if name == "mnist" else cifar(arguments.gist), Path(folder))
        print(text, flush=True)
        section(f"rerank-{name}", text)


if __name__ == "__main__":
    main()
