"""Writing feature files piece by piece, so that interrupted work can resume.

Beside ``features.h5`` a folder ``features.h5.partial`` holds numbered parts, each written whole or not at all with the
names and labels of its rows. ``finish`` hands them to the format, which puts them together, and removes the folder.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from isch.errors import FileError, FormatError, InputError
from isch.features import formats, npz, sparse
from isch.features.base import Block, stack
from isch.features.content import Content
from isch.features.file import in_our_words
from isch.files import check_writable, replacing
from isch.lazy import issparse
from isch.locks import locked

PART_BYTES = 32 << 20
PART_SECONDS = 20  # the most work that is lost when the process is killed


class Writer:
    """Writes a feature file. Use as a context: rows that were added survive an error or interruption.

    Parameters
    ----------
    path : path
        The file to be; its suffix says the format, which must be one that can be written (``formats.py``).
    recipe : dict
        How the features are made, as JSON. Work that began with another recipe is not resumed.
    """

    def __init__(self, path: str | os.PathLike[str], recipe: dict[str, Any]) -> None:
        self.path = Path(path)
        self._write = formats.writer(self.path)
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
        first = next(self.blocks())
        shape = (len(self.names), first.shape[1])
        sides = (self.names, self.labels, self.recipe, attachments or {})
        self._write(self.path, Content(shape, first.dtype, issparse(first), self.blocks, *sides))
        shutil.rmtree(self.folder)

    @property
    def recipe(self) -> str:
        """How the features are made, as JSON."""
        return json.dumps(self._recipe, sort_keys=True)

    def blocks(self) -> Iterator[Block]:
        """The rows written so far, part by part."""
        for part in self._parts():
            with _opened(part) as members:
                block = members.load("vectors") if "vectors" in members.headers else members.sparse()
            yield block

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
    return sparse.parts(block) if issparse(block) else {"vectors": np.asarray(block)}


def _meta(part: Path) -> dict[str, Any]:
    with _opened(part) as members:
        return dict(json.loads(members.load("meta").tobytes()))


@contextmanager
def _opened(part: Path) -> Iterator[npz.Members]:
    try:
        with in_our_words(str(part), "part of a feature file"), npz.opened(part) as members:
            yield members
    except FormatError as error:
        raise FormatError(f"{error}; delete {part.parent} to begin anew") from error
