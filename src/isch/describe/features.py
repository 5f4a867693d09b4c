"""Pictures as a feature matrix whose rows are computed when they are read."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from isch.describe.base import Describer
from isch.describe.images import name_of, sources
from isch.errors import InputError
from isch.features import Block, Features


class PictureFeatures(Features):
    """One row per picture. A picture that cannot be read raises an error that names it."""

    here = True  # pictures, and what describes them, are not sent to workers

    def __init__(self, describer: Describer, pictures: Any) -> None:
        self._describer = describer
        listed: Any = [pictures] if isinstance(pictures, np.ndarray) and pictures.ndim == 3 else sources(pictures)
        self._pictures = list(listed)
        if not self._pictures:
            raise InputError("n_samples = 0: there are no pictures to describe")
        self.shape = (len(self._pictures), describer.n_features_out)
        self.dtype = np.dtype(np.float32)
        self.where = name_of(pictures, 0) if isinstance(pictures, str | os.PathLike) else "the pictures"
        if all(isinstance(picture, str | os.PathLike) for picture in self._pictures):
            self.names = [name_of(picture, i) for i, picture in enumerate(self._pictures)]

    def read(self, start: int, stop: int) -> Block:
        if start == stop:
            return np.empty((0, self.shape[1]), self.dtype)
        block: Block = self._describer.vectors(self._pictures[start:stop])
        return block

    def batches(self, rows: int) -> Iterator[tuple[int, Block]]:
        return super().batches(min(rows, self.slab(rows)))

    def slab(self, rows: int) -> int:
        return max(1, self._describer.batch_size * 16)

    def version(self) -> list[Any]:
        return [*super().version(), *(_version(picture) for picture in self._pictures)]


def _version(picture: Any) -> list[Any]:
    """What tells a picture from another one of the same name."""
    if not isinstance(picture, str | os.PathLike):
        return []
    status = os.stat(picture)
    return [os.fspath(picture), status.st_size, status.st_mtime_ns]
