"""What a result was made of: a hash of the data, and a hash of the code that describes and hashes them."""

import ast
import hashlib
import inspect
import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

import isch
from isch import describe, hashing, progress
from isch.evaluate.datasets import Dataset
from isch.features import Features
from isch.files import replacing

PACKAGE = Path(isch.__file__).parent
PARTS = ("isch.hashing.", "isch.describe.", "isch.kmeans")
LEFT_OUT = {"isch.hashing.base", "isch.describe.base", "isch.describe.files"}  # interface and storage change no value
ROWS_AT_ONCE = 4096


@cache
def of_code(method: str | None = None, descriptor: str | None = None, classes: tuple[type, ...] = ()) -> str:
    """A hash of the modules that make a hashing method and a descriptor, and of classes, blind to comments and layout.

    Empty if there is none of them.
    """
    used = {c.__qualname__: _code(inspect.getsource(c)) for c in classes}
    if method in hashing.METHODS:
        _collect(hashing.METHODS[method][0], used)
    parts = descriptor.split("+") if descriptor else []
    for part in [*parts, "fusion"] if len(parts) > 1 else parts:
        _collect(describe.descriptor(part).__module__, used)
    return hashlib.sha256(repr(sorted(used.items())).encode()).hexdigest()[:16] if used else ""


def _collect(name: str, used: dict[str, str]) -> None:
    """Add the code of a module and of those it imports, at its head or later, where values are made."""
    path = PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py")
    if not name.startswith(PARTS) or name in LEFT_OUT or name in used or not path.is_file():
        return
    text = path.read_text("utf-8")
    used[name] = _code(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for candidate in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                _collect(candidate, used)


def _code(text: str) -> str:
    """Source without comments, docstrings and layout."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def of_data(dataset: Dataset, folder: Path) -> str:
    """A hash of all that a dataset holds: labels, rows, pictures, files; those of files are kept in ``folder``."""
    digest = hashlib.sha256(str(dataset.n_items).encode())
    for array in (dataset.labels, dataset.queries, dataset.neighbours):
        digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    if dataset.features is not None:
        digest.update(of_rows(dataset.features).encode())
    for items in (dataset.images, dataset.local):
        if items is not None:
            digest.update(_of_items(items, folder).encode())
    return digest.hexdigest()[:16]


def of_rows(features: Features) -> str:
    """A hash of every value of a feature matrix."""
    digest = hashlib.sha256(f"{features.shape} {features.dtype}".encode())
    with progress.task("checking the data", len(features), "rows") as advance:
        for _, block in features.batches(ROWS_AT_ONCE):
            arrays = (block.indptr, block.indices, block.data) if issparse(block) else (block,)
            for array in arrays:
                digest.update(np.ascontiguousarray(array).data)
            advance(block.shape[0])
    return digest.hexdigest()


def _of_items(items: Iterable[Any], folder: Path) -> str:
    """A hash of pictures in memory and of the content of files."""
    digest, paths = hashlib.sha256(), []
    for item in items:
        if isinstance(item, str | os.PathLike):
            paths.append(Path(item))
        else:
            digest.update(np.ascontiguousarray(item).data)
    digest.update(_of_files(paths, folder).encode())
    return digest.hexdigest()


def _of_files(paths: Sequence[Path], folder: Path) -> str:
    """A hash of the names and contents of files; they are read again only when a size or a date has changed."""
    states = [(str(path.absolute()), path.stat()) for path in paths]
    stamp = hashlib.sha256(repr([(name, s.st_size, s.st_mtime_ns) for name, s in states]).encode()).hexdigest()[:16]
    kept = folder / f"files-{stamp}.txt"
    if kept.exists():
        return kept.read_text()
    digest = hashlib.sha256()
    with progress.task("checking the data", len(paths), "files") as advance:
        for path in paths:
            digest.update("/".join(path.parts[-2:]).encode("utf-8", "surrogateescape"))
            digest.update(path.read_bytes())
            advance(1)
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(kept) as temporary:
        temporary.write_text(digest.hexdigest())
    return digest.hexdigest()
