"""What BoW, VLAD, Fisher vectors and LLC share: dense SIFT of a picture and visual words learned from a sample."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isch import kmeans
from isch.describe import sift
from isch.describe.base import Describer
from isch.describe.images import Image, Source, choose, grey
from isch.describe.sift import Local
from isch.errors import InputError, ParameterError
from isch.learned import Array, Expected
from isch.parameters import POSITIVE, Interval

Matrix = NDArray[np.float32]
Labels = NDArray[np.intp]

SAMPLE_PER_PICTURE = 50  # descriptors per picture to learn from: more pictures are better than more patches of one
BLOCK = 1024  # descriptors compared with all words at once


@dataclass(eq=False, repr=False, kw_only=True)
class LocalDescriber(Describer):
    """Base of descriptors that summarise dense SIFT.

    The defaults are those of the public ILSVRC features. For thumbnails use a smaller ``step`` to get enough patches.

    Parameters
    ----------
    patch : int
        Side of a patch in pixels, a multiple of 4.
    step : int
        Distance between patches in pixels.
    scales : sequence of float
        SIFT is computed at each of these fractions of the picture's size.
    max_side, min_side : int
        The picture is first shrunk or enlarged so that its longer side lies between the two.
    root : bool
        Whether to use RootSIFT.
    max_descriptors : int
        Descriptors to learn from, drawn at random.
    random_state : int or None
        Seed of the random choices.
    """

    patch: int = 20
    step: int = 10
    scales: Sequence[float] = (1.0, 0.5, 0.25)
    max_side: int = 300
    min_side: int = 128
    root: bool = False
    max_descriptors: int = 200_000
    random_state: int | None = 0

    learns: ClassVar[bool] = True
    batch_size: ClassVar[int] = 32
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "patch": [Interval(Integral, 4, None, closed="left")],
        "step": [POSITIVE],
        "scales": [list, tuple],
        "max_side": [POSITIVE],
        "min_side": [Interval(Integral, 0, None, closed="left")],
        "root": ["boolean"],
        "max_descriptors": [POSITIVE],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    @property
    def _side(self) -> int:
        return self.max_side

    def _prepare(self, image: Image) -> Local:
        picture = sift.fitted(grey(image), min(self.min_side, self.max_side), self.max_side)
        local = sift.multiscale(picture, self.patch, self.step, self.scales)
        return Local(sift.root(local.values), local.positions) if self.root else local

    @property
    def _n_pictures(self) -> int:
        """The largest number of pictures to learn from."""
        return -(-self.max_descriptors // SAMPLE_PER_PICTURE)

    def _sample(self, pictures: Iterable[Source], rng: np.random.Generator) -> Matrix:
        """At most ``max_descriptors`` descriptors, from pictures chosen at random."""
        chosen = choose(pictures, self._n_pictures, rng)
        return sample((local.values for local in self._prepared(chosen, "dense SIFT")), self.max_descriptors, rng)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.patch % sift.N_BINS:
            raise ParameterError(f"patch must be a multiple of {sift.N_BINS}; got {self.patch}")
        if not self.scales or not all(0 < scale <= 1 for scale in self.scales):
            raise ParameterError(f"scales must be fractions above 0 and at most 1; got {self.scales!r}")


@dataclass(eq=False, repr=False, kw_only=True)
class WordsDescriber(LocalDescriber):
    """Base of descriptors that compare dense SIFT with words learned by k-means."""

    n_words: int = 200
    n_iter: int = 20

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LocalDescriber._parameter_constraints,
        "n_words": [POSITIVE],
        "n_iter": [POSITIVE],
    }

    _learns: ClassVar[Expected] = {"words_": Array("float32", "words", sift.LENGTH)}

    def _fit(self, pictures: Iterable[Source]) -> None:
        rng = self._rng()
        descriptors = self._sample(pictures, rng)
        need(len(descriptors), self.n_words, "n_words")
        self.words_, _ = kmeans.fit(descriptors, self.n_words, self.n_iter, rng)


def sample(parts: Iterable[Matrix], n: int, rng: np.random.Generator) -> Matrix:
    """``n`` rows drawn without replacement from all parts, in order; fewer than 2 n and one part are in memory.

    Each row draws a random number, and the rows with the ``n`` smallest are kept, so every subset is equally likely.
    """
    kept, numbers = np.empty((0, sift.LENGTH), np.float32), np.empty(0)
    waiting: list[tuple[Matrix, NDArray[np.float64]]] = []
    limit = 1.0
    for part in parts:
        drawn = rng.random(len(part))
        waiting.append((part[drawn < limit], drawn[drawn < limit]))
        if sum(len(rows) for rows, _ in waiting) >= n:
            kept, numbers = _smallest([(kept, numbers), *waiting], n)
            waiting, limit = [], numbers.max(initial=0.0) if len(numbers) == n else 1.0
    return _smallest([(kept, numbers), *waiting], n)[0]


def _smallest(parts: Sequence[tuple[Matrix, NDArray[np.float64]]], n: int) -> tuple[Matrix, NDArray[np.float64]]:
    """The rows with the ``n`` smallest numbers, and these numbers, in the original order."""
    rows, numbers = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    if len(rows) > n:
        chosen = np.sort(np.argpartition(numbers, n - 1)[:n])
        rows, numbers = rows[chosen], numbers[chosen]
    return rows, numbers


def need(n_descriptors: int, n: int, parameter: str) -> None:
    """Refuse to learn more words than there are descriptors."""
    if n_descriptors < n:
        raise InputError(
            f"{parameter} = {n} needs at least {n} local descriptors to learn from; the pictures gave {n_descriptors}"
        )


def joined(batch: Sequence[Local]) -> tuple[Matrix, Labels]:
    """(descriptors of all pictures, position of the picture that each belongs to)."""
    owners = np.repeat(np.arange(len(batch)), [len(local.values) for local in batch])
    return np.concatenate([local.values for local in batch]), owners


def nearest_word(descriptors: Matrix, words: Matrix) -> Labels:
    """The nearest word of each descriptor, in this thread; the lower number on ties."""
    half_norms = half_squares(words)
    transposed = np.ascontiguousarray(words.T)
    labels = np.empty(len(descriptors), np.intp)
    for start in range(0, len(descriptors), BLOCK):
        rows = slice(start, start + BLOCK)
        kmeans.nearest(descriptors[rows] @ transposed, half_norms, labels[rows])
    return labels


def half_squares(words: Matrix) -> Matrix:
    """Half the squared length of each word: ‖x − w‖² is smallest where ‖w‖² / 2 − x·w is."""
    return np.asarray(np.einsum("ij,ij->i", words, words, dtype=np.float64) / 2, np.float32)
