"""Hashing methods, by name. Each is imported when it is first used."""

import os
from typing import TYPE_CHECKING, Any

from isch.registry import Registry

if TYPE_CHECKING:
    from isch.hashing.base import Hasher
    from isch.models import Part

METHODS: "Registry[Hasher]" = Registry(
    "method",
    {
        "isch": "isch.hashing.isch:ISCH",
        "lsh": "isch.hashing.lsh:LSH",
        "sklsh": "isch.hashing.sklsh:SKLSH",
        "sh": "isch.hashing.sh:SH",
        "mdsh": "isch.hashing.mdsh:MDSH",
        "pcah": "isch.hashing.pcah:PCAH",
        "pcarr": "isch.hashing.pcah:PCARR",
        "itq": "isch.hashing.itq:ITQ",
        "kmh": "isch.hashing.kmh:KMH",
        "sph": "isch.hashing.sph:SPH",
        "bpbc": "isch.hashing.bpbc:BPBC",
        "cbe": "isch.hashing.cbe:CBE",
        "sp": "isch.hashing.sp:SP",
    },
)


def method(name: str) -> type["Hasher"]:
    """The class of a method, by its name."""
    return METHODS[name]


def hasher(name: str, /, **parameters: Any) -> "Hasher":
    """A hasher by the name of its method.

    Parameters
    ----------
    name : str
        One of ``isch.hashing.METHODS``.
    **parameters
        Those of the class; the others keep their defaults.

    Examples
    --------
    >>> import isch
    >>> isch.hasher("itq", n_bits=64)
    ITQ(n_bits=64)
    """
    return METHODS.make(name, parameters)


def load(path: str | os.PathLike[str]) -> "Hasher":
    """The fitted hasher of a model file, also of one that describes pictures first.

    Raises
    ------
    FileError
        There is no such file, or it holds no hasher, or it is damaged.
    """
    return METHODS.load(path, "a model with one hashing method")


def restore(part: "Part", path: str | os.PathLike[str]) -> "Hasher":
    """The hasher that a part of the model file ``path`` holds."""
    return METHODS.restore(part, path)
