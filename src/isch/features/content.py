"""The content of a feature file, as formats write it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from isch.features.base import Block
from isch.files import replacing


@dataclass(frozen=True)
class Content:
    """A matrix with names and labels of its rows.

    Parameters
    ----------
    shape, dtype
        Of the matrix.
    sparse
        Whether the blocks are CSR.
    blocks
        A function that gives the rows block by block, any number of times.
    names, labels
        One string per row.
    recipe
        How the features were made, as JSON.
    attachments
        Other files to keep with the matrix, by name.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    sparse: bool
    blocks: Callable[[], Iterator[Block]]
    names: Sequence[str]
    labels: Sequence[str]
    recipe: str = "{}"
    attachments: dict[str, bytes] = field(default_factory=dict)


def write_beside(path: Path, content: Content) -> None:
    """Attachments as files beside ``path``, for formats that cannot hold them: ``features.NAME``."""
    for name, attached in content.attachments.items():
        with replacing(path.with_suffix(f".{name}")) as temporary:
            temporary.write_bytes(attached)
