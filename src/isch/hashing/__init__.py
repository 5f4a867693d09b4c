"""Hashing methods, by name. Each is imported when it is first used."""

import importlib
import os
from typing import TYPE_CHECKING, Any

from isch.errors import FormatError, unknown

if TYPE_CHECKING:
    from isch.hashing.base import Hasher
    from isch.models import Part

METHODS = {  # name: (module, class)
    "isch": ("isch.hashing.isch", "ISCH"),
    "lsh": ("isch.hashing.lsh", "LSH"),
    "sklsh": ("isch.hashing.sklsh", "SKLSH"),
    "sh": ("isch.hashing.sh", "SH"),
    "mdsh": ("isch.hashing.mdsh", "MDSH"),
    "pcah": ("isch.hashing.pcah", "PCAH"),
    "pcarr": ("isch.hashing.pcah", "PCARR"),
    "itq": ("isch.hashing.itq", "ITQ"),
    "kmh": ("isch.hashing.kmh", "KMH"),
    "sph": ("isch.hashing.sph", "SPH"),
    "bpbc": ("isch.hashing.bpbc", "BPBC"),
    "cbe": ("isch.hashing.cbe", "CBE"),
    "sp": ("isch.hashing.sp", "SP"),
}


def method(name: str) -> type["Hasher"]:
    """The class of a method."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    module, cls = METHODS[name]
    return getattr(importlib.import_module(module), cls)  # type: ignore[no-any-return]


def hasher(name: str, /, **parameters: Any) -> "Hasher":
    """A hasher by the name of its method: ``hasher("itq", n_bits=64)``."""
    cls = method(name)
    known = cls._get_param_names()
    for parameter in parameters:
        if parameter not in known:
            raise unknown(f"parameter of {name}:", parameter, known)
    return cls(**parameters)


def load(path: str | os.PathLike[str]) -> "Hasher":
    """The fitted hasher of a model file, also of one that describes pictures first."""
    from isch import models

    found = [part for part in models.read(path).parts if part.method in METHODS]
    if len(found) != 1:
        raise FormatError(f"{path}: expected a model with one hashing method; known: {', '.join(sorted(METHODS))}")
    return restore(found[0], path)


def restore(part: "Part", path: str | os.PathLike[str]) -> "Hasher":
    """The hasher that a part of the model file ``path`` holds."""
    try:
        return method(part.method)._restore(part.parameters, part.learned)
    except (KeyError, TypeError) as error:
        raise FormatError(f"{path}: the header of the model is damaged ({error})") from error
