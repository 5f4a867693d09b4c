"""``set_output`` of scikit-learn: results of ``transform`` as data frames, for users who choose that.

scikit-learn is not imported for this. Its global setting counts if the caller uses scikit-learn.
"""

import sys
from importlib import import_module
from typing import Any, Self

from numpy.typing import NDArray

from isch.errors import InputError, MissingExtra, unknown
from isch.lazy import issparse

KINDS = ("default", "pandas", "polars")


class OutputMixin:
    """What a transformer with ``get_feature_names_out`` needs for ``set_output``."""

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what ``transform`` returns.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            An array, or a data frame with the columns of ``get_feature_names_out``. None changes nothing.

        Returns
        -------
        self
        """
        if transform is not None:
            if transform not in KINDS:
                raise unknown("output", transform, KINDS)
            self._sklearn_output_config = {"transform": transform}  # the name that scikit-learn's clone copies
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns that ``transform`` gives."""
        raise NotImplementedError

    def _contained(self, rows: Any, X: Any = None) -> Any:
        """Rows as they are, or as a data frame, with the index of the input ``X`` if that is a data frame of pandas."""
        own: str | None = getattr(self, "_sklearn_output_config", {}).get("transform")
        kind = own or _default()
        if kind == "default":
            return rows
        if issparse(rows):
            raise InputError(f"{kind} output does not take sparse rows; expected set_output(transform='default')")
        names = list(self.get_feature_names_out())
        index = X.index if hasattr(X, "iloc") else None  # lists, too, have something called index
        options = {"columns": names, "index": index} if kind == "pandas" else {"schema": names, "orient": "row"}
        return _library(kind).DataFrame(rows, **options)


def _default() -> str:
    """The kind that scikit-learn's configuration asks for, if it is loaded."""
    config = getattr(sys.modules.get("sklearn"), "get_config", None)
    return str(config()["transform_output"]) if config else "default"


def _library(kind: str) -> Any:
    try:
        return import_module(kind)
    except ImportError as error:
        raise MissingExtra(f"{kind} is needed for {kind} output and is not installed: pip install {kind}") from error
