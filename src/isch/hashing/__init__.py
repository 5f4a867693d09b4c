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
        Parameters of the class, such as ``n_bits``. The others keep their defaults.

    Returns
    -------
    Hasher
        Not fitted yet.

    Examples
    --------
    >>> import isch
    >>> isch.hasher("itq", n_bits=64)
    ITQ(n_bits=64)
    """
    return METHODS.make(name, parameters)


def load(path: str | os.PathLike[str]) -> "Hasher":
    """Load a fitted hasher from a model file.

    If the file also holds a describer of pictures, only its hasher is returned.

    Parameters
    ----------
    path : path-like
        A file written by ``Hasher.save``, ``Encoder.save`` or ``isch fit``.

    Returns
    -------
    Hasher

    Raises
    ------
    FileError
        The file does not exist, is damaged, or holds no hasher.
    """
    return METHODS.load(path, "a model with one hashing method")


def restore(part: "Part", path: str | os.PathLike[str]) -> "Hasher":
    """The hasher in one part of the model file ``path``."""
    return METHODS.restore(part, path)
