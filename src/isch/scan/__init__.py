"""Codes in memory, searched exactly by reading all of them.

``exact`` is the interface and ``numpy_reference`` its plain twin. ``hamming`` and ``measures`` divide the work among
cores, and ``kernels`` count bits.
"""

from isch.scan.exact import (
    CodeTable,
    Hits,
    Ranked,
    asymmetric_distances,
    distances,
    nearest,
    nearest_asymmetric,
    tiles,
    within,
)

__all__ = [
    "CodeTable",
    "Hits",
    "Ranked",
    "asymmetric_distances",
    "distances",
    "nearest",
    "nearest_asymmetric",
    "tiles",
    "within",
]
