"""Bag of visual words: how often each word occurs in a picture.

Sivic and Zisserman, *Video Google* (2003).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isch.describe.base import unit_rows
from isch.describe.codebook import Labels, Matrix, WordsDescriber, joined, nearest_word
from isch.describe.images import Source, choose
from isch.describe.sift import Local
from isch.errors import InputError
from isch.learned import Array, Expected, Optional
from isch.parameters import StrOptions


@dataclass(eq=False, repr=False, kw_only=True)
class BoW(WordsDescriber):
    """Histogram of visual words, ``n_words`` values.

    Parameters
    ----------
    n_words : int
        Size of the vocabulary.
    norm : {"l1", "l2"}
        Whether the values sum to one or the vector has length one.
    idf : bool
        Whether rare words count more, by their inverse document frequency.

    Notes
    -----
    The other parameters are those of ``LocalDescriber`` and ``WordsDescriber``.
    """

    n_words: int = 1000
    norm: str = "l1"
    idf: bool = False

    name: ClassVar[str] = "bow"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **WordsDescriber._parameter_constraints,
        "norm": [StrOptions({"l1", "l2"})],
        "idf": ["boolean"],
    }

    _learns: ClassVar[Expected] = {"idf_": Optional(Array("float64", "words"))}

    @property
    def n_features_out(self) -> int:
        return len(self.words_)

    def _fit(self, pictures: Iterable[Source]) -> None:
        pictures = choose(pictures, self._n_pictures, self._rng())
        super()._fit(pictures)
        if self.idf:
            counts = [self._counts([local])[0] for local in self._prepared(pictures, "word frequencies")]
            self.idf_ = inverse_document_frequency(np.array(counts))

    def _check_learned(self, attributes: dict[str, Any]) -> dict[str, Any]:
        if self.idf and "idf_" not in attributes:
            raise InputError("idf_ is missing")
        return super()._check_learned(attributes)

    def _describe(self, batch: Sequence[Local]) -> Matrix:
        counts = self._counts(batch)
        return normalised(counts * self.idf_ if self.idf else counts, self.norm)

    def _counts(self, batch: Sequence[Local]) -> NDArray[np.float64]:
        descriptors, owners = joined(batch)
        return histograms(nearest_word(descriptors, self.words_), owners, len(batch), len(self.words_))


def histograms(words: Labels, owners: Labels, n_pictures: int, n_words: int) -> NDArray[np.float64]:
    """How often each word occurs in each picture, (n_pictures, n_words)."""
    counts = np.bincount(owners * n_words + words, minlength=n_pictures * n_words)
    return counts.reshape(n_pictures, n_words).astype(np.float64)


def inverse_document_frequency(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """log(N / n_k), where n_k of N pictures contain word k; n_k is at least 1."""
    return np.asarray(np.log(len(counts) / np.maximum((counts > 0).sum(axis=0), 1)))


def normalised(counts: NDArray[np.float64], norm: str) -> Matrix:
    """Rows that sum to one (l1) or have length one (l2); empty rows stay zero."""
    if norm == "l2":
        return unit_rows(counts)
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-12), np.float32)
