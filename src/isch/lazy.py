"""Modules that take longer to import than a search takes: they are imported when they are first used.

SciPy's are here: write ``from isch.lazy import linalg`` instead of ``from scipy import linalg``. Of our own modules,
those with Numba kernels matter:

    if TYPE_CHECKING:
        from isch import kmeans
    else:
        kmeans = Lazy("isch.kmeans")
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from isch import forks


class Lazy:
    """Stands for a module, which is imported when one of its attributes is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        module = sys.modules.get(self._name)
        if module is None or getattr(module.__spec__, "_initializing", False):
            with forks.importing.entered():
                module = import_module(self._name)
        return getattr(module, attribute)

    def __repr__(self) -> str:
        return f"<lazy module {self._name!r}>"


if TYPE_CHECKING:
    from scipy import linalg, sparse
    from scipy.sparse import issparse
    from scipy.spatial import distance
else:
    linalg, sparse, distance = map(Lazy, ("scipy.linalg", "scipy.sparse", "scipy.spatial.distance"))

    def issparse(thing: object) -> bool:
        """Whether something is a sparse matrix of SciPy; until ``scipy.sparse`` is imported, nothing is."""
        check = getattr(sys.modules.get("scipy.sparse"), "issparse", None)
        return check is not None and check(thing)


__all__ = ["Lazy", "distance", "issparse", "linalg", "sparse"]
