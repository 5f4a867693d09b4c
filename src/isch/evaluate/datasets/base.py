"""What a dataset is, and where its files are."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import InputError, MissingData
from isch.features import Features

DISTRACTOR = -1  # the label of an item that is relevant to no query and is never a query


@dataclass(frozen=True)
class Dataset:
    """Items with labels: features, or images (arrays or paths) that are not described yet."""

    name: str
    n_items: int
    labels: NDArray[np.int64] | None = None  # (n,), DISTRACTOR for items of no class; None: only neighbours are known
    features: Features | None = None
    images: Sequence[Any] | NDArray[Any] | None = None
    local: Sequence[Path] | None = None  # one .siftgeo file of local descriptors per item
    classes: tuple[str, ...] = ()  # names of the labels, where they have names
    queries: NDArray[np.int64] | None = None  # rows that are the official queries
    neighbours: NDArray[np.int64] | None = field(default=None, repr=False)  # (queries, k), among the items left

    def __post_init__(self) -> None:
        for what, things in (("labels", self.labels), ("features", self.features), ("images", self.images)):
            if things is not None and len(things) != self.n_items:
                raise InputError(f"{self.name}: {len(things)} {what} for {self.n_items} items; expected one each")

    def class_name(self, label: int) -> str:
        """What messages call a class."""
        return self.classes[label] if 0 <= label < len(self.classes) else str(label)


def data_home() -> Path:
    """Where datasets are: $ISCH_DATA, else .cache/isch/datasets in the home folder."""
    given = os.environ.get("ISCH_DATA")
    return Path(given) if given else Path.home() / ".cache" / "isch" / "datasets"


def existing(candidates: Sequence[Path]) -> Path | None:
    """The first path that exists."""
    return next((path for path in candidates if path.exists()), None)


def missing(name: str, folder: Path, files: Sequence[str], source: str) -> MissingData:
    """An error that says which files a dataset needs, where to put them and where they come from."""
    return MissingData(
        f"the dataset {name} is missing: expected {', '.join(files)} in {folder} "
        f"(set ISCH_DATA to the folder above it); {source}"
    )
