"""Every method learns and encodes on a Dask cluster as it does here."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isch import compute
from isch.hashing import METHODS, hasher

SMALL: dict[str, dict[str, Any]] = {
    **{name: {"n_iter": 10} for name in ("isch", "diffusion", "distance", "sph")},
    "kmh": {"n_iter": 5},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten correlated clusters in three blocks of rows."""
    rng = np.random.default_rng(0)
    rows = rng.normal(0, 20, (10, 24))[rng.integers(10, size=2500)] + rng.normal(0, 10, (2500, 24))
    path = tmp_path_factory.mktemp("conformance") / "rows.npy"
    np.save(path, rows.astype(np.float16))
    return path


@pytest.mark.parametrize("name", sorted(METHODS))
def test_the_same_model_and_codes(name: str, data: Path, client: Any, tmp_path: Path) -> None:
    """Same machine, so no product rounds differently: the same bytes."""
    found = []
    for place in ("here", "there"):
        learner = hasher(name, n_bits=12, **SMALL.get(name, {}))
        if place == "here":
            with compute.using(compute.Threads()):
                codes = learner.fit(data).transform(data)
        else:
            codes = learner.fit(data).transform(data)
        learner.save(tmp_path / place)
        found.append((codes.tobytes(), (tmp_path / place).read_bytes()))
    assert found[0] == found[1]


def test_a_dask_array_is_worked_on_by_the_workers(data: Path, client: Any) -> None:
    dask = pytest.importorskip("dask.array", reason="Dask is not installed")
    with compute.using(compute.Threads()):
        here = hasher("isch", n_bits=12).fit(data).transform(data)
    array = dask.from_array(np.load(data), chunks=(700, 24))
    for form in (array, array.persist()):
        np.testing.assert_array_equal(hasher("isch", n_bits=12).fit(form).transform(form), here)
