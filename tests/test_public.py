"""What ``import isch`` gives, and what it does not load."""

import subprocess
import sys

import pytest

import isch
from isch.hashing import METHODS


def test_every_public_name_is_there() -> None:
    assert set(dir(isch)) >= {
        "Encoder",
        "Hasher",
        "Index",
        "datasets",
        "distances",
        "load",
        "nearest",
        *METHODS.classes(),
    }
    for name in dir(isch):
        assert getattr(isch, name) is not None
    for cls, name in METHODS.classes().items():
        assert getattr(isch, cls).name == name
        assert issubclass(getattr(isch, cls), isch.Hasher)
    with pytest.raises(AttributeError, match="module 'isch' has no attribute 'magic'"):
        _ = isch.magic


def run(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout


def test_datasets_can_be_imported() -> None:
    assert run("import isch.datasets; print(isch.datasets.load.__name__)") == "load\n"
    assert run("from isch import *; print(ITQ.__name__, nearest.__name__)") == "ITQ nearest\n"


USE = """
import sys
import numpy as np
import isch
X = np.random.default_rng(0).standard_normal((300, 16), dtype=np.float32)
for name in isch.hashing.METHODS:
    isch.load(f"{sys.argv[1]}/{name}").transform(X)
hasher = isch.load(sys.argv[1] + "/lsh")
codes = hasher.transform(X)
isch.nearest(codes[:3], codes, 5)
with isch.Index.open(sys.argv[1] + "/items.isch") as index:
    index.search(X[:2], k=3)
print(sorted(m for m in ("sklearn", "scipy.stats", "pandas") if m in sys.modules))
"""


@pytest.mark.filterwarnings("ignore::isch.errors.IschWarning")
def test_encoding_and_search_load_no_scikit_learn(tmp_path: object) -> None:
    import numpy as np

    X = np.random.default_rng(0).standard_normal((300, 16), dtype=np.float32)
    for name in METHODS:
        isch.hasher(name, n_bits=8).fit(X).save(f"{tmp_path}/{name}")
    with isch.Index.create(f"{tmp_path}/items.isch", isch.load(f"{tmp_path}/lsh")) as index:
        index.add(X)
    done = subprocess.run(
        [sys.executable, "-c", USE, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
