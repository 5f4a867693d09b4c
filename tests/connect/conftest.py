"""Items with codes of several lengths, in an index of ours, to which every engine is compared; 100,000 real codes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import isch
from isch.codes import Codes

ITEMS = 600
LENGTHS = (13, 64, 256)


@dataclass(frozen=True)
class World:
    """What the engines are to hold, and what they are to answer."""

    hasher: Any
    features: NDArray[np.float32]
    codes: Codes
    keys: list[str | int]
    metadata: list[dict[str, Any] | None]
    index: isch.Index
    queries: NDArray[np.float32]


def key(number: int) -> str | int:
    """Integers, their spellings as text, and texts that mean something to SQL and to JSON."""
    if number % 3 == 0:
        return number
    return str(number - 1) if number % 3 == 1 else f'it\'s "{number}"; DROP TABLE photos; -- \\ é %s {{}}'


def make_world(folder: Path, n_bits: int) -> World:
    rng = np.random.default_rng(n_bits)
    centres = rng.normal(size=(20, 32))
    features = (centres[rng.integers(0, 20, ITEMS)] + 0.5 * rng.normal(size=(ITEMS, 32))).astype(np.float32)
    hasher = isch.LSH(n_bits=n_bits, random_state=0).fit(features)
    keys = [key(number) for number in range(ITEMS)]
    metadata: list[dict[str, Any] | None] = [
        None if i % 50 == 7 else {"even": i % 2 == 0, "i": i, "text": f"x{i % 7}", "it's": None, "size": i / 8}
        for i in range(ITEMS)
    ]
    index = isch.Index.create(folder / f"{n_bits}.isch", hasher, features, keys=keys, metadata=metadata)
    queries = features[:4] + 0.1 * rng.normal(size=(4, 32)).astype(np.float32)
    return World(hasher, features, hasher.transform(features), keys, metadata, index, queries)


@dataclass(frozen=True)
class Real:
    """Codes of pictures: handwritten digits, and the grey middles of photographs."""

    hasher: Any
    codes: Codes
    queries: Codes


@pytest.fixture(scope="session")
def real() -> Real:
    try:
        digits = isch.datasets.load("mnist").features.read(0, 70_000)
        photographs = isch.datasets.load("cifar10").images
    except isch.errors.MissingData as error:
        pytest.skip(f"the datasets are not here: {error}")
    grey = photographs[:30_200, 2:30, 2:30].mean(axis=3, dtype=np.float32).reshape(-1, 784) / 255
    hasher = isch.ITQ(n_bits=128, random_state=0).fit(np.concatenate([digits[:1500], grey[:1500]]))
    digits, grey = hasher.transform(digits), hasher.transform(grey)
    queries = np.concatenate([digits[69_970:], grey[30_170:]])
    return Real(hasher, np.concatenate([digits[:69_900], grey[:30_100]]), queries)


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[int, World]:
    folder = tmp_path_factory.mktemp("worlds")
    return {n_bits: make_world(folder, n_bits) for n_bits in LENGTHS}


@pytest.fixture(scope="session")
def world(worlds: dict[int, World]) -> World:
    return worlds[64]
