"""Feature files made to do harm. Each function writes one kind of them, and yields their paths."""

import json
import os
import pickle
import shutil
import socket
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

X = np.arange(24, dtype=np.float32).reshape(6, 4)
HUGE = 2**62


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self._command = f"touch '{folder.parent / 'executed'}'"

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (self._command,)


def npy_bytes(head: bytes, body: bytes = b"", version: bytes = b"\1\0") -> bytes:
    """A .npy file with any header."""
    length = len(head).to_bytes(2 if version == b"\1\0" else 4, "little")
    return b"\x93NUMPY" + version + length + head + body


def npy(folder: Path) -> Iterator[Path]:
    """Headers that lie, and Python objects."""
    body = X.tobytes()
    heads = {
        "rows-too-many": b"{'descr': '<f4', 'fortran_order': False, 'shape': (7, 4)}",
        "rows-too-few": b"{'descr': '<f4', 'fortran_order': False, 'shape': (5, 4)}",
        "enormous": b"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
        "overflow": b"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
        "negative": b"{'descr': '<f4', 'fortran_order': False, 'shape': (-6, -4)}",
        "not-a-tuple": b"{'descr': '<f4', 'fortran_order': False, 'shape': 24}",
        "expression": b"__import__('os').system('touch ../executed')",
        "deep": b"(" * 5000 + b")" * 5000,
        "long": b"{'descr': '<f4', 'fortran_order': False, 'shape': (6, 4)}" + b" " * 60_000,
        "no-shape": b"{'descr': '<f4', 'fortran_order': False}",
        "objects": b"{'descr': '|O', 'fortran_order': False, 'shape': (6, 4)}",
        "complex": b"{'descr': '<c8', 'fortran_order': False, 'shape': (6, 2)}",
        "fields": b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6, 4)}",
        "text": b"{'descr': '<U1', 'fortran_order': False, 'shape': (6, 4)}",
        "zero-width": b"{'descr': '|S0', 'fortran_order': False, 'shape': (6, 4)}",
        "empty": b"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4)}",
        "vector": b"{'descr': '<f4', 'fortran_order': False, 'shape': (24,)}",
        "cube": b"{'descr': '<f4', 'fortran_order': False, 'shape': (6, 2, 2)}",
    }
    for name, head in heads.items():
        yield written(folder / f"{name}.npy", npy_bytes(head, body))
    yield written(folder / "version-9.npy", npy_bytes(heads["rows-too-few"], body, b"\t\0"))
    yield written(folder / "version-3.npy", npy_bytes(heads["rows-too-few"], body, b"\3\0"))
    np.save(folder / "pickle.npy", np.array([[Payload(folder)]], object), allow_pickle=True)
    yield folder / "pickle.npy"
    yield written(folder / "bare-pickle.npy", pickle.dumps(Payload(folder)))
    yield written(folder / "words.npy", b"a text file\n" * 20)
    np.save(folder / "named.npy", X)
    np.save(folder / "named.names.npy", np.array([Payload(folder)] * 6, object), allow_pickle=True)
    yield folder / "named.npy"
    np.save(folder / "few-names.npy", X)
    np.save(folder / "few-names.names.npy", np.array(["a", "b"]))
    yield folder / "few-names.npy"


def npz(folder: Path) -> Iterator[Path]:
    """Archives that lie about what they hold."""
    good = BytesIO()
    np.save(good, X)
    content = good.getvalue()
    yield archive(folder / "no-arrays.npz", {})
    yield archive(folder / "cut.npz", {"features.npy": content[:-4]})
    yield archive(folder / "long.npz", {"features.npy": content + b"more"})
    yield archive(folder / "program.npz", {"features.npy": content, "run.py": b"import os"})
    yield archive(folder / "pickle.npz", {"features.npy": pickle.dumps(Payload(folder))})
    yield archive(folder / "many.npz", {f"a{i}.npy": content for i in range(2000)})
    for name, method in (("bzip", zipfile.ZIP_BZIP2), ("lzma", zipfile.ZIP_LZMA)):
        yield archive(folder / f"{name}.npz", {"features.npy": content}, method)
    np.savez(folder / "objects.npz", features=np.array([[Payload(folder)]], object))
    yield folder / "objects.npz"
    np.savez(folder / "cube.npz", features=np.zeros((2, 2, 2)))
    yield folder / "cube.npz"
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}"
    yield archive(folder / "claims.npz", {"features.npy": npy_bytes(head, b"\0" * 1000)})
    yield lying_size(folder / "bomb.npz", content)


