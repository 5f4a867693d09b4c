"""Every source of features behaves the same.

A format of the registry that can be written is tested without any line here; one that can only be read needs a maker
among ``SOURCES``.
"""

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from isch import features
from isch.features import Features, dense
from isch.features.content import Content
from isch.features.formats import FORMATS, SUFFIXES, module

X: NDArray[np.float32] = np.random.default_rng(0).standard_normal((257, 6)).astype(np.float32)


def npy(folder: Path) -> Any:
    np.save(folder / "x.npy", X)
    return folder / "x.npy"


def npz(folder: Path) -> Any:
    np.savez(folder / "x.npz", features=X, labels=np.zeros(257))
    return folder / "x.npz"


def sparse_npz(folder: Path) -> Any:
    sparse.save_npz(folder / "s.npz", sparse.csr_array(X))
    return folder / "s.npz"


def hdf5(folder: Path) -> Any:
    import h5py

    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("train", data=X, chunks=(50, 6), compression="gzip")
        file["other"] = np.zeros((3, 3))
    return folder / "x.h5"


def zarr(folder: Path) -> Any:
    import zarr

    zarr.save(folder / "x.zarr", X)
    return folder / "x.zarr"


def parquet_vectors(folder: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    column = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 6)
    pq.write_table(pa.table({"id": range(257), "vector": column}), folder / "v.parquet", row_group_size=40)
    return folder / "v.parquet"


def parquet_columns(folder: Path) -> Any:
    import pandas as pd

    pd.DataFrame(X, columns=list("abcdef")).to_parquet(folder / "c.parquet", row_group_size=100)
    return folder / "c.parquet"


def feather(folder: Path) -> Any:
    import pyarrow as pa
    import pyarrow.feather

    column = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 6)
    pyarrow.feather.write_feather(pa.table({"vector": column}), folder / "v.feather")
    return folder / "v.feather"


def fvecs(folder: Path) -> Any:
    rows = np.empty(257, [("n", "<i4"), ("x", "<f4", 6)])
    rows["n"], rows["x"] = 6, X
    rows.tofile(folder / "x.fvecs")
    return folder / "x.fvecs"


def dask(folder: Path) -> Any:
    import dask.array

    return dask.array.from_array(X, chunks=(100, 3))


def shards(folder: Path) -> Any:
    (folder / "shards").mkdir()
    for number, part in enumerate(np.array_split(X, 4)):
        np.save(folder / "shards" / f"part-{number}.npy", part)
    return str(folder / "shards")


def written(suffix: str, folder: Path) -> Any:
    """What a format of the registry writes itself."""
    names = [f"item {i}" for i in range(257)]
    content = Content((257, 6), X.dtype, False, lambda: iter((X[:100], X[100:])), names, names)
    module(Path(f"x{suffix}")).write(folder / f"x{suffix}", content)
    return folder / f"x{suffix}"


WRITABLE = [suffix for suffix in SUFFIXES if hasattr(module(Path(f"x{suffix}")), "write")]
SOURCES: dict[str, Callable[[Path], Any]] = {
    "array": lambda _: X,
    "fortran": lambda _: np.asfortranarray(X),
    "list": lambda _: X.tolist(),
    "csr": lambda _: sparse.csr_array(X),
    "coo": lambda _: sparse.coo_matrix(X),
} | {
    f.__name__: f
    for f in (npy, npz, sparse_npz, hdf5, zarr, parquet_vectors, parquet_columns, feather, fvecs, dask, shards)
}
SOURCES |= {f"written{suffix}": partial(written, suffix) for suffix in WRITABLE}


@pytest.fixture(scope="module", params=SOURCES)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Features:
    return features.open(SOURCES[request.param](tmp_path_factory.mktemp(request.param)))


def test_shape_and_type(source: Features) -> None:
    assert source.shape == (257, 6)
    assert len(source) == 257
    assert source.dtype in (np.float32, np.float64)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(a=st.integers(0, 257), b=st.integers(0, 257))
