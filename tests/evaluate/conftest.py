"""A small labelled feature set and an experiment on it."""

from pathlib import Path

import numpy as np
import pytest

TOML = """
title = "toy"
bits = [8, 16]
seeds = 2
measures = ["precision@10", "map", "nn5-recall@20"]

[data]
dataset = "features"
path = "{folder}"

[split]
per_class = 5

[figure]
paper = ["isch", "itq"]
claim_bits = 16

[methods]
isch = {{}}
itq = {{}}
itq-asymmetric = {{ method = "itq", ranking = "asymmetric" }}
lsh = {{}}
2-norm = {{}}
sign = {{}}
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """The path of an experiment file."""
    return _write(tmp_path)


@pytest.fixture(scope="module")
def shared_toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for tests that only read what was run."""
    return _write(tmp_path_factory.mktemp("toy"))


def _write(top: Path) -> Path:
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 4
    features = rng.standard_normal((4, 24))[labels] + rng.standard_normal((600, 24))
    folder = top / "data"
    folder.mkdir()
    np.save(folder / "features.npy", features.astype(np.float32))
    np.save(folder / "labels.npy", labels)
    path = top / "toy.toml"
    path.write_text(TOML.format(folder=folder))
    return path
