"""Datasets by name: ``isch.datasets.load("mnist")``.

Files are read from $ISCH_DATA/NAME in their official formats. What is free is downloaded there and checked; what is
not is named, file by file.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isch.errors import FileError, ParameterError, unknown
from isch.evaluate.datasets.base import DISTRACTOR, Dataset, data_home

__all__ = ["DATASETS", "DISTRACTOR", "KINDS", "Dataset", "data_home", "load", "state"]

DATASETS = {  # name: (folder below $ISCH_DATA, module, loader)
    "mnist": ("mnist", "mnist", "load"),
    "cifar10": ("cifar-10", "cifar", "load"),
    "ilsvrc2010": ("ilsvrc2010", "folders", "load_ilsvrc2010"),
    "tiny-imagenet": ("tiny-imagenet-20k", "folders", "load_thumbnails"),
    "orl-faces": ("orl-faces", "folders", "load_orl"),
    "lfw": ("lfw", "folders", "load_lfw"),
    "holidays": ("holidays", "holidays", "load"),
    "wdref": ("wdref", "faces", "load"),
    "copies": ("tiny-imagenet-20k", "copies", "load"),
}
DOWNLOADED = {"mnist", "cifar10", "lfw"}  # what ``load`` fetches if it is not there
KINDS = {  # data of one's own: (module, loader)
    "folders": ("folders", "load_folders"),
    "features": ("matrices", "load_features"),
    "ann": ("matrices", "load_ann"),
    "texmex": ("matrices", "load_texmex"),
}


def load(name: str, path: str | Path | None = None, **options: Any) -> Dataset:
    """A dataset by name, from ``path`` or its folder below $ISCH_DATA.

    With a path, ``name`` may also be a kind of data: ``folders`` (a folder of class folders), ``features``
    (features.* with labels.*), ``ann`` (an ann-benchmarks HDF5 file) or ``texmex`` (a folder of .fvecs and .ivecs).
    """
    if name in DATASETS:
        below, module, loader = DATASETS[name]
        place = Path(path) if path is not None else data_home() / below
    elif name in KINDS:
        module, loader = KINDS[name]
        if path is None:
            raise ParameterError(f"a dataset of kind {name!r} needs a path")
        place = _found(Path(path))
    else:
        raise unknown("dataset", name, [*DATASETS, *KINDS])
    function: Callable[..., Dataset] = getattr(importlib.import_module(f"{__name__}.{module}"), loader)
    try:
        return function(place, **options)
    except TypeError as error:
        if "unexpected keyword" in str(error):
            raise ParameterError(f"dataset {name}: unknown option in {', '.join(options)}") from error
        raise


def state(name: str, path: str | Path | None = None) -> str:
    """Whether a dataset is here, will be downloaded when it is loaded, or which files it lacks; loads nothing."""
    if name not in DATASETS:
        return "here" if path is not None and Path(path).exists() else f"{path}: no such file or folder"
    place = Path(path) if path is not None else data_home() / DATASETS[name][0]
    if place.exists():
        return "here"
    if name in DOWNLOADED:
        return f"will be downloaded to {place}"
    try:
        load(name, path)
    except FileError as error:
        return str(error)
    return "here"


def _found(path: Path) -> Path:
    if path.exists() or path.is_absolute():
        return path
    below = data_home() / path
    if not below.exists():
        raise FileError(f"{path}: no such file or folder, here or in {data_home()}")
    return below
