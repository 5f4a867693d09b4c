"""Every error ISCH raises on purpose.

    IschError
    ├── InputError           data or arguments that cannot be used (also a ValueError)
    │   ├── ParameterError   a constructor or option value outside its range
    │   ├── KeysExist        items whose keys an index holds already
    │   └── TooManyPairs     more pairs than may be held
    ├── FileError            a file or folder that cannot be read or written as asked (also an OSError)
    │   ├── FormatError      not the format it should be, damaged, or of a newer version
    │   ├── LockedError      another process is writing to it
    │   ├── NotDurable       written, but perhaps not for good: a power failure may undo it
    │   └── MissingData      the files of a dataset, or the results of an experiment, are not there
    ├── ClusterError         a Dask cluster that cannot be reached, or cannot do the work
    └── MissingExtra         an optional package is needed (also an ImportError)

    IschWarning              the result is usable but probably not what was wanted (a UserWarning)

Each message is one sentence: what, where, expected, got.
"""

import importlib
import sys
import warnings
from collections.abc import Iterable
from types import ModuleType


class IschError(Exception):
    """Base of all errors raised on purpose."""


class InputError(IschError, ValueError):
    """Data or arguments that cannot be used."""


class ParameterError(InputError):
    """A parameter outside its range."""


class KeysExist(InputError):
    """Items whose keys an index holds already. ``fact`` says which, without advice."""

    def __init__(self, fact: str) -> None:
        super().__init__(f"{fact}; upsert replaces items")
        self.fact = fact


class TooManyPairs(InputError):
    """More pairs lie within a radius than may be held."""


class FileError(IschError, OSError):
    """A file or folder that cannot be read or written as asked."""


class FormatError(FileError):
    """A file that is not in the format it should be, is damaged, or comes from a newer version."""


class LockedError(FileError):
    """Another process holds the right to write."""


class NotDurable(FileError):
    """A file or a change is stored and can be seen, but could not be forced to disk: a power failure may undo it."""


class MissingData(FileError):
    """The files of a dataset, or the stored results of an experiment, are not there."""


class ClusterError(IschError):
    """A Dask cluster that cannot be reached, or cannot do the work."""


class MissingExtra(IschError, ImportError):
    """An optional package is needed."""


class IschWarning(UserWarning):
    """The result is usable but probably not what was wanted."""


def warn(message: str) -> None:
    """Warn whoever called this package, at the line of the call."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "isch":
        frame = frame.f_back
        level += 1
    warnings.warn(message, IschWarning, stacklevel=level)


def require(module: str, extra: str) -> ModuleType:
    """Import an optional module, or say which extra installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtra(f"{package} is needed for this and is not installed: pip install 'isch[{extra}]'") from error


def unknown(what: str, name: object, known: Iterable[object]) -> ParameterError:
    """An error for a name that is not in a list of known ones: the nearest, and all."""
    from difflib import get_close_matches

    names = sorted(map(str, known))
    near = get_close_matches(str(name), names, n=3)
    meant = f" (did you mean {' or '.join(near)}?)" if near else ""
    return ParameterError(f"unknown {what} {name!r}{meant}; known: {', '.join(names)}")
