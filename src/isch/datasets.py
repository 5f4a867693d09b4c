"""Datasets by name, where a user looks for them; they are at home in ``isch.evaluate.datasets``."""

from isch.evaluate.datasets import DATASETS, DISTRACTOR, KINDS, Dataset, data_home, load, loaded, state

__all__ = ["DATASETS", "DISTRACTOR", "KINDS", "Dataset", "data_home", "load", "loaded", "state"]
