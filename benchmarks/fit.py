"""Fitting ISCH on MNIST against the bare matrix products of its k-means plus eigh; k-means against its peers."""

import time

import faiss
import numpy as np
import report
from sklearn.cluster import KMeans

from isch import datasets, kmeans
from isch.hashing.dictionary import KMEANS_ITERATIONS
from isch.hashing.isch import ISCH

N_ATOMS = 1568


def seconds(function: object) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    function()  # type: ignore[operator]
    return time.perf_counter() - start


def products(X: np.ndarray) -> None:  # type: ignore[type-arg]
    """The matrix products that the assignments of k-means cannot do without."""
    centres = X[:N_ATOMS].T.copy()
    for _ in range(KMEANS_ITERATIONS):
        X @ centres


def faiss_kmeans(X: np.ndarray) -> None:  # type: ignore[type-arg]
    """k-means of faiss on all rows."""
    faiss.Kmeans(X.shape[1], N_ATOMS, niter=KMEANS_ITERATIONS, max_points_per_centroid=len(X), seed=0).train(X)


def main() -> None:
    """Print and record the table."""
    X = np.ascontiguousarray(datasets.load("mnist").images.reshape(-1, 784)[:68_000], np.float32) / 255
    centred = X - X.mean(axis=0)
    gram = centred.T.astype(np.float64) @ centred
    ISCH(16, n_atoms=64).fit(X[:500])
    bare = seconds(lambda: products(centred))
    eigh = seconds(lambda: np.linalg.eigh(gram))
    rng = np.random.default_rng(0)
    sklearn = KMeans(N_ATOMS, init="random", n_init=1, max_iter=KMEANS_ITERATIONS, tol=0, algorithm="lloyd")
    times = {
        "bare products of k-means": bare,
        "`eigh` of D Dᵀ": eigh,
        "k-means, isch": seconds(lambda: kmeans.fit(centred, N_ATOMS, KMEANS_ITERATIONS, rng)),
        "k-means, scikit-learn": seconds(lambda: sklearn.fit(centred)),
        "k-means, faiss": seconds(lambda: faiss_kmeans(centred)),
        "whole fit, 128 bits": seconds(lambda: ISCH(128).fit(X)),
        "whole fit, 256 bits": seconds(lambda: ISCH(256).fit(X)),
    }
    rows: list[list[object]] = [[name, t, t / (bare + eigh)] for name, t in times.items()]
    text = f"## Fitting\n\nMNIST, 68,000 × 784, {N_ATOMS} atoms, {KMEANS_ITERATIONS} iterations of k-means.\n\n"
    table = report.table(["what", "seconds", "ratio to products + eigh"], rows)
    print(table)
    report.section("fit", f"{text}{table}\n\n{report.machine('scikit-learn', 'faiss-cpu')}")


if __name__ == "__main__":
    main()
