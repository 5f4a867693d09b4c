"""Fitting ITQ beside faiss, and encoding very long vectors beside the dense projection, in the same run."""

import time
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
import report
from numpy.typing import NDArray
from scipy.sparse import csr_array

import isch
from isch import datasets
from isch.hashing.base import Hasher

D, M = 25_600, 12_800
ENCODED_ROWS = 512
ROUNDS = 3


def best(functions: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The shortest time of each function, taken in turns so that all meet the same machine."""
    times = dict.fromkeys(functions, float("inf"))
    for _ in range(ROUNDS):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


def faiss_itq(X: NDArray[np.float32], n_bits: int) -> None:
    """PCA and the rotation of faiss, on the same rows."""
    pca = faiss.PCAMatrix(X.shape[1], n_bits)
    pca.train(X)
    faiss.ITQMatrix(n_bits).train(pca.apply(X))


def made(cls: type[Hasher], **learned: Any) -> Hasher:
    """A hasher with given learned attributes: encoding does not care how they were learnt."""
    hasher = cls(n_bits=M)
    for name, value in {"n_features_in_": D, "n_samples_": 2, "mean_": np.zeros(D), **learned}.items():
        setattr(hasher, name, value)
    return hasher


def sparse_matrix(rng: np.random.Generator) -> csr_array:
    """A projection with a tenth of its entries, as many in each row."""
    each = D // 10
    indices = np.concatenate([np.sort(rng.choice(D, each, replace=False)) for _ in range(M)]).astype(np.int32)
    data = rng.standard_normal(M * each, dtype=np.float32)
    return csr_array((data, indices, np.arange(0, M * each + 1, each, dtype=np.int32)), shape=(M, D))


def long_vectors() -> list[list[object]]:
    """Encoding times at d = 25,600 and m = 12,800."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ENCODED_ROWS, D), dtype=np.float32)
    left, right = (np.linalg.qr(rng.standard_normal(shape))[0].astype(np.float32) for shape in ((200, 100), (128, 128)))
    column, flips = rng.standard_normal(D).astype(np.float32), rng.choice(np.array([-1, 1], np.float32), D)
    hashers = {
        "dense (LSH)": made(isch.LSH, projection_=rng.standard_normal((D, M), dtype=np.float32)),
        "CBE": made(isch.CBE, column_=column, flips_=flips),
        "BPBC, 200 × 128 → 100 × 128": made(isch.BPBC, left_=left, right_=right),
        "SP, 90 % zeros": made(isch.SP, sparse_projection_=sparse_matrix(rng)),
    }
    for hasher in hashers.values():
        hasher.transform(X[:64])
    times = best({name: lambda h=h: h.transform(X) for name, h in hashers.items()})  # type: ignore[misc]
    dense = times["dense (LSH)"]
    return [[name, 1e3 * t / ENCODED_ROWS, dense / t] for name, t in times.items()]


def main() -> None:
    """Print and record both tables."""
    X = np.asarray(datasets.load("mnist").images.reshape(-1, 784)[:60_000] / 255, np.float32)
    isch.ITQ(n_bits=8).fit(X[:500])
    fits = best({"isch": lambda: isch.ITQ(n_bits=128).fit(X), "faiss": lambda: faiss_itq(X, 128)})
    fitting = report.table(
        ["ITQ, 128 bits, 60,000 × 784", "seconds", "faiss / this"],
        [[name, t, fits["faiss"] / t] for name, t in fits.items()],
    )
    encoding = report.table([f"encoding, d = {D:,}, m = {M:,}", "ms per row", "dense / this"], long_vectors())
    print(fitting, encoding, sep="\n\n")
    text = (
        "## Methods\n\nFitting ITQ beside `faiss.PCAMatrix` and `faiss.ITQMatrix` (50 rounds) on the same rows; "
        f"encoding {ENCODED_ROWS} rows by structured projections beside a dense one. Best of {ROUNDS}, taken in turns."
    )
    report.section("methods", f"{text}\n\n{fitting}\n\n{encoding}\n\n{report.machine('faiss-cpu', 'scipy')}")


if __name__ == "__main__":
    main()
