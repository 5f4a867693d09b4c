"""VLAD of images whose local descriptors come in files (.siftgeo) instead of pictures."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch import compute, kmeans, progress
from isch.describe.codebook import nearest_word, sample
from isch.describe.vlad import vlad
from isch.errors import ParameterError, unknown
from isch.evaluate.datasets.holidays import read_siftgeo

FILES_AT_ONCE = 64
MAX_FILES = 5_000  # files that the words are learned from
MAX_DESCRIPTORS = 200_000
KMEANS_ITERATIONS = 20


class LocalVLAD:
    """128 × n_words numbers per file: words learned from a sample of the files, residuals summed file by file."""

    def __init__(self, paths: Sequence[Path], n_words: int = 500, random_state: int = 0) -> None:
        rng = np.random.default_rng(random_state)
        chosen = np.sort(rng.choice(len(paths), min(len(paths), MAX_FILES), replace=False))
        descriptors = sample((_values(paths[row]) for row in chosen), MAX_DESCRIPTORS, rng)
        self._words, _ = kmeans.fit(descriptors, n_words, KMEANS_ITERATIONS, rng)

    def blocks(self, paths: Sequence[Path]) -> Iterator[NDArray[np.float32]]:
        """The vectors of some files, a few files at a time."""
        groups = (paths[start : start + FILES_AT_ONCE] for start in range(0, len(paths), FILES_AT_ONCE))
        with progress.task("describing", len(paths), "files") as advance:
            for rows in compute.parallel(self._describe, groups):
                yield rows
                advance(len(rows))

    def _describe(self, paths: Sequence[Path]) -> NDArray[np.float32]:
        parts = [_values(path) for path in paths]
        owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        descriptors = np.concatenate(parts)
        return vlad(descriptors, nearest_word(descriptors, self._words), owners, len(parts), self._words)


def _values(path: Path) -> NDArray[np.float32]:
    return read_siftgeo(path)[1].astype(np.float32)


def local_vlad(paths: Sequence[Path], options: dict[str, Any]) -> LocalVLAD:
    """The same with options of an experiment file, which are checked."""
    for option, value in options.items():
        if option not in ("n_words", "random_state"):
            raise unknown("parameter of vlad:", option, ("n_words", "random_state"))
        if not isinstance(value, int) or isinstance(value, bool) or value < (option == "n_words"):
            raise ParameterError(f"vlad: {option} must be an integer of at least 0; got {value!r}")
    return LocalVLAD(paths, **options)
