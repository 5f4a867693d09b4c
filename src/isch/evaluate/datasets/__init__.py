"""Datasets by name: ``isch.datasets.load("mnist")``.

Files are read from $ISCH_DATA/NAME in their official formats. Free datasets are downloaded there and checked; for the
others the error names each missing file and where to get it.
"""

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isch.errors import MissingData, ParameterError, unknown
from isch.evaluate.datasets.base import DISTRACTOR, Dataset, data_home

__all__ = ["DATASETS", "DISTRACTOR", "KINDS", "Dataset", "data_home", "load", "loaded", "state"]

DATASETS = {  # name: (folder below $ISCH_DATA, module, loader)
    "mnist": ("mnist", "mnist", "load"),
    "cifar10": ("cifar-10", "cifar", "load"),
    "ilsvrc2010": ("ilsvrc2010", "folders", "load_ilsvrc2010"),
    "tiny-imagenet": ("tiny-imagenet-20k", "folders", "load_thumbnails"),
    "tiny-imagenet-60k": ("tiny-imagenet-60k", "folders", "load_thumbnails"),
    "orl-faces": ("orl-faces", "folders", "load_orl"),
    "lfw": ("lfw", "folders", "load_lfw"),
    "holidays": ("holidays", "holidays", "load"),
    "wdref": ("wdref", "faces", "load"),
    "copies": ("tiny-imagenet-20k", "copies", "load"),
}
DOWNLOADED = {"mnist", "cifar10", "lfw"}  # what ``load`` fetches if it is not there
KINDS = {  # your own data: (module, loader)
    "folders": ("folders", "load_folders"),
    "features": ("matrices", "load_features"),
    "ann": ("matrices", "load_ann"),
    "texmex": ("matrices", "load_texmex"),
}


def load(name: str, path: str | Path | None = None, **options: Any) -> Dataset:
    """A dataset by name.

    Parameters
    ----------
    name : str
        One of ``DATASETS``; or, with a path, a kind of data: ``folders`` (one folder of images per class), ``features``
        (features.* with labels.*), ``ann`` (an ann-benchmarks HDF5 file) or ``texmex`` (.fvecs and .ivecs files).
    path : str or Path, optional
        Where the files are; by default in the dataset's folder below $ISCH_DATA.
    **options
        Options of the dataset, such as ``scenes=100`` for ``copies``.

    Raises
    ------
    MissingData
        The files are not there and cannot be downloaded.
    """
    return loaded(name, path, options)


def loaded(name: str, path: str | Path | None, options: dict[str, Any]) -> Dataset:
    """Like ``load``, with the options as a dictionary, because options in an experiment file may have any name."""
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
    _check_options(function, name, options)
    return function(place, **options)


def _check_options(loader: Callable[..., Dataset], name: str, options: dict[str, Any]) -> None:
    """Refuse unknown options. A loader's options are its parameters with defaults, and have the type of the default."""
    parameters = inspect.signature(loader).parameters.values()
    known = {p.name: p.default for p in parameters if isinstance(p.default, bool | int | str)}
    for option, value in options.items():
        if option not in known:
            raise unknown(f"option of dataset {name}:", option, known)
        if type(value) is not type(known[option]):
            kind = type(known[option]).__name__
            raise ParameterError(f"dataset {name}: option {option!r} must be of type {kind}; got {value!r}")


def state(name: str, path: str | Path | None, options: dict[str, Any]) -> str:
    """Whether a dataset is present, will be downloaded, or lacks files, in words; loads nothing."""
    if name not in DATASETS:
        return "here" if path is not None and Path(path).exists() else f"{path}: no such file or folder"
    place = Path(path) if path is not None else data_home() / DATASETS[name][0]
    if place.exists():
        return "here"
    if name in DOWNLOADED:
        return f"will be downloaded to {place}"
    try:
        loaded(name, path, options)
    except MissingData as error:
        return str(error)
    return "here"


def _found(path: Path) -> Path:
    if path.exists() or path.is_absolute():
        return path
    below = data_home() / path
    if not below.exists():
        raise MissingData(f"{path}: no such file or folder, here or in {data_home()}")
    return below
