"""What quick commands do not import: it takes longer than their work. Times are measured in benchmarks/startup.py."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import isch

HEAVY = {"sklearn", "scipy", "numba", "pandas", "matplotlib", "rich", "PIL", "onnxruntime", "fastapi", "h5py", "dask"}
X = np.random.default_rng(0).standard_normal((300, 16), dtype=np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("startup")
    hasher = isch.ISCH(n_bits=12, random_state=0).fit(X)
    hasher.save(place / "model")
    isch.Index.create(place / "items.isch", hasher, X, metadata=[{"odd": i % 2} for i in range(len(X))]).close()
    np.save(place / "query.npy", X[0])
    np.save(place / "x.npy", X)
    return place


def imported(code: str, folder: Path) -> set[str]:
    """The heavy packages that a program has imported in the end."""
    program = f"import sys\n{code}\nprint(*sorted({HEAVY} & set(sys.modules)), sep=chr(10), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["info", "model"],
        ["info", "items.isch"],
        ["encode", "model", "x.npy", "-o", "codes.npy"],
        ["search", "items.isch", "query.npy"],
        ["search", "items.isch", "query.npy", "--where", "odd=1", "--json"],
        ["within", "items.isch", "query.npy", "--radius", "3"],
    ],
)
def test_quick_commands(arguments: list[str], folder: Path) -> None:
    code = f"from isch.cli.program import run\nif run({arguments}): sys.exit('failed')"
    assert imported(code, folder) == set()
    if "-o" in arguments:
        os.remove(folder / "codes.npy")


def test_the_page_needs_no_scikit_learn(folder: Path) -> None:
    pytest.importorskip("fastapi", reason="the search page needs the extra photos")
    code = f"""
from starlette.testclient import TestClient
import isch.web.app, isch.photos.library
from isch.web.indexed import create
from isch.web.settings import Settings
with TestClient(create("items.isch", Settings()), base_url="http://127.0.0.1:1") as client:
    assert client.post("/api/search", json={{"vector": {X[7].tolist()}, "k": 3}}).json()["items"][0]["key"] == 7
"""
    assert not imported(code, folder) & {"sklearn", "pandas", "matplotlib", "dask"}
