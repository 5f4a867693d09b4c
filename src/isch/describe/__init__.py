"""Descriptors, by name: from pictures to feature vectors. Each is imported when it is first used."""

import importlib
import os
from typing import TYPE_CHECKING, Any

from isch.errors import FormatError, unknown

if TYPE_CHECKING:
    from isch.describe.base import Describer
    from isch.models import Part

DESCRIPTORS = {  # name: (module, class)
    "gist": ("isch.describe.gist", "GIST"),
    "cnn": ("isch.describe.cnn", "CNN"),
    "lbp": ("isch.describe.lbp", "LBP"),
    "le": ("isch.describe.le", "LE"),
    "bow": ("isch.describe.bow", "BoW"),
    "vlad": ("isch.describe.vlad", "VLAD"),
    "fisher": ("isch.describe.fisher", "Fisher"),
    "llc": ("isch.describe.llc", "LLC"),
    "fusion": ("isch.describe.fusion", "Fusion"),
}
_CLASSES = {cls: module for module, cls in DESCRIPTORS.values()}


def descriptor(name: str) -> type["Describer"]:
    """The class of a descriptor."""
    if name not in DESCRIPTORS:
        raise unknown("descriptor", name, DESCRIPTORS)
    module, cls = DESCRIPTORS[name]
    return getattr(importlib.import_module(module), cls)  # type: ignore[no-any-return]


def describer(name: str, /, **parameters: Any) -> "Describer":
    """A describer by name: ``describer("vlad", n_words=200)``; ``describer("le+lbp")`` fuses several.

    In a fusion, a parameter goes to every part that has one of that name.
    """
    classes = [descriptor(part) for part in name.split("+")]
    known = {parameter for cls in classes for parameter in cls._get_param_names()}
    for parameter in parameters:
        if parameter not in known:
            raise unknown(f"parameter of {name}:", parameter, known)
    parts = [cls(**{k: v for k, v in parameters.items() if k in cls._get_param_names()}) for cls in classes]
    return parts[0] if len(parts) == 1 else descriptor("fusion")(parts)


def load(path: str | os.PathLike[str]) -> "Describer":
    """The describer of a model file, fitted as it was; or the one that made a feature file of ``isch describe``."""
    from isch import models
    from isch.describe.files import model_file

    with model_file(path) as model:
        found = [part for part in models.read(model).parts if part.method in DESCRIPTORS]
    if len(found) != 1:
        raise FormatError(f"{path}: expected a describer; known: {', '.join(sorted(DESCRIPTORS))}")
    return restore(found[0], path)


def restore(part: "Part", path: str | os.PathLike[str]) -> "Describer":
    """The describer that a part of the model file ``path`` holds."""
    try:
        return descriptor(part.method)._restore(part.parameters, part.learned)
    except (KeyError, TypeError) as error:
        raise FormatError(f"{path}: the header of the model is damaged ({error})") from error


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        return getattr(importlib.import_module(_CLASSES[name]), name)
    raise AttributeError(f"module 'isch.describe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_CLASSES, "DESCRIPTORS", "describer", "descriptor", "load"])
