"""The registry of feature formats.

A format is a module of this package with

``KIND``                          the name of such a file in messages
``open_features(path, member)``   the matrix in it as ``Features``; ``member`` is the text after ``::``, or None
``write(path, content)``          optional: writes a ``content.Content``, whole or not at all

and one line in ``FORMATS``. It may raise any error: ``file.FileFeatures`` rewords it, at opening and at every read, and
takes care of pickling.
"""

import importlib
from pathlib import Path
from typing import Any

from isch.errors import FormatError, unknown
from isch.features.base import Features

FORMATS: dict[str, tuple[str, ...]] = {  # module: the suffixes it reads
    "feather": (".feather",),
    "hdf5": (".h5", ".hdf5"),
    "npy": (".npy",),
    "npz": (".npz",),
    "parquet": (".parquet",),
    "vecs": (".fvecs", ".bvecs", ".ivecs"),
    "zarr": (".zarr",),
}
SUFFIXES: dict[str, str] = {suffix: module for module, suffixes in FORMATS.items() for suffix in suffixes}


def module(path: Path) -> Any:
    """The module that reads files with this suffix."""
    if path.suffix not in SUFFIXES:
        raise unknown(f"feature format of {path}:", path.suffix or "(none)", SUFFIXES)
    return importlib.import_module(f"isch.features.{SUFFIXES[path.suffix]}")


def writer(path: Path) -> Any:
    """The function that writes files with this suffix."""
    writable = [suffix for suffix in SUFFIXES if hasattr(module(Path(f"x{suffix}")), "write")]
    if path.suffix not in writable:
        raise unknown(f"format of {path}:", path.suffix or "(none)", writable)
    return module(path).write


def kind(path: Path) -> str:
    """The name of a file with this suffix in messages."""
    return str(module(path).KIND)


def opened(path: Path, member: str | None) -> Features:
    """The matrix in a file, by the module of its format."""
    features: Features = module(path).open_features(path, member)
    return features


def choose(member: str | None, candidates: list[str], path: Path) -> str:
    """The matrix that ``path::member`` names; otherwise the only one, or the one called features, train or X."""
    if member is not None:
        if member not in candidates:
            raise FormatError(f"{path}: no matrix called {member!r}; it holds {', '.join(candidates) or 'none'}")
        return member
    preferred = [n for n in ("features", "train", "X") if n in candidates]
    if len(candidates) != 1 and not preferred:
        found = ", ".join(candidates) or "none"
        raise FormatError(f"{path}: expected one matrix, or {path.name}::NAME to choose; it holds {found}")
    return preferred[0] if preferred else candidates[0]


def refuse_member(member: str | None, path: Path) -> None:
    """Refuse ``path::member`` for a format whose files hold one matrix without a name."""
    if member is not None:
        raise FormatError(f"{path}: holds one matrix, which has no name; got ::{member}")
