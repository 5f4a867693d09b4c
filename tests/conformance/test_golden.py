"""Codes and vectors stay what they were: a change beyond rounding must raise the ``revision`` of what makes them.

Stored results of experiments count as long as the revision stays, so a change that nobody announced would let old and
new values stand side by side. After raising a revision, write the golden files of that method or descriptor anew:

    python tests/conformance/test_golden.py isch gist
"""

import hashlib
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.datasets import load_digits, load_sample_images

import isch
from isch import codes, datasets, describe
from isch.evaluate.datasets import data_home
from isch.hashing import METHODS

GOLDEN = Path(__file__).parents[1] / "golden"
TOLERANCE = 1e-3  # share of the bits that rounding may change
VECTOR_TOLERANCE = 1e-2  # share of the length of a vector

Rows = Any


@cache
def digits() -> Rows:
    """1,797 handwritten digits, 64 whole numbers each."""
    return load_digits().data


@cache
def gist() -> Rows:
    """GIST of the first 600 pictures of CIFAR-10, 512 values each."""
    return np.load(GOLDEN / "gist.npy").astype(np.float32)


def sparse() -> Rows:
    return csr_array(np.where(digits() > 8, digits(), 0).astype(np.float32))


def wide() -> Rows:
    """More columns than one flat dictionary and an exact spectrum are made for."""
    factors = np.random.default_rng(0).integers(1, 9, 9 * 512).astype(np.float32) / 8
    return np.tile(gist(), 9) * factors


@cache
def mnist() -> Rows:
    dataset = datasets.load("mnist")
    assert dataset.features is not None
    return dataset.features.read(0, 2000)


@cache
def cifar() -> Rows:
    """GIST of the first 2,000 pictures, rounded as in the file, so that the descriptor's rounding does not matter."""
    images = datasets.load("cifar10").images
    assert images is not None
    return isch.describe.GIST().transform(images[:2000]).astype(np.float16).astype(np.float32)


SOURCES: dict[str, Callable[[], Rows]] = {
    "digits": digits,
    "gist": gist,
    "sparse": sparse,
    "wide": wide,
    "mnist": mnist,
    "cifar": cifar,
}
LARGE = {"mnist": "mnist", "cifar": "cifar-10"}  # source: folder of the data set it needs
COMMON = {"digits": 32, "gist": 64, "sparse": 16, "mnist": 64, "cifar": 64}  # bits of the codes of every method
QUICK: dict[str, dict[str, Any]] = {"sp": {"n_iter": 10}, "kmh": {"n_iter": 10}}
FURTHER: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "isch": [
        ("gist", {"n_bits": 64, "dictionary": "hierarchical", "spectrum": "randomized", "tau": 0.01}),
        ("gist", {"n_bits": 64, "tau": 0.002}),
        ("wide", {"n_bits": 64, "dictionary": "hierarchical", "n_branches": 8, "spectrum": "columns", "n_iter": 10}),
    ],
    "diffusion": [
        ("gist", {"n_bits": 128, "dictionary": "hierarchical", "spectrum": "columns", "block_size": 32}),
        ("wide", {"n_bits": 64, "dictionary": "hierarchical", "n_branches": 8, "n_iter": 10}),
    ],
    "distance": [("gist", {"n_bits": 256, "n_iter": 10})],
    "itq": [("wide", {"n_bits": 32, "n_iter": 10})],
    "bpbc": [("gist", {"n_bits": 60, "learn": False})],
    "cbe": [("gist", {"n_bits": 200, "learn": False})],
    "sp": [("digits", {"n_bits": 100, "n_iter": 10})],
    "sph": [("digits", {"n_bits": 100, "n_iter": 10})],
}

# Where k-means or an alternation magnifies rounding: codes of other matrix products (another processor) are others.
DELICATE = {
    *("isch-0-digits", "isch-1-gist", "isch-2-sparse", "isch-3-mnist", "isch-4-cifar"),
    *("isch-5-gist", "isch-7-wide", "diffusion-5-gist", "diffusion-6-wide"),
    *("diffusion-0-digits", "diffusion-1-gist", "diffusion-2-sparse", "diffusion-3-mnist", "diffusion-4-cifar"),
    *("distance-0-digits", "distance-1-gist", "distance-2-sparse", "distance-3-mnist", "distance-4-cifar"),
    "distance-5-gist",
    *("itq-0-digits", "itq-2-sparse", "itq-4-cifar", "sp-3-mnist", "sp-5-digits", "cbe-4-cifar"),
}