def lying_size(path: Path, content: bytes) -> Path:
    """An archive whose directory claims that a member has a terabyte, as its header says too."""
    head = npy_bytes(b"{'descr': '<f4', 'fortran_order': False, 'shape': (68719476736, 4)}")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("features.npy", head + b"\0" * 100_000)
        file.getinfo("features.npy").file_size = 2**40 + len(head)
    return path


def archive(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    """A zip file."""
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def sparse_npz(folder: Path) -> Iterator[Path]:
    """Sparse matrices whose indices lead out of them; SciPy would follow."""
    for kind in ("csr", "csc", "bsr", "coo", "dia"):
        good = sparse_parts(kind)
        indices = [name for name in ("indices", "row", "col", "offsets") if name in good]
        for name in indices:
            for label, value in (("negative", -9), ("outside", 9), ("huge", HUGE), ("least", -HUGE)):
                changed = good[name].astype(np.int64)
                changed[len(changed) // 2] = value
                yield saved(folder / f"{kind}-{name}-{label}.npz", good | {name: changed})
            yield saved(folder / f"{kind}-{name}-floats.npz", good | {name: good[name].astype(float)})
            yield saved(folder / f"{kind}-{name}-short.npz", good | {name: good[name][:-1]})
            yield saved(folder / f"{kind}-{name}-matrix.npz", good | {name: good[name][None]})
        for label, shape in (("small", (1, 1)), ("negative", (-6, 4)), ("cube", (6, 2, 2)), ("floats", (6.0, 4.0))):
            yield saved(folder / f"{kind}-shape-{label}.npz", good | {"shape": np.array(shape)})
        for part in good.keys() - {"format"}:
            yield saved(folder / f"{kind}-without-{part}.npz", {k: v for k, v in good.items() if k != part})
        yield saved(folder / f"{kind}-objects.npz", good | {"data": np.array([Payload(folder)] * 3, object)})
        yield saved(folder / f"{kind}-enormous.npz", good | {"shape": np.array([HUGE, HUGE])})
    good = sparse_parts("csr")
    pointers = {
        "falling": [0, 4, 2, 6, 8, 10, 12],
        "negative": [0, -4, 4, 6, 8, 10, 12],
        "huge": [0, 2, 4, HUGE, HUGE, HUGE, HUGE],
        "beyond": [0, 2, 4, 6, 8, 10, 13],
        "not-from-zero": [1, 2, 4, 6, 8, 10, 12],
        "short": [0, 2, 4],
        "long": [0, 2, 4, 6, 8, 10, 12, 12, 12],
        "none": [],
    }
    for label, values in pointers.items():
        yield saved(folder / f"csr-indptr-{label}.npz", good | {"indptr": np.array(values, np.int64)})
    yield saved(folder / "unknown-format.npz", good | {"format": np.array(b"os.system")})


def sparse_parts(kind: str) -> dict[str, Any]:
    """What ``scipy.sparse.save_npz`` stores of a small matrix."""
    file = BytesIO()
    sparse.save_npz(file, sparse.csr_array(np.where(X % 2, X, 0)).asformat(kind))
    file.seek(0)
    return {name: value for name, value in np.load(file).items() if name != "_is_array"}


def saved(path: Path, arrays: dict[str, Any]) -> Path:
    """A .npz file."""
    np.savez(path, **arrays)
    return path


def hdf5(folder: Path) -> Iterator[Path]:
    """Values that lie elsewhere, filters from elsewhere, and datasets that were never written."""
    import h5py

    secret = written(folder / "secret.bin", X.tobytes())
    with h5py.File(folder / "other.h5", "w") as other:
        other["features"] = X
        other["names"] = list("abcdef")
    makers: dict[str, Callable[[Any], Any]] = {
        "external": lambda f: f.create_dataset("features", (6, 4), "<f4", external=[(str(secret), 0, 96)]),
        "external-link": lambda f: f.__setitem__("features", h5py.ExternalLink("other.h5", "features")),
        "soft-link": lambda f: f.__setitem__("features", h5py.SoftLink("/group/features")),
        "group-link": lambda f: f.__setitem__("group", h5py.ExternalLink("other.h5", "/")),
        "virtual": lambda f: f.create_virtual_dataset("features", virtual(folder / "other.h5")),
        "unwritten": lambda f: f.create_dataset("features", (6, 4), "<f4"),
        "chunks-missing": lambda f: f.create_dataset("features", (600, 4), "<f4", chunks=(2, 4)).write_direct(
            X[:2].copy(), dest_sel=np.s_[:2]
        ),
        "enormous": lambda f: f.create_dataset("features", (2**60, 4), "<f4", chunks=(2, 4)),
        "filter": foreign_filter,
        "cube": lambda f: f.__setitem__("features", np.zeros((2, 2, 2))),
        "text": lambda f: f.__setitem__("features", np.array([[b"a", b"b"]])),
        "references": lambda f: f.create_dataset("features", (2, 2), h5py.ref_dtype),
        "lists": lambda f: f.create_dataset("features", (2, 2), h5py.vlen_dtype(np.float32)),
        "nothing": lambda f: f.create_group("features"),
        "names-elsewhere": lambda f: (
            f.__setitem__("features", X),
            f.__setitem__("names", h5py.ExternalLink("other.h5", "names")),
        ),
        "names-unwritten": lambda f: (
            f.__setitem__("features", X),
            f.create_dataset("names", (6,), h5py.string_dtype()),
        ),
    }
    for name, make in makers.items():
        with h5py.File(folder / f"{name}.h5", "w") as file:
            make(file)
        yield folder / f"{name}.h5"


def virtual(source: Path) -> Any:
    """A virtual dataset over another file."""
    import h5py

    layout = h5py.VirtualLayout((6, 4), "<f4")
    layout[:] = h5py.VirtualSource(str(source), "features", (6, 4))
    return layout


def foreign_filter(file: Any) -> None:
    """A dataset that names a filter which HDF5 would look for in a folder of plug-ins."""
    import h5py

    recipe = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    recipe.set_chunk((6, 4))
    recipe.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (3,))
    space = h5py.h5s.create_simple((6, 4))
    found = h5py.h5d.create(file.id, b"features", h5py.h5t.IEEE_F32LE, space, recipe)
    found.write_direct_chunk((0, 0), X.tobytes())


def zarr(folder: Path) -> Iterator[Path]:
    """Stores with chunks that are missing, damaged or elsewhere, and codecs that run programs."""
    import zarr

    def store(name: str, version: int = 3) -> Path:
        path = folder / f"{name}.zarr"
        zarr.create_array(path, data=X, chunks=(2, 4), zarr_format=version)
        return path

    def chunks(path: Path) -> list[Path]:
        return sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith((".z", "zarr")))

    def changed(name: str, change: Callable[[dict[str, Any]], Any], version: int = 3) -> Path:
        path = store(name, version)
        file = path / ("zarr.json" if version == 3 else ".zarray")
        metadata = json.loads(file.read_text())
        change(metadata)
        file.write_text(json.dumps(metadata))
        return path

    missing, short, garbage, linked, outside, pipe = map(store, ("missing", "short", "noise", "link", "out", "pipe"))
    chunks(missing)[1].unlink()
    written(chunks(short)[0], chunks(short)[0].read_bytes()[:-3])
    written(chunks(garbage)[0], b"noise")
    secret = written(folder / "secret", chunks(linked)[0].read_bytes())
    chunks(linked)[0].unlink()
    (linked / "c" / "0" / "0").symlink_to(secret)
    shutil.move(outside / "c", folder / "c")
    (outside / "c").symlink_to(folder / "c")
    with suppress(AttributeError):  # Windows has no pipes in folders
        chunks(pipe)[0].unlink()
        os.mkfifo(pipe / "c" / "0" / "0")
    yield from (missing, short, garbage, linked, outside, pipe)
    poisoned = changed("pickle", lambda m: m.update(filters=[{"id": "pickle", "protocol": 5}], compressor=None), 2)
    for chunk in chunks(poisoned):
        chunk.write_bytes(pickle.dumps(Payload(folder)))
    yield poisoned
    yield changed("enormous", lambda m: m.update(shape=[HUGE, 4]))
    yield changed("wide", lambda m: m.update(shape=[6, HUGE]))
    yield changed("negative", lambda m: m.update(shape=[-6, 4]))
    yield changed("big-chunks", lambda m: m["chunk_grid"]["configuration"].update(chunk_shape=[2**40, 2**20]))
    yield changed("no-chunks", lambda m: m["chunk_grid"]["configuration"].update(chunk_shape=[0, 0]))
    yield changed("codec", lambda m: m["codecs"].append({"name": "os.system", "configuration": {}}))
    yield changed("type", lambda m: m.update(data_type="string"))
    yield changed("no-type", lambda m: m.pop("data_type"))
    for name, text in (("deep", "[" * 100_000), ("words", "a text file"), ("list", "[]"), ("none", "null")):
        path = store(f"{name}-json")
        (path / "zarr.json").write_text(text)
        yield path
    zarr.open_group(folder / "group.zarr", mode="w")
    yield folder / "group.zarr"
    (folder / "folder.zarr").mkdir()
    yield folder / "folder.zarr"


