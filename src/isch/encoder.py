"""From a picture or a feature vector to a code. Indexes, pages and outside engines all use an ``Encoder``.

encoder = Encoder(hasher, describer)          # describer: how pictures become vectors; None if only vectors come in
encoder.codes(["cat.jpg", "dog.jpg"])         # uint8 (2, n_bits / 8)
encoder.save("model.safetensors")             # one file, also saved inside an index
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from isch import features as feature_sources
from isch import models
from isch.codes import Codes
from isch.distances import Distance
from isch.errors import FormatError, InputError
from isch.features import Features, npy
from isch.hashing import METHODS
from isch.hashing import restore as restore_hasher

if TYPE_CHECKING:
    from isch.describe.base import Describer
    from isch.hashing.base import Hasher


@dataclass(frozen=True)
class Encoder:
    """A fitted hasher, and the describer of pictures before it, if there is one.

    Parameters
    ----------
    hasher : Hasher
        The fitted method that turns feature vectors into codes.
    describer : Describer, optional
        The descriptor that turns pictures into those vectors. Without it, only vectors can be encoded.
    """

    hasher: "Hasher"
    describer: "Describer | None" = None

    @property
    def n_bits(self) -> int:
        """Bits per code."""
        return self.hasher.n_bits

    @property
    def n_features(self) -> int:
        """The length of a feature vector."""
        return int(self.hasher.n_features_in_)

    @property
    def distance(self) -> Distance:
        """How codes are compared."""
        return self.hasher.distance

    def features(self, source: Any) -> Features:
        """Open features, or pictures as features.

        Parameters
        ----------
        source : path, array, list or other feature source
            Anything ``isch.features.open`` takes, or a single vector. With a describer also pictures: a path, a folder,
            the bytes of a file, an array (height, width, 3) of uint8, a PIL image, or a list of these.

        Returns
        -------
        Features
            One row per vector or picture. Pictures are described when the rows are read.
        """
        features = self._described(source) if _are_pictures(source) else open_vectors(source)
        if features.shape[1] != self.n_features:
            raise InputError(
                f"{features.where}: expected {self.n_features} columns, as the model has; got {features.shape[1]}"
            )
        return features

    def codes(self, source: Any, *, exact: bool = True) -> Codes:
        """Compute the codes of features or pictures.

        Parameters
        ----------
        source : feature source or pictures
            As in ``features``.
        exact : bool
            As in ``Hasher.transform``.

        Returns
        -------
        ndarray of uint8, (n, ceil(n_bits / 8))
        """
        return self.hasher.transform(self.features(source), exact=exact)

    def encode(self, source: Any, *, exact: bool = True) -> Iterator[Codes]:
        """Compute codes block by block, for results larger than memory.

        Parameters
        ----------
        source : feature source or pictures
            As in ``features``.
        exact : bool
            As in ``Hasher.transform``.

        Returns
        -------
        iterator of ndarray of uint8, (rows, ceil(n_bits / 8))
        """
        return self.hasher.encode(self.features(source), exact=exact)

    def project(self, source: Any) -> NDArray[np.float32]:
        """Compute the real values whose signs are the bits.

        Parameters
        ----------
        source : feature source or pictures
            As in ``features``.

        Returns
        -------
        ndarray of float32, (n, n_bits)
        """
        return self.hasher.project(self.features(source))

    def compressed(self, bits: int = 4, data: Any = None) -> Self:
        """The same with the weights of its hasher rounded, for a model file that is a fraction as large.

        Parameters
        ----------
        bits : int
            Bits per weight, from 2 to 8. With 4 the hasher takes about an eighth of the space.
        data : feature source or pictures, optional
            Items like those that will be encoded: weights are rounded so that their values change least.

        Returns
        -------
        Encoder
            A new one, whose codes differ from those of this one in a few bits.
        """
        rows = None if data is None else self.features(data)
        return type(self)(self.hasher.compressed(bits, rows), self.describer)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write describer and hasher to one safetensors file, whole or not at all.

        Parameters
        ----------
        path : path-like
            The file; one that exists is replaced.
        """
        models.write(path, self._parts())

    def checksum(self) -> str:
        """What tells this encoder from others: the checksum that its file has."""
        return models.checksum(self._parts())

    def _parts(self) -> list[models.Part]:
        before = [] if self.describer is None else [self.describer._part()]
        return [*before, self.hasher._part()]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load the encoder of a model file.

        Parameters
        ----------
        path : path-like
            A file written by ``Encoder.save``, ``Hasher.save`` or ``isch fit``.

        Returns
        -------
        Encoder
        """
        from isch.describe import restore as restore_describer

        parts = models.read(path).parts
        if not 1 <= len(parts) <= 2 or parts[-1].method not in METHODS:
            raise FormatError(
                f"{path}: expected a hashing model; got {' and '.join(part.method for part in parts) or 'nothing'}"
            )
        describer = restore_describer(parts[0], path) if len(parts) == 2 else None
        return cls(restore_hasher(parts[-1], path), describer)

    @classmethod
    def of(cls, model: Any) -> Self:
        """Make an encoder from an encoder, a fitted hasher, or the path of a model file."""
        from isch.hashing.base import Hasher

        if isinstance(model, cls):
            return model
        if isinstance(model, str | os.PathLike):
            return cls.load(model)
        if isinstance(model, Hasher):
            return cls(model)
        raise InputError(
            f"expected an encoder, a fitted hasher or the path of a model file; got {type(model).__name__}"
        )

    def _described(self, source: Any) -> Features:
        from isch.describe.features import PictureFeatures

        if self.describer is None:
            raise InputError(
                f"{_name(source)} is a picture, but the model was learned from feature vectors and does not say how "
                "pictures are described; expected features, or a model learned from a file made by isch describe"
            )
        return PictureFeatures(self.describer, source)


def _are_pictures(source: Any) -> bool:
    """Whether a source is pictures rather than features: by its suffix, its type or its number of dimensions."""
    if isinstance(source, list | tuple) and len(source):
        return _are_pictures(source[0])
    if isinstance(source, str | os.PathLike):
        return _is_picture_path(Path(os.fspath(source)))
    if isinstance(source, np.ndarray):
        return source.ndim >= 3
    return isinstance(source, bytes) or type(source).__module__.startswith("PIL.")


def _is_picture_path(path: Path) -> bool:
    """A file that no feature format claims, or a folder without any file that one does."""
    formats = feature_sources.SUFFIXES
    if "::" in path.name or path.suffix in formats or not path.exists():
        return False
    return not any(child.suffix in formats for child in path.iterdir()) if path.is_dir() else True


def open_vectors(source: Any) -> Features:
    """Any feature source; a single vector, also in a .npy file, is a matrix of one row."""
    if isinstance(source, np.ndarray | list | tuple) and len(source) and np.ndim(source[0]) == 0:
        return feature_sources.open(np.asarray(source)[None])
    if isinstance(source, str | os.PathLike) and os.fspath(source).endswith(".npy") and os.path.isfile(source):
        vector = npy.load(source)
        return feature_sources.open(vector[None] if vector.ndim == 1 else source)
    return feature_sources.open(source)


def _name(source: Any) -> str:
    return os.fspath(source) if isinstance(source, str | os.PathLike) else "the query"