@cache
def arithmetic() -> str:
    """Tells processors apart whose matrix products round differently."""
    A = np.random.default_rng(0).standard_normal((300, 300), np.float32)
    return hashlib.sha256((A @ A).tobytes() + (A.astype(np.float64) @ A).tobytes()).hexdigest()


def cases() -> dict[str, list[tuple[str, str, dict[str, Any]]]]:
    """Method: (key in its golden file, source, parameters) of each case."""
    every = {
        name: [(source, {"n_bits": bits, **QUICK.get(name, {})}) for source, bits in COMMON.items()]
        + FURTHER.get(name, [])
        for name in sorted(METHODS)
    }
    return {name: [(f"{i}-{source}", source, p) for i, (source, p) in enumerate(some)] for name, some in every.items()}


CASES = [(name, *case) for name, some in cases().items() for case in some]


def encode(name: str, source: str, parameters: dict[str, Any]) -> NDArray[np.uint8]:
    """Codes of at most 600 rows, learned from all."""
    X = SOURCES[source]()
    hasher = isch.hasher(name, **parameters).fit(X)
    return np.asarray(hasher.transform(X[: 600 if X.shape[0] > 600 else None]))


@pytest.mark.filterwarnings("ignore::isch.errors.IschWarning")  # some of the data sets are small for their codes
@pytest.mark.parametrize(("name", "key", "source", "parameters"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES])
def test_codes_are_what_they_were(name: str, key: str, source: str, parameters: dict[str, Any]) -> None:
    if source in LARGE and not ("ISCH_DATA" in os.environ and (data_home() / LARGE[source]).is_dir()):
        pytest.skip(f"needs {LARGE[source]} in $ISCH_DATA")
    with np.load(GOLDEN / "codes" / f"{name}.npz") as golden:
        assert golden["revision"] == isch.hashing.method(name).revision, f"write the golden codes of {name} anew"
        if f"{name}-{key}" in DELICATE and golden["arithmetic"] != arithmetic():
            pytest.skip("these codes hinge on rounding, and this processor rounds otherwise than where they were made")
        wanted = golden[key]
    n_bits = parameters["n_bits"]
    differing = codes.unpack(encode(name, source, parameters), n_bits) != codes.unpack(wanted, n_bits)
    assert differing.mean() <= TOLERANCE, f"raise the revision of {isch.hashing.method(name).__name__}"


DESCRIBERS: dict[str, dict[str, Any]] = {  # parameters that keep vectors short; the others have none
    "lbp": {"grid": 4},
    "le": {"grid": 3},
    "bow": {"n_words": 16},
    "vlad": {"n_words": 4},
    "fisher": {"n_words": 4},
    "llc": {"n_words": 16},
}


@cache
def pictures() -> list[NDArray[np.uint8]]:
    """Parts of the two photographs that come with scikit-learn."""
    wholes = load_sample_images().images
    return [image[y : y + 160, x : x + 160] for image in wholes for y in (40, 240) for x in (0, 200, 400)]


def vectors(name: str) -> NDArray[np.float32]:
    made = (
        describe.describer("gist+lbp", grid=2)
        if name == "fusion"
        else describe.describer(name, **DESCRIBERS.get(name, {}))
    )
    found = made.fit(pictures()).transform(pictures())
    return np.asarray(found.toarray() if hasattr(found, "toarray") else found, np.float32)


@pytest.mark.parametrize("name", describe.DESCRIPTORS)
def test_vectors_are_what_they_were(name: str) -> None:
    with np.load(GOLDEN / "vectors" / f"{name}.npz") as golden:
        assert golden["revision"] == describe.descriptor(name).revision, f"write the golden vectors of {name} anew"
        wanted = golden["vectors"].astype(np.float32)
    shift = np.linalg.norm(vectors(name) - wanted, axis=1) / np.linalg.norm(wanted, axis=1)
    assert shift.mean() <= VECTOR_TOLERANCE, f"raise the revision of {describe.descriptor(name).__name__}"


def write(names: list[str]) -> None:
    """Write the golden files of these methods and descriptors, or of all."""
    for name in names or METHODS:
        if name in METHODS:
            found = {key: encode(name, source, parameters) for key, source, parameters in cases()[name]}
            about = {"revision": isch.hashing.method(name).revision, "arithmetic": arithmetic()}
            np.savez_compressed(GOLDEN / "codes" / f"{name}.npz", **about, **found)  # type: ignore[arg-type]
    for name in names or describe.DESCRIPTORS:
        if name in describe.DESCRIPTORS:
            np.savez_compressed(
                GOLDEN / "vectors" / f"{name}.npz",
                revision=describe.descriptor(name).revision,
                vectors=vectors(name).astype(np.float16),
            )


if __name__ == "__main__":
    write(sys.argv[1:])