def arrow(folder: Path) -> Iterator[Path]:
    """Parquet and Feather files with rows of unequal length, with nulls, or without numbers."""
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet as pq

    rows, fixed = X.tolist(), pa.list_(pa.float32(), 4)
    tables = {
        "unequal": pa.table({"v": [[1.0] * 4, [1.0] * 3, [1.0] * 5, [1.0] * 4]}),
        "late": pa.table({"v": [*rows * 20, [1.0, 2.0]]}),
        "null-row": pa.table({"v": [*rows, None]}),
        "null-first": pa.table({"v": [None, *rows]}),
        "null-value": pa.table({"v": [*rows, [1.0, None, 2.0, 3.0]]}),
        "fixed-null-row": pa.table({"v": pa.array([*rows, None], fixed)}),
        "fixed-null-value": pa.table({"v": pa.array([*rows, [1.0, None, 2.0, 3.0]], fixed)}),
        "null-number": pa.table({"a": [1.0, 2.0, None], "b": [1.0, 2.0, 3.0]}),
        "words": pa.table({"a": ["x", "y"]}),
        "nested": pa.table({"a": [[[1.0]], [[2.0]]]}),
        "vectors-of-words": pa.table({"a": [["x"], ["y"]]}),
        "no-rows": pa.table({"v": pa.array([], fixed)}),
        "no-values": pa.table({"v": pa.array([[], []], pa.list_(pa.float32()))}),
        "null-name": pa.table({"v": rows, "names": ["a", None, "c", "d", "e", "f"]}),
    }
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=30)
        yield folder / f"{name}.parquet"
        pyarrow.feather.write_feather(table, folder / f"{name}.feather", chunksize=30)
        yield folder / f"{name}.feather"


