"""The contract of every descriptor: a scikit-learn transformer from pictures to feature vectors.

A descriptor implements ``_describe(batch)``, which returns one vector per picture. It may also implement
``_prepare(image)``, which turns one decoded picture into what ``_describe`` takes (a smaller or grey version, local
descriptors), and ``_fit(pictures)``, which sets attributes ending in ``_``. Finding, decoding, batching, threads,
failures and saving are written once, here.
"""

from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from isch import compute, progress
from isch.describe.images import Failure, Image, Source, decode, groups, name_of, sources
from isch.errors import FileError, InputError
from isch.features import Block, stack
from isch.learner import Learner

if TYPE_CHECKING:
    from isch.describe.fusion import Fusion


@dataclass(frozen=True)
class Described:
    """The outcome of one batch of pictures."""

    positions: list[int]  # of the described pictures in the input
    vectors: Block | None  # one row per described picture; None if there are none
    failures: list[Failure]  # one per picture that could not be described


class Describer(Learner):
    """Base class of all descriptors.

    A describer is a scikit-learn transformer from pictures to feature vectors.
    """

    learns: ClassVar[bool] = False  # whether ``fit`` must come before ``transform``
    batch_size: ClassVar[int] = 64  # pictures that one thread describes at once

    def fit(self, images: Any, y: None = None) -> Self:
        """Learn from pictures, if this descriptor learns.

        Parameters
        ----------
        images : path or iterable
            A folder, or an iterable of paths, arrays, bytes of picture files, or PIL images. Pictures that cannot be
            read are skipped; ``transform`` reports them.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        self._check_parameters()
        if self.learns:
            self._fit(sources(images))
        return self

    def transform(self, images: Any) -> Any:
        """Describe pictures.

        Parameters
        ----------
        images : path or iterable
            As for ``fit``.

        Returns
        -------
        ndarray of float32, (n, n_features_out)
            One vector per picture; a CSR array if the descriptor is sparse; a data frame after ``set_output``.

        Raises
        ------
        FileError, InputError
            A picture cannot be read or described; the message names it.
        """
        return self._contained(self.vectors(images))

    def vectors(self, images: Any) -> Block:
        """The same as an array, whatever ``set_output`` says."""
        blocks = [batch.vectors for batch in self.batches(images, strict=True) if batch.vectors is not None]
        if not blocks:
            raise InputError("n_samples = 0: there are no pictures to describe")
        return stack(blocks)

    def batches(self, images: Any, strict: bool = False) -> Iterator[Described]:
        """Describe pictures batch by batch on all cores, in order, for results larger than memory.

        Parameters
        ----------
        images : path or iterable
            As for ``fit``.
        strict : bool
            Whether a picture that cannot be described raises an error. Otherwise its batch lists it in ``failures``.

        Yields
        ------
        Described
            The outcome of the next batch.
        """
        self._check_parameters()
        self._check_fitted()
        items = sources(images)
        total = len(items) if isinstance(items, Sized) else 0
        with progress.task("describing", total, "images") as advance:
            for batch in compute.parallel(partial(self._work, strict=strict), groups(items, self.batch_size)):
                advance(len(batch.positions) + len(batch.failures))
                yield batch

    def describe(self, images: Sequence[Image]) -> Any:
        """The vectors of decoded pictures (uint8, (height, width, 3)), computed in this thread."""
        return self._describe([self._prepare(image) for image in images])

    @property
    def n_features_out(self) -> int:
        """The length of a vector."""
        raise NotImplementedError

    def __add__(self, other: "Describer") -> "Fusion":
        """Both descriptors side by side: each vector is normalised, then the whole."""
        from isch.describe.fusion import Fusion

        return Fusion([*self._parts(), *other._parts()]) if isinstance(other, Describer) else NotImplemented

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the values of a vector: gist0, gist1, …"""
        return np.array([f"{self.name}{i}" for i in range(self.n_features_out)], dtype=object)

    def _fit(self, pictures: Iterable[Source]) -> None:
        """Learn from undecoded pictures; ``_prepared`` decodes and prepares them on all cores."""
        raise NotImplementedError

    @property
    def _side(self) -> int | None:
        """The side to which ``_prepare`` shrinks pictures, if it does; large JPEGs are then decoded at reduced size."""
        return None

    def _prepare(self, image: Image) -> Any:
        """Turn one decoded picture into what ``_describe`` takes."""
        return image

    def _describe(self, batch: Sequence[Any]) -> Block:
        """One vector per prepared picture; runs in several threads at once."""
        raise NotImplementedError

    def _prepared(self, pictures: Iterable[Source], label: str) -> Iterator[Any]:
        """The prepared pictures in order, without those that cannot be read; raises if none can."""
        total = len(pictures) if isinstance(pictures, Sized) else 0
        failure: Exception = InputError("n_samples = 0: there are no pictures to learn from")
        count = 0
        with progress.task(label, total, "images") as advance:
            for result in compute.parallel(self._attempt, enumerate(pictures)):
                advance(1)
                if isinstance(result, Exception):
                    failure = result
                else:
                    count += 1
                    yield result
        if not count:
            raise failure

    def _work(self, numbered: tuple[int, list[Source]], strict: bool) -> Described:
        start, group = numbered
        results = [self._attempt(item) for item in enumerate(group, start)]
        failures = []
        for (position, source), result in zip(enumerate(group, start), results, strict=True):
            if isinstance(result, Exception):
                if strict:
                    raise result
                name = name_of(source, position)
                failures.append(Failure(name, str(result).removeprefix(f"{name}: ")))
        prepared = [result for result in results if not isinstance(result, Exception)]
        positions = [start + i for i, result in enumerate(results) if not isinstance(result, Exception)]
        return Described(positions, self._describe(prepared) if prepared else None, failures)

    def _attempt(self, item: tuple[int, Source]) -> Any:
        """A prepared picture, or the error if it cannot be used."""
        try:
            return self._load(*item)
        except (FileError, InputError) as error:
            return error

    def _load(self, position: int, source: Source) -> Any:
        try:
            return self._prepare(decode(source, self._side))
        except InputError as error:
            raise InputError(f"{name_of(source, position)}: {error}") from error

    def _parts(self) -> "list[Describer]":
        return [self]

    def __sklearn_is_fitted__(self) -> bool:
        return not self.learns or super().__sklearn_is_fitted__()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = self.learns
        tags.input_tags.two_d_array = False
        return tags


def unit_rows(rows: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Rows divided by their Euclidean length; zero rows stay zero."""
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    unit: NDArray[np.float32] = (rows / np.maximum(norms, 1e-12)[:, None]).astype(np.float32)
    return unit
