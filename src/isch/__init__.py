"""Implicit Sparse Code Hashing: compact binary codes for feature vectors, and exact search among them.

Names are imported when first used, so that ``import isch`` and ``isch --help`` stay quick.
"""

TYPE_CHECKING = False  # as typing defines it; importing that would delay the handling of Ctrl-C
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "ISCH": "isch.hashing.isch",
    "LSH": "isch.hashing.lsh",
    "SKLSH": "isch.hashing.sklsh",
    "SH": "isch.hashing.sh",
    "MDSH": "isch.hashing.mdsh",
    "PCAH": "isch.hashing.pcah",
    "PCARR": "isch.hashing.pcah",
    "ITQ": "isch.hashing.itq",
    "KMH": "isch.hashing.kmh",
    "SPH": "isch.hashing.sph",
    "BPBC": "isch.hashing.bpbc",
    "CBE": "isch.hashing.cbe",
    "SP": "isch.hashing.sp",
    "sparse_codes": "isch.hashing.sparse",
    "hasher": "isch.hashing",
    "load": "isch.hashing",
    "CodeTable": "isch.search.exact",
    "nearest": "isch.search.exact",
    "within": "isch.search.exact",
    "pairs_within": "isch.search.pairs",
    "pairs_blocks": "isch.search.pairs",
    "near_groups": "isch.search.groups",
    "MultiIndex": "isch.search.multi_index",
    "Index": "isch.search.index",
    "Encoder": "isch.encoder",
}
_MODULES = {"features", "codes", "hashing", "search", "describe", "evaluate", "datasets", "errors", "progress"}

__all__ = ["__version__", *_HOMES, *_MODULES]


def __getattr__(name: str) -> "Any":
    import importlib

    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "datasets":
        return importlib.import_module("isch.evaluate.datasets")
    if name in _MODULES:
        return importlib.import_module(f"isch.{name}")
    raise AttributeError(f"module 'isch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