def vecs(folder: Path) -> Iterator[Path]:
    """Rows whose lengths differ, and lengths that make no sense."""
    rows = np.empty(6, [("n", "<i4"), ("x", "<f4", 4)])
    rows["n"], rows["x"] = 4, X
    for row in (0, 1, 3, 5):
        for length in (0, -1, 3, 5, 2**31 - 1):
            changed = rows.copy()
            changed["n"][row] = length
            yield written(folder / f"row-{row}-length-{length}.fvecs", changed.tobytes())
    yield written(folder / "more.fvecs", rows.tobytes() + b"\0")
    yield written(folder / "three-bytes.bvecs", b"\4\0\0")


def not_regular(folder: Path) -> Iterator[Path]:
    """Pipes, devices, sockets, folders and broken links under the names of feature files, alone and as shards."""
    from isch.features import SUFFIXES

    for suffix in SUFFIXES:
        (folder / f"folder{suffix}").mkdir()
        yield folder / f"folder{suffix}"
        yield written(folder / f"empty{suffix}", b"")
        with suppress(AttributeError, OSError):  # Windows
            os.mkfifo(folder / f"pipe{suffix}")
            yield folder / f"pipe{suffix}"
            (folder / f"zero{suffix}").symlink_to("/dev/zero")
            yield folder / f"zero{suffix}"
            (folder / f"loop{suffix}").symlink_to(folder / f"loop{suffix}")
            yield folder / f"loop{suffix}"
    yield folder  # all of them together
    (folder / "shards").mkdir()
    np.save(folder / "shards" / "a.npy", X)
    np.save(folder / "shards" / "b.npy", X[:, :3])
    yield folder / "shards"
    with suppress(AttributeError, OSError), socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "s.npy"))
        yield folder / "s.npy"


def renamed(folder: Path) -> Iterator[Path]:
    """A good file of each format under the suffix of every other one."""
    from attacks.features import written_as
    from isch.features import SUFFIXES

    families = {".hdf5": ".h5", ".ivecs": ".fvecs"}  # the same bytes mean the same
    for suffix in (".npy", ".npz", ".h5", ".parquet", ".feather"):
        (folder / suffix[1:]).mkdir()
        good = written_as(suffix, folder / suffix[1:])
        for other in SUFFIXES:
            if families.get(other, other) != suffix:
                yield Path(shutil.copy(good, folder / f"{suffix[1:]}-as{other}"))


def written(path: Path, content: bytes) -> Path:
    """A file."""
    path.write_bytes(content)
    return path
