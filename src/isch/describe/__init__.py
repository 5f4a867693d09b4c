"""Descriptors, by name: from pictures to feature vectors. Each is imported when it is first used."""

import os
from typing import TYPE_CHECKING, Any

from isch.errors import unknown
from isch.registry import Registry

if TYPE_CHECKING:
    from isch.describe.base import Describer
    from isch.models import Part

DESCRIPTORS: "Registry[Describer]" = Registry(
    "descriptor",
    {
        "gist": "isch.describe.gist:GIST",
        "cnn": "isch.describe.cnn:CNN",
        "lbp": "isch.describe.lbp:LBP",
        "le": "isch.describe.le:LE",
        "bow": "isch.describe.bow:BoW",
        "vlad": "isch.describe.vlad:VLAD",
        "fisher": "isch.describe.fisher:Fisher",
        "llc": "isch.describe.llc:LLC",
        "fusion": "isch.describe.fusion:Fusion",
    },
)


def descriptor(name: str) -> type["Describer"]:
    """The class of a descriptor, by its name."""
    return DESCRIPTORS[name]


def describer(name: str, /, **parameters: Any) -> "Describer":
    """A describer by the name of its descriptor.

    Parameters
    ----------
    name : str
        One of ``isch.describe.DESCRIPTORS``, or several joined by ``+``, whose vectors are put side by side.
    **parameters
        Parameters of the class. With several descriptors, a parameter goes to each one that has it.

    Returns
    -------
    Describer
        Not fitted yet.

    Examples
    --------
    >>> from isch import describe
    >>> describe.describer("vlad", n_words=100)
    VLAD(n_words=100)
    """
    classes = [descriptor(part) for part in name.split("+")]
    if len(classes) == 1:
        return DESCRIPTORS.make(name, parameters)
    known = {parameter for cls in classes for parameter in cls._get_param_names()}
    for parameter in parameters:
        if parameter not in known:
            raise unknown(f"parameter of {name}:", parameter, known)
    parts = [cls(**{k: v for k, v in parameters.items() if k in cls._get_param_names()}) for cls in classes]
    return DESCRIPTORS.make("fusion", {"describers": parts})


def load(path: str | os.PathLike[str]) -> "Describer":
    """Load a describer.

    Parameters
    ----------
    path : path-like
        A model file, or a feature file written by ``isch describe``, which holds the describer that made it.

    Returns
    -------
    Describer
        Fitted as it was when it was saved.

    Raises
    ------
    FileError
        The file does not exist, is damaged, or holds no describer.
    """
    from isch.describe.files import model_file

    with model_file(path) as model:
        return DESCRIPTORS.load(model, "a describer")


def restore(part: "Part", path: str | os.PathLike[str]) -> "Describer":
    """The describer in one part of the model file ``path``."""
    return DESCRIPTORS.restore(part, path)


def __getattr__(name: str) -> Any:
    classes = DESCRIPTORS.classes()
    if name in classes:
        return DESCRIPTORS[classes[name]]
    raise AttributeError(f"module 'isch.describe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*DESCRIPTORS.classes(), "DESCRIPTORS", "describer", "descriptor", "load"])
