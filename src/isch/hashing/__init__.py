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
        "diffusion": "isch.hashing.diffusion:DiffusionHash",
        "distance": "isch.hashing.distance:DistanceHash",
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
    return METHODS.load(path, "a model with one hashing method", _separated)


def restore(part: "Part", path: str | os.PathLike[str]) -> "Hasher":
    """The hasher in one part of the model file ``path``."""
    return METHODS.restore(_separated(part), path)


def _separated(part: "Part") -> "Part":
    """A model of before ``isch`` became three methods, under the name of its own."""
    given = part.parameters
    if part.method != "isch" or "objective" not in given:
        return part
    name = "distance" if given["objective"] == "neighbours" else "diffusion" if given.get("tau") == "auto" else "isch"
    known = METHODS[name]
    parameters = {key: value for key, value in given.items() if key in known._get_param_names()}
    learned = {key: value for key, value in part.learned.items() if key in known._expected()}
    return part._replace(method=name, parameters=parameters, learned=learned)
