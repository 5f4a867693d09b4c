"""Learners by name. A registry names the home of each class; a class is imported when it is first asked for."""

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from isch.errors import FormatError, InputError, unknown

if TYPE_CHECKING:
    from isch.learner import Learner
    from isch.models import Part

L = TypeVar("L", bound="Learner")


class Registry(Mapping[str, type[L]], Generic[L]):
    """The classes of one kind of learner by name.

    Parameters
    ----------
    kind : str
        What messages call an entry: "method", "descriptor".
    homes : dict of str
        ``"module:Class"`` of each name, like ``{"itq": "isch.hashing.itq:ITQ"}``.
    """

    def __init__(self, kind: str, homes: dict[str, str]) -> None:
        self._kind = kind
        self._homes = homes

    def __getitem__(self, name: str) -> type[L]:
        if name not in self._homes:
            raise unknown(self._kind, name, self._homes)
        module, _, cls = self._homes[name].partition(":")
        return getattr(importlib.import_module(module), cls)  # type: ignore[no-any-return]

    def __contains__(self, name: object) -> bool:
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)

    def classes(self) -> dict[str, str]:
        """The name in the registry of each class, by the name of the class."""
        return {home.partition(":")[2]: name for name, home in self._homes.items()}

    def make(self, name: str, parameters: dict[str, Any]) -> L:
        """A learner with some parameters, which are checked by name only."""
        cls = self[name]
        known = cls._get_param_names()
        for parameter in parameters:
            if parameter not in known:
                raise unknown(f"parameter of {name}:", parameter, known)
        return cls(**parameters)

    def restore(self, part: "Part", path: str | os.PathLike[str]) -> L:
        """The learner that a part of the model file ``path`` holds."""
        if part.method not in self:
            raise FormatError(f"{path}: the {self._kind} {part.method!r} is not known to this version of ISCH")
        try:
            return self[part.method]._restore(part.parameters, part.learned)
        except (InputError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise FormatError(f"{path}: the model is damaged ({part.method}: {error})") from error

    def load(self, path: str | os.PathLike[str], what: str, renewed: "Callable[[Part], Part]" = lambda part: part) -> L:
        """The one learner of this kind that a model file holds.

        ``what`` says what was expected, and ``renewed`` makes a part of today from an older one.
        """
        from isch import models

        found = [part for part in models.read(path).parts if part.method in self]
        if len(found) != 1:
            raise FormatError(f"{path}: expected {what}; known: {', '.join(sorted(self))}")
        return self.restore(renewed(found[0]), path)
