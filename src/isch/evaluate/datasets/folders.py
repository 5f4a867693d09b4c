"""Images in folders, one folder per class, and the datasets of that form: ILSVRC2010, ImageNet thumbnails, ORL, LFW."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from isch.errors import MissingData
from isch.evaluate.datasets.base import DISTRACTOR, Dataset, existing, missing
from isch.evaluate.datasets.fetch import Download, fetch
from isch.evaluate.datasets.matrices import load_features

LFW = Download(
    "https://ndownloader.figshare.com/files/5976018",
    "sha256:055f7d9c632d7370e6fb4afc7468d40f970c34a80d4c6f50ffec63f5a8d536c0",
    unpack=True,
)


def load_folders(folder: Path, name: str | None = None) -> Dataset:
    """Any folder of class folders; labels follow the sorted names of the classes."""
    from isch.describe.images import find

    if not folder.is_dir():
        raise MissingData(f"{folder}: no such folder")
    classes = sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    paths, labels = [], []
    for label, group in enumerate(classes):
        found = find(folder / group).paths
        paths += found
        labels += [label] * len(found)
    if not paths:
        raise MissingData(
            f"{folder}: expected one folder of images per class; found no images in {len(classes)} folders"
        )
    return Dataset(name or folder.name, len(paths), np.array(labels), images=paths, classes=tuple(classes))


def load_ilsvrc2010(folder: Path) -> Dataset:
    """ILSVRC2010: train/ with one folder per synset, or features with labels."""
    if existing([*folder.glob("features.*")]):
        return load_features(folder, "ilsvrc2010")
    place = existing([folder / "train"])
    if place is None:
        raise missing(
            "ilsvrc2010",
            folder,
            ["train/n########/*.JPEG", "or features.* with labels.npy"],
            "it needs an account at https://image-net.org/challenges/LSVRC/2010/",
        )
    return load_folders(place, "ilsvrc2010")


def load_thumbnails(folder: Path) -> Dataset:
    """ImageNet thumbnails (Tiny ImageNet), one folder per synset; images are in it or in its images/."""
    if not folder.is_dir():
        raise missing(
            folder.name,
            folder,
            ["n########/*.JPEG"],
            "it is a part of http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        )
    return load_folders(existing([folder / "train"]) or folder, folder.name)


def load_orl(folder: Path) -> Dataset:
    """The ORL (AT&T) faces: 40 people, 10 images each, s1/1.pgm … s40/10.pgm."""
    if not (folder / "s1").is_dir():
        raise missing("orl-faces", folder, ["s1/1.pgm … s40/10.pgm"], "it is att_faces.zip of https://cam-orl.co.uk")
    return load_folders(folder, "orl-faces")


def load_lfw(folder: Path) -> Dataset:
    """Labeled Faces in the Wild: 13,233 images of 5,749 people, lfw/Name/Name_0001.jpg."""
    if not (folder / "lfw").is_dir():
        fetch(LFW, folder)
    return load_folders(folder / "lfw", "lfw")


def with_distractors(main: Dataset, others: Sequence[Path]) -> Dataset:
    """The images of a dataset and then images that are relevant to no query."""
    labels = np.concatenate([np.asarray(main.labels), np.full(len(others), DISTRACTOR)])
    return Dataset(
        main.name,
        len(labels),
        labels,
        images=[*(main.images if main.images is not None else ()), *others],
        classes=main.classes,
        queries=main.queries,
    )
