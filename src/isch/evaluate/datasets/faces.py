"""WDRef faces with LFW as distractors: features in the MATLAB files of their authors, or images.

wdref/lbp_WDRef.mat (71,846 × 5,900)   le_WDRef.mat (71,846 × 20,736)   id_WDRef.mat
wdref/lbp_lfw.mat   (13,233 × 5,900)   le_lfw.mat   (13,233 × 20,736)
wdref/images/PERSON/*.jpg              lfw/lfw/PERSON/*.jpg
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch import features as sources
from isch.errors import InputError, unknown
from isch.evaluate.datasets.base import DISTRACTOR, Dataset, missing
from isch.evaluate.datasets.folders import load_folders, with_distractors
from isch.evaluate.datasets.matlab import largest_matrix

KINDS = ("le", "lbp", "le+lbp")


def load(folder: Path, kind: str = "le+lbp") -> Dataset:
    """WDRef + LFW with features of a kind (le, lbp, le+lbp), or as images if wdref/images is there instead."""
    if kind not in KINDS:
        raise unknown("kind of features", kind, KINDS)
    parts = kind.split("+")
    needed = ["id_WDRef.mat", *(f"{part}_{which}.mat" for part in parts for which in ("WDRef", "lfw"))]
    if (folder / "images").is_dir() and not (folder / needed[0]).exists():
        return _images(folder)
    absent = [name for name in needed if not (folder / name).exists()]
    if absent:
        raise missing("wdref", folder, absent, "WDRef is given by its authors (Chen et al., ECCV 2012) on request")
    people = largest_matrix(folder / "id_WDRef.mat").ravel().astype(np.int64)
    known = [_unit(largest_matrix(folder / f"{part}_WDRef.mat"), len(people)) for part in parts]
    others = [_unit(largest_matrix(folder / f"{part}_lfw.mat"), None) for part in parts]
    matrix = np.concatenate([_unit(np.hstack(known), None), _unit(np.hstack(others), None)])
    labels = np.concatenate([people, np.full(len(others[0]), DISTRACTOR)])
    return Dataset("wdref+lfw", len(labels), labels, sources.open(matrix))


def _images(folder: Path) -> Dataset:
    main = load_folders(folder / "images", "wdref+lfw")
    return with_distractors(main, sorted((folder.parent / "lfw").rglob("*.jpg")))


def _unit(matrix: NDArray[Any], n_rows: int | None) -> NDArray[np.float32]:
    """Rows of length 1; the matrix is transposed if it has one column per item."""
    if n_rows is not None and matrix.shape[0] != n_rows:
        if matrix.shape[1] != n_rows:
            raise InputError(f"wdref: features of shape {matrix.shape} for {n_rows} identities; expected one row each")
        matrix = matrix.T
    rows = matrix.astype(np.float32)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
