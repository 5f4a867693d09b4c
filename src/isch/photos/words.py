"""Words for what a picture shows: the default network names 1,000 kinds of things, WordNet adds broader names.

"lighthouse" is one kind; "dog" stands for 118 breeds. A picture keeps its few most likely kinds with their shares.
"""

from collections import defaultdict
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

KEPT = 5  # kinds kept per picture
LEAST = 0.02  # a kind less likely than this is not kept


class Kind(NamedTuple):
    """One of the things the network knows: its names, the commonest first, and the names of what it is a kind of."""

    names: tuple[str, ...]
    broader: tuple[str, ...]


@lru_cache(maxsize=1)
def kinds() -> tuple[Kind, ...]:
    """All kinds, in the order of the network's outputs."""
    text = files("isch.photos").joinpath("words.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return tuple(Kind(*(tuple(part.split(", ")) if part else () for part in row[1:])) for row in rows)


@lru_cache(maxsize=1)
def vocabulary() -> dict[str, tuple[int, ...]]:
    """For each name in lower case, the kinds it stands for."""
    found: dict[str, set[int]] = defaultdict(set)
    for number, kind in enumerate(kinds()):
        for name in (*kind.names, *kind.broader):
            found[name.lower()].add(number)
    return {name: tuple(sorted(numbers)) for name, numbers in found.items()}


def numbers(word: str) -> tuple[int, ...]:
    """The kinds that a word names; also in the plural, and as one word of a longer name. None if it is not known."""
    wanted = " ".join(word.lower().split())
    for form in (wanted, wanted.removesuffix("s"), wanted.removesuffix("es")):
        if form in vocabulary():
            return vocabulary()[form]
    parts = {number for name, some in vocabulary().items() if wanted in name.split() for number in some}
    return tuple(sorted(parts))


def completions(text: str) -> list[str]:
    """Names that begin with a text, then names with a later word that does; shorter ones first."""
    wanted = " ".join(text.lower().split())
    if not wanted:
        return []
    first = [name for name in vocabulary() if name.startswith(wanted)]
    later = [name for name in vocabulary() if f" {wanted}" in name and not name.startswith(wanted)]
    return [*sorted(first, key=lambda n: (len(n), n)), *sorted(later, key=lambda n: (len(n), n))]


@lru_cache(maxsize=1)
def classifier() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(weights, offsets) of the last layer of the default network, which names the kinds."""
    from isch.describe import efficientnet

    return efficientnet.classifier()


def shares(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """How likely each kind is, (n, 1000), from the network's features as they are before they are normalised."""
    weights, offsets = classifier()
    logits = features @ weights.T + offsets
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    return np.asarray(logits / logits.sum(axis=1, keepdims=True), np.float32)


def best(features: NDArray[np.float32]) -> list[list[tuple[int, float]]]:
    """The few most likely kinds of each picture with their shares, the likeliest first."""
    likely = shares(features)
    top = np.sort(np.argpartition(-likely, KEPT, axis=1)[:, :KEPT], axis=1)
    values = np.take_along_axis(likely, top, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    ranked = (np.take_along_axis(part, order, axis=1).tolist() for part in (top, values))
    return [
        [(kind, share) for kind, share in zip(*row, strict=True) if share >= LEAST] for row in zip(*ranked, strict=True)
    ]
