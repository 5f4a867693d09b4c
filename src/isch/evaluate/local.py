"""VLAD of images that are given as files of local descriptors (.siftgeo) instead of pictures."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isch import compute, kmeans, progress
from isch.describe.codebook import nearest_word, sample
from isch.describe.vlad import vlad
from isch.evaluate.datasets.holidays import read_siftgeo

FILES_AT_ONCE = 64
MAX_FILES = 5_000  # files that the words are learned from
MAX_DESCRIPTORS = 200_000
KMEANS_ITERATIONS = 20


def vlad_of_files(paths: Sequence[Path], n_words: int = 500, random_state: int = 0) -> NDArray[np.float32]:
    """(files, 128 × n_words): words learned from a sample of the files, residuals summed file by file."""
    rng = np.random.default_rng(random_state)
    chosen = np.sort(rng.choice(len(paths), min(len(paths), MAX_FILES), replace=False))
    descriptors = sample((_values(paths[row]) for row in chosen), MAX_DESCRIPTORS, rng)
    words, _ = kmeans.fit(descriptors, n_words, KMEANS_ITERATIONS, rng)
    groups = [paths[start : start + FILES_AT_ONCE] for start in range(0, len(paths), FILES_AT_ONCE)]
    out = np.empty((len(paths), words.size), np.float32)
    done = 0
    with progress.task("describing", len(paths), "files") as advance:
        for rows in compute.parallel(lambda group: _describe(group, words), groups):
            out[done : done + len(rows)] = rows
            done += len(rows)
            advance(len(rows))
    return out


def _describe(paths: Sequence[Path], words: NDArray[np.float32]) -> NDArray[np.float32]:
    parts = [_values(path) for path in paths]
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    descriptors = np.concatenate(parts)
    return vlad(descriptors, nearest_word(descriptors, words), owners, len(parts), words)


def _values(path: Path) -> NDArray[np.float32]:
    return read_siftgeo(path)[1].astype(np.float32)
