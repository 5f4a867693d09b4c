"""Writing feature files piece by piece, so that interrupted work can go on where it stopped.

Beside ``features.h5`` a folder ``features.h5.partial`` holds numbered parts, each written whole or not at all with the
names and labels of its rows. ``finish`` puts them together under the final name and removes the folder. Formats:

.h5, .hdf5   datasets ``features``, ``names``, ``labels``; attachments as datasets of bytes
.npy         ``features.npy``, ``features.names.npy``, ``features.labels.npy``; attachments as ``features.NAME``
.npz         a SciPy sparse matrix with ``names`` and ``labels``; attachments as for .npy

A sparse matrix in an .h5 file is stored as compressed float16.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from isch.errors import FileError, FormatError, InputError, require, unknown
from isch.features.base import Block, dense, stack
from isch.files import check_writable, replacing
from isch.locks import locked

SUFFIXES = (".h5", ".hdf5", ".npy", ".npz")
PART_BYTES = 32 << 20
PART_SECONDS = 20  # at most so much work is lost when the process is killed


class Writer:
    """A feature file in the making. Use as a context: what was added survives an error or interruption.

    ``recipe`` says how the features come about (JSON); work begun with another recipe is not gone on with.
    """

    def __init__(self, path: str | os.PathLike[str], recipe: dict[str, Any]) -> None:
        self.path = Path(path)
        if self.path.suffix not in SUFFIXES:
            raise unknown(f"format of {self.path}:", self.path.suffix or "(none)", SUFFIXES)
        check_writable(self.path)
        self.folder = self.path.with_name(self.path.name + ".partial")
        self.names: list[str] = []
        self.labels: list[str] = []
        self._recipe = json.loads(json.dumps(recipe, sort_keys=True))
        self._waiting: list[Block] = []
        self._saved = 0  # names whose rows are in parts
        self._due = time.monotonic() + PART_SECONDS

    def __enter__(self) -> Self:
        self.folder.mkdir(exist_ok=True)
        self._lock = ExitStack()
        self._lock.enter_context(locked(self.folder / "lock", 0, "is writing to it"))
        try:
            self._check_recipe()
            for part in self._parts():
                self._remember(_meta(part))
        except BaseException:
            self._lock.close()
            raise
        self._saved = len(self.names)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.folder.exists():
            self.flush()
            if not self.names:
                shutil.rmtree(self.folder)
        self._lock.close()

    def add(self, vectors: Block, names: Sequence[str], labels: Sequence[str]) -> None:
        """Rows with their names and labels."""
        self._waiting.append(vectors)
        self._remember({"names": names, "labels": labels})
        if sum(map(_size, self._waiting)) >= PART_BYTES or time.monotonic() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Write what was added since the last part as a part."""
        meta = {"names": self.names[self._saved :], "labels": self.labels[self._saved :]}
        if meta["names"]:
            arrays: dict[str, Any] = _arrays(stack(self._waiting))
            with replacing(self.folder / f"{len(self._parts()):06d}.npz") as temporary, temporary.open("wb") as file:
                np.savez(file, meta=np.frombuffer(json.dumps(meta).encode(), np.uint8), **arrays)
        self._waiting.clear()
        self._saved = len(self.names)
        self._due = time.monotonic() + PART_SECONDS

    def finish(self, attachments: dict[str, bytes] | None = None) -> None:
        """Put the parts together under the final name."""
        self.flush()
        if not self.names:
            raise InputError(f"there is nothing to write to {self.path}: no item could be used")
        write = _write_hdf5 if self.path.suffix in (".h5", ".hdf5") else _write_arrays
        write(self, attachments or {})
        shutil.rmtree(self.folder)

    @property
    def recipe(self) -> str:
        """How the features come about, as JSON."""
        return json.dumps(self._recipe, sort_keys=True)

    def blocks(self) -> Iterator[Block]:
        """The rows written so far, part by part."""
        for part in self._parts():
            with np.load(part, allow_pickle=False) as archive:
                if "vectors" in archive.files:
                    yield archive["vectors"]
                else:
                    parts = (archive["data"], archive["indices"], archive["indptr"])
                    yield csr_array(parts, shape=tuple(archive["shape"]))

    def _remember(self, meta: dict[str, Any]) -> None:
        self.names.extend(meta["names"])
        self.labels.extend(meta["labels"])

    def _parts(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*.npz"))

    def _check_recipe(self) -> None:
        file = self.folder / "recipe.json"
        if not file.exists():
            with replacing(file) as temporary:
                temporary.write_text(self.recipe)
        elif json.loads(file.read_text()) != self._recipe:
            raise FileError(
                f"{self.folder} holds work begun with other options ({file.read_text()}); "
                f"delete it to begin anew, or write to another file"
            )


def _size(block: Block) -> int:
    return int(block.data.nbytes + block.indices.nbytes) if issparse(block) else int(np.asarray(block).nbytes)


def _arrays(block: Block) -> dict[str, NDArray[Any]]:
    if not issparse(block):
        return {"vectors": np.asarray(block)}
    return {part: getattr(block, part) for part in ("data", "indices", "indptr")} | {"shape": np.array(block.shape)}


def _meta(part: Path) -> dict[str, Any]:
    try:
        with np.load(part, allow_pickle=False) as archive:
            return dict(json.loads(archive["meta"].tobytes()))
    except (ValueError, KeyError, EOFError) as error:
        raise FormatError(f"{part}: damaged ({error}); delete {part.parent} to begin anew") from error


def _write_hdf5(writer: Writer, attachments: dict[str, bytes]) -> None:
    h5py = require("h5py", "images")
    with replacing(writer.path) as temporary, h5py.File(temporary, "w") as file:
        row = 0
        for block in writer.blocks():
            if row == 0:
                file.create_dataset("features", (len(writer.names), block.shape[1]), **_layout(block))
            file["features"][row : row + block.shape[0]] = dense(block, file["features"].dtype)
            row += block.shape[0]
        for name, values in (("names", writer.names), ("labels", writer.labels)):
            file.create_dataset(name, data=np.array(values, object), dtype=h5py.string_dtype())
        for name, content in attachments.items():
            file.create_dataset(name, data=np.frombuffer(content, np.uint8))
        file.attrs["recipe"] = writer.recipe


def _layout(block: Block) -> dict[str, Any]:
    """Type and chunks of the dataset; sparse rows are mostly zeros, which compress well."""
    if issparse(block):
        return {"dtype": np.float16, "chunks": (1, block.shape[1]), "compression": "lzf"}
    rows = max(1, (1 << 20) // (block.shape[1] * block.dtype.itemsize))
    return {"dtype": block.dtype, "chunks": (rows, block.shape[1]), "maxshape": (None, block.shape[1])}


def _write_arrays(writer: Writer, attachments: dict[str, bytes]) -> None:
    stem = writer.path.with_suffix("")
    sides: dict[str, Any] = {"names": np.array(writer.names), "labels": np.array(writer.labels)}
    if writer.path.suffix == ".npz":
        with replacing(writer.path) as temporary, temporary.open("wb") as file:
            np.savez(file, **_archive(stack(list(writer.blocks()))), **sides)
    else:
        for name, values in sides.items():
            with replacing(stem.with_name(f"{stem.name}.{name}.npy")) as temporary, temporary.open("wb") as file:
                np.save(file, values)
        with replacing(writer.path) as temporary, temporary.open("wb") as file:
            _write_npy(writer, file)
    for name, content in attachments.items():
        with replacing(stem.with_name(f"{stem.name}.{name}")) as temporary:
            temporary.write_bytes(content)


def _archive(block: Block) -> dict[str, Any]:
    """What ``scipy.sparse.load_npz`` expects, or a plain matrix."""
    return {"format": np.array(b"csr"), **_arrays(block)} if issparse(block) else {"features": block}


def _write_npy(writer: Writer, file: Any) -> None:
    first = next(writer.blocks())
    shape = (len(writer.names), first.shape[1])
    header = {"descr": first.dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    for block in writer.blocks():
        file.write(np.ascontiguousarray(dense(block, first.dtype)).data)
