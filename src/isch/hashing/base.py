"""The contract of every hashing method: a scikit-learn transformer from features to packed codes.

A method implements ``_fit(features, run)``, which returns the attributes it learns (fitting/steps.py), and
``_projector()``, which returns a callable from a block of rows to the real numbers whose signs are the bits. Opening,
checking, streaming, packing and saving are written once, here.
"""

import importlib
import os
from collections.abc import Iterator
from copy import copy
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from isch import codes, compute, distances, learned, progress
from isch import features as feature_sources
from isch.codes import Codes
from isch.errors import InputError, ParameterError
from isch.features import Features
from isch.fitting import DryRun, Fit, Run, Size, Sized, Stage
from isch.fitting import checkpoint as checkpoints
from isch.fitting.plan import Plan, Work, plan
from isch.hashing.projecting import Encoding, Linear, Projecting, Projector, encoding_within
from isch.lazy import issparse
from isch.learned import Array, Expected, Optional
from isch.learner import Learner
from isch.models import Part
from isch.parameters import Interval
from isch.rounded import Rounded


class Hasher(Learner):
    """Base class of all hashing methods.

    A hasher is a scikit-learn transformer: ``fit`` learns from features, ``transform`` returns packed codes.
    """

    _learns: ClassVar[Expected] = {
        "n_features_in_": int,
        "n_samples_": int,
        "feature_names_in_": Optional(list),
    }
    n_bits: int
    n_features_in_: int
    n_samples_: int

    def fit(
        self,
        X: Any,
        y: None = None,
        *,
        memory: str | int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn from features.

        Parameters
        ----------
        X : array, sparse matrix, Dask array, path or Features
            One row per item. Data on disk is read block by block and may be larger than memory.
        y : None
            Ignored; hashing methods learn without labels.
        memory : str or int, optional
            The memory that learning may take, as "4GB" or in bytes; what does not fit lies in temporary files. By
            default half of what is free. It does not change what is learned.
        checkpoint : path, optional
            A folder for finished stages. A run that was stopped goes on from them, with the same result.

        Returns
        -------
        self

        Raises
        ------
        InputError
            A parameter or the data cannot be used: fewer than two rows, all rows equal, or values that are not
            finite.
        """
        learner = copy(self)
        learner._forget()
        features = learner._learnable(X)
        recipe = {"method": self.name, "revision": self.revision, "features": features.version()}
        with compute.memory.bounded(memory):
            work = learner._plan(features, given=memory is not None, checkpoint=checkpoint, measured=False)
            work.refuse()
            with (
                checkpoints.at(checkpoint, recipe | {"parameters": self.get_params()}) as stages,
                progress.planned(work.weights()),
            ):
                compute.refuse_constant(features)
                found = learner._fit(features, Fit(self._rng(), stages))
        # only now, so that a fit that fails leaves what was learned before
        self.__dict__ = vars(learner) | found
        return self

    def plan(
        self,
        X: Any,
        *,
        memory: str | int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        output: str | os.PathLike[str] | None = None,
        measured: bool = True,
    ) -> Plan:
        """Find out what ``fit`` would do with the same arguments, and how long it would take.

        Parameters
        ----------
        X, memory, checkpoint
            As for ``fit``.
        output : path, optional
            Where the model will be saved.
        measured : bool
            Whether to estimate the time from a second of real work; otherwise from what usual machines do.

        Returns
        -------
        Plan
            Its stages with their flops and bytes, memory, disk, an estimate of the time, and what cannot work.
        """
        learner = copy(self)
        features = learner._learnable(X)
        with compute.memory.bounded(memory):
            found = learner._plan(features, given=memory is not None, checkpoint=checkpoint, measured=measured)
        return found if output is None else found.saved_to(Path(output))

    def transform(self, X: Any, *, exact: bool = True, memory: str | int | None = None) -> Codes:
        """Compute the codes of features.

        Parameters
        ----------
        X : array, sparse matrix, Dask array, path or Features
            As for ``fit``, with the same number of columns.
        exact : bool
            False: a linear method may multiply 8-bit numbers, where the machine is faster at it and the extra ``fast``
            is installed. Some 1 to 6 bits in 1,000 differ; either kind of codes can be searched with the other.
        memory : str or int, optional
            The memory that this may take, as "4GB" or in bytes; by default half of what is free. Codes that take a
            large share of it lie in a temporary file.

        Returns
        -------
        ndarray of uint8, (n, ceil(n_bits / 8))
            Packed codes in ``numpy.packbits`` order; a data frame of them after ``set_output``.
        """
        features = self._open_fitted(X)
        with encoding_within(self, features, memory):
            out = compute.memory.empty((len(features), codes.width(self.n_bits)), np.uint8)
            compute.collect(Encoding(self._projecting(features, exact)), features, out)
        contained: Codes = out if isinstance(X, Features) else self._contained(out, X)
        return contained

    def encode(self, X: Any, *, exact: bool = True) -> Iterator[Codes]:
        """Compute codes block by block, for results larger than memory.

        Parameters
        ----------
        X : array, sparse matrix, Dask array, path or Features
            As for ``transform``.
        exact : bool
            As for ``transform``.

        Yields
        ------
        ndarray of uint8, (rows, ceil(n_bits / 8))
            The packed codes of the next rows.
        """
        features = self._open_fitted(X)
        return compute.iterate(Encoding(self._projecting(features, exact)), features)

    def project(self, X: Any) -> NDArray[np.float32]:
        """Compute the real values whose signs are the bits.

        Parameters
        ----------
        X : array, sparse matrix, Dask array, path or Features
            As for ``transform``.

        Returns
        -------
        ndarray of float32, (n, n_bits)
            Bit i of a row is 1 where value i is at least 0.
        """
        features = self._open_fitted(X)
        out = np.empty((len(features), self.n_bits), np.float32)
        compute.collect(self._projecting(features), features, out)
        return out

    def compressed(self, bits: int = 4, data: Any = None) -> Self:
        """The same method with its weights rounded, for a model file that is a fraction as large.

        Parameters
        ----------
        bits : int
            Bits per weight, from 2 to 8. With 4 the file is about an eighth of what it was.
        data : feature source, optional
            Rows like those that will be encoded. Weights are then rounded so that the values of these rows change
            least; without them, as if rows varied mostly in the directions that the weights use.

        Returns
        -------
        Hasher
            A new one, whose codes differ from those of this one in a few bits.
        """
        raise ParameterError(
            f"{self._label} has no matrix of weights to round; expected a linear method such as diffusion"
        )

    def prefix(self, n_bits: int) -> Self:
        """The same method for the first bits only: its codes are the first bits of the codes of this one.

        DiffusionHash and ITQ have it where they were learned with ``nested=True``, and are good at 64, 128, 256, …
        bits; LSH and PCAH are good at any length.

        Parameters
        ----------
        n_bits : int
            Bits per code, at most as many as now.

        Returns
        -------
        Hasher
            A new one. For multiples of 8 its codes are ``codes[:, : n_bits // 8]``.
        """
        raise ParameterError(
            f"the first bits of {self._label} are not a code by themselves; expected nested=True of diffusion or itq"
        )

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns of codes: isch0, isch1, …, one per byte; ``input_features`` is ignored."""
        return np.array([f"{type(self).__name__.lower()}{i}" for i in range(codes.width(self.n_bits))], object)

    @property
    def distance(self) -> distances.Distance:
        """How codes of this method are compared."""
        return distances.HAMMING

    def _check_learned(self, attributes: dict[str, Any]) -> dict[str, Any]:
        d = attributes.get("n_features_in_")
        sizes = learned.check(self._expected(), attributes, {**self.get_params(), "m": self.n_bits, "d": d})
        names = attributes.get("feature_names_in_")
        if names is not None:
            if len(names) != d or not all(isinstance(name, str) for name in names):
                raise InputError(f"feature_names_in_ must be the names of {d} columns; got {names!r:.80}")
            attributes["feature_names_in_"] = np.array(names, object)
        return sizes

    def _fit(self, features: Features, run: Run) -> dict[str, Any]:
        """Learn from checked features of at least two rows, step by step; returns the learned attributes by name."""
        raise NotImplementedError

    def _check_size(self, features: Features) -> None:
        """Refuse features of a size that cannot be learned from; classes add limits of their own."""
        if len(features) < 2:
            raise InputError(f"{features.where}: n_samples = 1; {self._label} needs at least 2 rows to learn from")

    def _plan(self, features: Features, *, given: bool, checkpoint: Any, measured: bool) -> Plan:
        """Make the plan of ``_fit`` by a dry run."""
        size = Size.of(features)
        dry = DryRun()
        found: Any = copy(self)
        found.__dict__ |= self._fit(Sized(features.shape, features.dtype), dry)  # type: ignore[arg-type]
        what = f"{self._label} of {self.n_bits} bits"
        work = Work(what, self.n_bits, tuple(dry.stages), self._encoding_work(size), learned.n_bytes(found._learned()))
        return plan(work, features, given=given, checkpoint=checkpoint, measured=measured)

    def _encoding_work(self, size: Size) -> Stage:
        """What encoding costs: by default, a product with a matrix (d, m)."""
        return Stage("encoding", 2.0 * size.rows * size.columns * self.n_bits, read=size.bytes())

    def _projector(self) -> Projector:
        """A callable from a block of rows to the values (rows, n_bits) whose signs are the bits; it must pickle."""
        raise NotImplementedError

    def _projecting(self, features: Features, exact: bool = True) -> "Projecting":
        projector = self._projector()
        if not exact and isinstance(projector, Linear):
            projector = projector.quick()
        return Projecting(projector, features.where)

    def _learnable(self, X: Any) -> Features:
        """Open ``X`` to learn from it, with parameters that fit it."""
        self._check_parameters()
        importlib.import_module("scipy.linalg")  # only a BLAS that is loaded can be limited to one thread
        features = self._open(X, reset=True)
        self.n_samples_ = len(features)
        self._check_size(features)
        return features

    def _open_fitted(self, X: Any) -> Features:
        self._check_fitted()
        return self._open(X, reset=False)

    def _open(self, X: Any, reset: bool) -> Features:
        """Open ``X``. scikit-learn checks input that may have column names or is not a numeric matrix in memory."""
        if not (_elsewhere(X) or (_plain(X) and not hasattr(self, "feature_names_in_"))):
            from sklearn.utils.validation import validate_data

            if issparse(X):
                feature_sources.check_indices(X, "the sparse matrix")
            X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype="numeric", ensure_all_finite=False)
        features = feature_sources.open(X)
        if reset:
            self.n_features_in_ = features.shape[1]
        elif features.shape[1] != self.n_features_in_:
            raise InputError(
                f"{features.where}: X has {features.shape[1]} features, "
                f"but {self._label} is expecting {self.n_features_in_} features as input"
            )
        return features

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LinearHasher(Hasher):
    """A method whose bits are the signs of a linear map of centred data: z = (x − μ) L = x L − μ L."""

    _learns: ClassVar[Expected] = {"mean_": Array("float64", "d"), "projection_": Array("float32", "d", "m")}
    _nests: ClassVar[bool] = False  # whether the first bits of a code are always a code of the method
    mean_: NDArray[np.float64]  # μ
    projection_: NDArray[np.float32]  # L
    scales_: NDArray[np.float32]  # of the columns of L, and
    weight_bits_: int  # the bits of each of its weights; both only where they are rounded

    def compressed(self, bits: int = 4, data: Any = None) -> Self:
        from isch.hashing.compressed import compressed

        return compressed(self, bits, data)

    def prefix(self, n_bits: int) -> Self:
        if not (self._nests or getattr(self, "nested", False)):
            return super().prefix(n_bits)
        self._check_fitted()
        if n_bits not in Interval(Integral, 1, self.n_bits, closed="both"):
            raise ParameterError(f"n_bits must be a whole number from 1 to {self.n_bits}; got {n_bits!r:.40}")
        short = copy(self).set_params(n_bits=n_bits)
        short.__dict__ |= learned.shortened(self._expected(), vars(self), "m", n_bits)
        if hasattr(self, "scales_"):
            short.scales_ = self.scales_[:n_bits]
        return short

    def _part(self) -> Part:
        part = super()._part()
        if not hasattr(self, "weight_bits_"):
            return part
        weights = Rounded.of(self.projection_, self.scales_, self.weight_bits_)
        kept = {name: value for name, value in part.learned.items() if name not in ("scales_", "weight_bits_")}
        return part._replace(learned=kept | {"mean_": self.mean_.astype(np.float32), "projection_": weights})

    def _check_learned(self, attributes: dict[str, Any]) -> dict[str, Any]:
        weights, mean = attributes.get("projection_"), attributes.get("mean_")
        if not isinstance(weights, Rounded):
            return super()._check_learned(attributes)
        if isinstance(mean, np.ndarray) and mean.dtype == np.float32:
            attributes["mean_"] = mean.astype(np.float64)
        attributes["projection_"] = weights.values()
        sizes = super()._check_learned(attributes)
        attributes |= {"scales_": weights.scales, "weight_bits_": weights.bits}
        return sizes

    def _projector(self) -> Projector:
        return Linear(self.mean_, self.projection_)


def _plain(X: Any) -> bool:
    """Whether ``X`` is a matrix of real numbers in memory, without names."""
    matrix = type(X) is np.ndarray or issparse(X)
    return matrix and X.ndim == 2 and X.dtype.kind in "fiub" and min(X.shape) > 0


def _elsewhere(X: Any) -> bool:
    """Whether ``X`` is not an array in memory."""
    return isinstance(X, str | os.PathLike | Features) or type(X).__module__.partition(".")[0] == "dask"
