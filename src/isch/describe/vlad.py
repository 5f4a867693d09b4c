"""VLAD: for each visual word, the sum of the residuals of its local descriptors.

Jégou et al., *Aggregating local descriptors into a compact image representation* (2010); each word is normalised as in
Arandjelović and Zisserman, *All about VLAD* (2013).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from isch.describe import sift
from isch.describe.base import unit_rows
from isch.describe.codebook import Labels, Matrix, WordsDescriber, joined, nearest_word
from isch.describe.sift import Local


@dataclass(eq=False, repr=False, kw_only=True)
class VLAD(WordsDescriber):
    """VLAD vectors of 128 × ``n_words`` values, word by word: 25,600 for 200 words.

    Parameters
    ----------
    n_words : int
        Size of the vocabulary.

    Notes
    -----
    The other parameters are those of ``LocalDescriber`` and ``WordsDescriber``.
    """

    name: ClassVar[str] = "vlad"

    @property
    def n_features_out(self) -> int:
        return len(self.words_) * sift.LENGTH

    def _describe(self, batch: Sequence[Local]) -> Matrix:
        descriptors, owners = joined(batch)
        return vlad(descriptors, nearest_word(descriptors, self.words_), owners, len(batch), self.words_)


def vlad(descriptors: Matrix, nearest: Labels, owners: Labels, n_pictures: int, words: Matrix) -> Matrix:
    """One row per picture: v_k = Σ (x − μ_k) over the descriptors x nearest to word k.

    Each v_k is scaled to length one, then the whole row. A word without descriptors stays zero.
    """
    residuals = np.zeros((n_pictures * len(words), words.shape[1]), np.float32)
    add_residuals(descriptors, nearest, owners, words, residuals)
    return unit_rows(unit_rows(residuals).reshape(n_pictures, -1))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def add_residuals(descriptors: Matrix, nearest: Labels, owners: Labels, words: Matrix, out: Matrix) -> None:
    """Add each descriptor minus its word to the row of its picture and word."""
    for i in range(len(descriptors)):
        row, word, descriptor = out[owners[i] * len(words) + nearest[i]], words[nearest[i]], descriptors[i]
        for j in range(len(word)):
            row[j] += descriptor[j] - word[j]