@example(a=257, b=257)
def test_read_gives_the_rows(source: Features, a: int, b: int) -> None:
    start, stop = sorted((a, b))
    np.testing.assert_array_equal(dense(source.read(start, stop)), X[start:stop])


@pytest.mark.parametrize("rows", [1, 64, 100, 1000])
def test_batches_cover_everything_in_order_any_number_of_times(source: Features, rows: int) -> None:
    for _ in range(2):
        batches = list(source.batches(rows))
        assert [start for start, _ in batches] == list(range(0, 257, rows))
        np.testing.assert_array_equal(np.concatenate([dense(block) for _, block in batches]), X)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(rows=st.sets(st.integers(0, 256), min_size=1))
def test_take_gives_the_rows(source: Features, rows: set[int]) -> None:
    chosen = np.array(sorted(rows))
    np.testing.assert_array_equal(dense(source.take(chosen)), X[chosen])
    subset = features.Subset(source, chosen)
    np.testing.assert_array_equal(dense(subset.read(0, len(chosen))), X[chosen])


def test_opening_twice_is_the_same_object(source: Features) -> None:
    assert features.open(source) is source


def test_pickles_are_the_same_source(source: Features) -> None:
    copy = pickle.loads(pickle.dumps(source))
    assert (copy.shape, copy.dtype, copy.where, copy.names) == (source.shape, source.dtype, source.where, source.names)
    np.testing.assert_array_equal(dense(copy.read(0, 257)), X)
    np.testing.assert_array_equal(np.concatenate([dense(block) for _, block in copy.batches(50)]), X)
    subset = pickle.loads(pickle.dumps(features.Subset(source, np.array([3, 200]))))
    np.testing.assert_array_equal(dense(subset.read(0, 2)), X[[3, 200]])


def test_closed_sources_open_again(source: Features) -> None:
    source.close()
    np.testing.assert_array_equal(dense(source.read(5, 9)), X[5:9])


@pytest.mark.parametrize("suffix", WRITABLE)
def test_what_is_written_has_names(suffix: str, tmp_path: Path) -> None:
    assert features.open(written(suffix, tmp_path)).names == [f"item {i}" for i in range(257)]


def test_every_format_has_a_source(tmp_path: Path) -> None:
    made = [make(tmp_path / name) for name, make in SOURCES.items() if (tmp_path / name).mkdir() is None]
    suffixes = {made.suffix for made in made if isinstance(made, Path)}
    lacking = [name for name, known in FORMATS.items() if not suffixes & set(known)]
    assert not lacking, f"a format needs write() or a maker among SOURCES: {lacking}"


@pytest.fixture(scope="module")
def attacked() -> dict[str, dict[str, int]]:
    """200 byte flips, 50 truncations, 50 smears and the crafted files for each format, read in a child process."""
    script = Path(__file__).parents[2] / "benchmarks" / "attack.py"
    options = ["--only", "features", "--each", "--flips", "200", "--cuts", "50", "--smears", "50", "--json"]
    done = subprocess.run([sys.executable, str(script), *options], capture_output=True, text=True)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert not report["notes"]
    results: dict[str, dict[str, int]] = report["results"]
    return results


@pytest.mark.parametrize("format", FORMATS)
def test_damage_gives_the_right_values_or_our_error(format: str, attacked: dict[str, dict[str, int]]) -> None:
    """Formats without checksums cannot tell that a value is another one; those answers count as ``changed``."""
    known = {"vecs": "fvecs"}.get(format, format)
    mine = [counts for name, counts in attacked.items() if known in name or name.endswith(SUFFIX_OF[format])]
    assert mine
    for counts in mine:
        assert counts["tried"] >= 300
        assert counts["tried"] == sum(counts.get(outcome, 0) for outcome in ("refused", "right", "changed"))


SUFFIX_OF = {name: suffixes[0] for name, suffixes in FORMATS.items()}
