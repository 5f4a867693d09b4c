"""``set_output`` of scikit-learn: codes as a data frame, one column per byte, for whoever asks for it.

scikit-learn is not imported for this; its global setting counts where the caller uses scikit-learn.
"""

import sys
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes, width
from isch.errors import require, unknown
from isch.features import Features

CONTAINERS = ("default", "pandas", "polars")


class OutputMixin:
    """What a transformer needs for ``set_output``."""

    n_bits: int

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what ``transform`` returns.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            An array, or a data frame with one column per byte; None changes nothing.
        """
        if transform is not None:
            if transform not in CONTAINERS:
                raise unknown("output", transform, CONTAINERS)
            self._sklearn_output_config = {"transform": transform}  # the name that scikit-learn's clone copies
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns of codes: isch0, isch1, …, one per byte.

        Parameters
        ----------
        input_features : None
            There for scikit-learn.
        """
        return np.array([f"{type(self).__name__.lower()}{i}" for i in range(width(self.n_bits))], object)

    def _contained(self, codes: Codes, X: Any) -> Any:
        """Codes as they are, or as a data frame with the index that the features have."""
        chosen = "default" if isinstance(X, Features) else self._container()
        if chosen == "default":
            return codes
        frames, names = require(chosen, "dev"), list(self.get_feature_names_out())
        if chosen == "polars":
            return frames.DataFrame(codes, schema=names)
        return frames.DataFrame(codes, columns=names, index=getattr(X, "index", None))

    def _container(self) -> str:
        own: str | None = getattr(self, "_sklearn_output_config", {}).get("transform")
        if own is not None or "sklearn" not in sys.modules:
            return own or "default"
        import sklearn

        return str(sklearn.get_config().get("transform_output", "default"))
