"""Feature files of every format."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from attacks import crafted
from attacks.target import Target, nothing
from isch import features
from isch.features.formats import FORMATS, module
from isch.features.write import Writer

ROWS = np.random.default_rng(0).standard_normal((60, 6)).astype(np.float32)
NAMES = [f"item {i}" for i in range(60)]


def attempt(path: Path) -> Any:
    """All values, twice over: as batches and as a few rows; and the names."""
    source = features.open(path)
    whole = np.concatenate([features.dense(block, None) for _, block in source.batches(16)])
    some = features.dense(source.take(np.array([0, 7, len(source) - 1])), None)
    names = None if source.names is None else list(map(str, source.names))
    return whole, some, names


def npy(folder: Path) -> Path:
    np.save(folder / "x.npy", ROWS)
    return folder / "x.npy"


def npz(folder: Path) -> Path:
    np.savez(folder / "x.npz", features=ROWS, labels=np.zeros(60))
    return folder / "x.npz"


def npz_compressed(folder: Path) -> Path:
    np.savez_compressed(folder / "x.npz", features=ROWS)
    return folder / "x.npz"


def npz_csr(folder: Path) -> Path:
    sparse.save_npz(folder / "x.npz", sparse.csr_array(np.where(ROWS > 0, ROWS, 0)))
    return folder / "x.npz"


def npz_coo(folder: Path) -> Path:
    sparse.save_npz(folder / "x.npz", sparse.coo_array(np.where(ROWS > 0, ROWS, 0)), compressed=False)
    return folder / "x.npz"


def hdf5(folder: Path) -> Path:
    import h5py

    with h5py.File(folder / "x.h5", "w") as file:
        file["features"] = ROWS
        file["names"] = NAMES
    return folder / "x.h5"


def hdf5_chunked(folder: Path) -> Path:
    import h5py

    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("features", data=ROWS, chunks=(20, 6), compression="gzip", fletcher32=True)
    return folder / "x.h5"


def zarr(folder: Path) -> Path:
    import zarr

    zarr.create_array(folder / "x.zarr", data=ROWS, chunks=(20, 6))
    return folder / "x.zarr"


def parquet(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    column = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.ravel()), 6)
    pq.write_table(pa.table({"id": range(60), "vector": column}), folder / "x.parquet", row_group_size=25)
    return folder / "x.parquet"


def parquet_lists(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"vector": pa.array(ROWS.tolist(), pa.list_(pa.float32()))})
    pq.write_table(table, folder / "x.parquet", row_group_size=25, write_page_checksum=True)
    return folder / "x.parquet"


def parquet_columns(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({f"c{i}": ROWS[:, i] for i in range(6)}), folder / "x.parquet", row_group_size=25)
    return folder / "x.parquet"


def feather(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.feather

    column = pa.array(ROWS.tolist(), pa.list_(pa.float32()))
    pyarrow.feather.write_feather(pa.table({"vector": column}), folder / "x.feather", chunksize=25)
    return folder / "x.feather"


def feather_plain(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.feather

    column = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.ravel()), 6)
    pyarrow.feather.write_feather(
        pa.table({"vector": column}), folder / "x.feather", chunksize=25, compression="uncompressed"
    )
    return folder / "x.feather"


def vecs(suffix: str, kind: str) -> Any:
    rows = np.empty(60, [("n", "<i4"), ("x", kind, 6)])
    rows["n"], rows["x"] = 6, ROWS if kind == "<f4" else np.arange(360).reshape(60, 6) % 250
    return rows.tobytes()


def fvecs(folder: Path) -> Path:
    (folder / "x.fvecs").write_bytes(vecs(".fvecs", "<f4"))
    return folder / "x.fvecs"


def bvecs(folder: Path) -> Path:
    (folder / "x.bvecs").write_bytes(vecs(".bvecs", "u1"))
    return folder / "x.bvecs"


def written_as(suffix: str, folder: Path) -> Path:
    """A file as ``isch describe`` writes it."""
    with Writer(folder / f"x{suffix}", {}) as writer:
        writer.add(ROWS, NAMES, NAMES)
        writer.finish({"describer": b"\0"})
    return folder / f"x{suffix}"


def shards(folder: Path) -> Path:
    """A folder of files that ``isch describe`` has written."""
    (folder / "x").mkdir()
    for number, suffix in enumerate((".npz", ".h5", ".npz")):
        with Writer(folder / "x" / f"{number}{suffix}", {}) as writer:
            writer.add(ROWS[number * 20 : number * 20 + 20], NAMES[number * 20 : number * 20 + 20], NAMES[:20])
            writer.finish()
    return folder / "x"


UNSEALED = (
    npy,
    hdf5,
    hdf5_chunked,
    zarr,
    parquet,
    parquet_columns,
    parquet_lists,
    feather,
    feather_plain,
    fvecs,
    bvecs,
)
SEALED = (npz, npz_compressed, npz_csr, npz_coo)
CHECKSUMS = (".h5", ".npz")  # of the formats that Writer writes, those where they cover everything
CRAFTED = {
    "npy": crafted.npy,
    "npz": crafted.npz,
    "npz_csr": crafted.sparse_npz,
    "hdf5": crafted.hdf5,
    "zarr": crafted.zarr,
    "parquet": crafted.arrow,
    "fvecs": crafted.vecs,
    "shards": crafted.not_regular,
    "written.npy": crafted.renamed,
}


def targets() -> Iterator[Target]:
    """What other programs write, and what every format of ours that can be written writes."""
    for make in (*SEALED, *UNSEALED, shards):
        name = make.__name__
        sealed, craft = make in (*SEALED, shards), CRAFTED.get(name, nothing)
        yield Target(f"features {name}", make, attempt, sealed, craft, endless=make in (fvecs, bvecs))
    for suffix, *_ in FORMATS.values():
        if hasattr(module(Path(f"x{suffix}")), "write"):
            name = f"written{suffix}"
            craft = CRAFTED.get(name, nothing)
            yield Target(f"features {name}", partial(written_as, suffix), attempt, suffix in CHECKSUMS, craft)


TARGETS = list(targets())
