"""Implicit Sparse Code Hashing: compact binary codes for feature vectors, and exact search among them.

Names are imported when first used, so that ``import isch`` and ``isch --help`` stay quick.
"""

TYPE_CHECKING = False  # as typing defines it; importing that would delay the handling of Ctrl-C
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

_HOMES = {  # beside the classes of hashing methods, which their registry names
    "Hasher": "isch.hashing.base",
    "sparse_codes": "isch.hashing.sparse",
    "hasher": "isch.hashing",
    "load": "isch.hashing",
    "CodeTable": "isch.scan.exact",
    "nearest": "isch.scan.exact",
    "within": "isch.scan.exact",
    "pairs_within": "isch.join.pairs",
    "pairs_blocks": "isch.join.pairs",
    "near_groups": "isch.join.groups",
    "nearest_estimated": "isch.quality.estimates",
    "MultiIndex": "isch.lookup.multi_index",
    "Index": "isch.search.index",
    "Encoder": "isch.encoder",
}
_MODULES = {
    *("codes", "compute", "connect", "datasets", "describe", "distances", "errors", "evaluate", "features", "hashing"),
    *("neighbors", "progress", "search"),
}


def __getattr__(name: str) -> "Any":
    import importlib

    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"isch.{name}")
    if name == "__all__":
        return __dir__()
    if not name.startswith("_"):
        from isch.hashing import METHODS

        if name in METHODS.classes():
            return METHODS[METHODS.classes()[name]]
    raise AttributeError(f"module 'isch' has no attribute {name!r}")


def __dir__() -> list[str]:
    from isch.hashing import METHODS

    return sorted(["__version__", *_HOMES, *_MODULES, *METHODS.classes()])
