"""Finished stages of learning on disk: a run that was killed goes on with them, and ends as if nothing had happened.

    with checkpoint.at(folder, recipe) as store:
        run = Fit(rng, store)

A stage is some arrays, and the state of the random numbers after it. It is written whole or not at all. Stages are
numbered in the order they come, which is the same in every run of the same recipe. A stage may consist of stages; they
are removed when it is stored itself.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import FileError, FormatError
from isch.features.file import in_our_words
from isch.files import replacing, sync
from isch.locks import locked

FORMAT = 2  # raised when the stages of a method change
RECIPE = "recipe.json"
STATE = "state.json"
LOCK = "lock"

Arrays = tuple[NDArray[Any], ...]


class Store:
    """The stages of one run, in the order they come."""

    def __init__(self, folder: Path, prefix: str = "") -> None:
        self._folder = folder
        self._prefix = prefix
        self._count = 0

    def stage(self, label: str, rng: np.random.Generator | None, make: Callable[["Store"], Arrays]) -> Arrays:
        """The stage that comes now: as it was stored, or made and stored; ``make`` gets the store of its own stages."""
        folder = self._folder / f"{self._prefix}{self._count:03d}-{label.replace(' ', '-')}"
        self._count += 1
        if folder.exists():
            with in_our_words(str(folder), "stage of a checkpoint"):
                return _read(folder, rng)
        arrays = make(Store(self._folder, f"{folder.name}."))
        _write(folder, arrays, rng)
        for part in self._folder.glob(f"{folder.name}.*"):
            shutil.rmtree(part, ignore_errors=True)
        return arrays


@contextmanager
def at(folder: str | os.PathLike[str] | None, recipe: dict[str, Any]) -> Iterator[Store | None]:
    """Open the stages in ``folder`` for this block; None without a folder.

    Raises
    ------
    FileError
        The folder holds stages of another recipe, is used by another process, or cannot be written.
    """
    if folder is None:
        yield None
        return
    path = Path(folder).absolute()
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}") from error
    with locked(path / LOCK, 0, "is learning with this checkpoint"):
        _check_recipe(path, recipe)
        for left in path.glob(".*.partial"):  # by a run that was killed
            shutil.rmtree(left, ignore_errors=True)
        yield Store(path)


def remove(folder: str | os.PathLike[str]) -> None:
    """Remove the stages of a run that is over, and the folder if nothing else is in it."""
    path = Path(folder)
    for stored in path.glob("[0-9][0-9][0-9]-*"):
        shutil.rmtree(stored, ignore_errors=True)
    for file in (RECIPE, LOCK, f"{LOCK}.holder"):
        (path / file).unlink(missing_ok=True)
    if path.is_dir() and not any(path.iterdir()):
        path.rmdir()


def _write(folder: Path, arrays: Arrays, rng: np.random.Generator | None) -> None:
    temporary = folder.with_name(f".{folder.name}.{token_hex(4)}.partial")
    try:
        temporary.mkdir()
        for number, array in enumerate(arrays):
            np.save(temporary / f"{number}.npy", array)
            sync(temporary / f"{number}.npy")
        state = {"arrays": len(arrays), "random": None if rng is None else rng.bit_generator.state}
        (temporary / STATE).write_text(json.dumps(state))
        sync(temporary / STATE)
        os.replace(temporary, folder)
        sync(folder.parent)
    except OSError as error:
        raise FileError(
            f"cannot write {folder}: {error.strerror or error}; the stages before it are kept, and the same command "
            "goes on from them"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _read(folder: Path, rng: np.random.Generator | None) -> Arrays:
    state = json.loads((folder / STATE).read_text())
    if (rng is None) != (state["random"] is None):
        raise FormatError(f"{folder}: not the stage that was expected; delete the checkpoint to begin anew")
    arrays = tuple(_array(folder / f"{number}.npy") for number in range(state["arrays"]))
    if rng is not None:
        rng.bit_generator.state = state["random"]
    return arrays


def _array(path: Path) -> NDArray[Any]:
    """An array that may be changed without changing the file; only what is changed takes memory."""
    array = np.load(path, mmap_mode="c", allow_pickle=False)
    return np.asarray(array) if array.ndim else np.array(array)


def _check_recipe(folder: Path, recipe: dict[str, Any]) -> None:
    wanted = json.loads(json.dumps(recipe | {"format": FORMAT}, sort_keys=True, default=str))
    file = folder / RECIPE
    if not file.exists():
        if any(entry.name[:1] != "." and entry.name not in (LOCK, f"{LOCK}.holder") for entry in folder.iterdir()):
            raise FileError(f"{folder}: is not a checkpoint and is not empty; expected a folder of its own")
        with replacing(file) as temporary:
            temporary.write_text(json.dumps(wanted))
        return
    try:
        there = json.loads(file.read_text())
    except ValueError:
        there = None
    if there != wanted:
        raise FileError(
            f"{folder}: holds stages of another run, or of features that have changed since; delete it to begin anew"
        )
