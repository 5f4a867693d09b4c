"""Vectors as a data frame, for users of scikit-learn who choose one with ``set_output``."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from numpy.typing import NDArray

from isch.errors import InputError, MissingExtra
from isch.features import Block
from isch.lazy import issparse

KINDS = ("default", "pandas", "polars")


def default() -> str:
    """The kind that scikit-learn's own configuration asks for, if it is loaded."""
    config = getattr(sys.modules.get("sklearn"), "get_config", None)
    return str(config()["transform_output"]) if config else "default"


def contained(vectors: Block, kind: str, names: Callable[[], NDArray[Any]]) -> Any:
    """Vectors in a container of a kind; ``names`` gives the names of the columns."""
    if kind == "default":
        return vectors
    if issparse(vectors):
        raise InputError(f"{kind} output does not take sparse vectors; expected set_output(transform='default')")
    try:
        library = import_module(kind)
    except ImportError as error:
        raise MissingExtra(f"{kind} is needed for {kind} output and is not installed: pip install {kind}") from error
    columns = {"columns": names()} if kind == "pandas" else {"schema": names().tolist(), "orient": "row"}
    return library.DataFrame(vectors, **columns)
