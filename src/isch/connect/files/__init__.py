"""Files of codes with their keys and metadata: read as a source, and written from one.

A format is a module of this package with ``read(path, options)``, which gives a ``Source``, and
``write(path, source)``, which writes one whole or not at all.
"""

import importlib
from pathlib import Path
from typing import Any

from isch.connect import FORMATS
from isch.connect.source import ReadOptions, Source
from isch.errors import FileError, InputError, unknown
from isch.files import printable
from isch.search.catalog import Key

_SUFFIXES = {suffix: name for name, facts in FORMATS.items() for suffix in facts.suffixes}


def read(path: Path, options: ReadOptions, name: str | None = None) -> Source:
    """The codes in a file, by the name of its format or by its suffix."""
    if not path.exists():
        raise FileError(f"{printable(path)}: no such file")
    if name is None and path.suffix not in _SUFFIXES:
        raise unknown(f"format of codes of {printable(path)}:", path.suffix or "(none)", _SUFFIXES)
    source: Source = _module(name or _SUFFIXES[path.suffix]).read(path, options)
    return source


def write(name: str, path: Path, source: Source) -> None:
    """Write codes with keys and metadata, whole or not at all."""
    if path.suffix not in FORMATS[name].suffixes:
        raise unknown(f"suffix of {printable(path)}:", path.suffix or "(none)", FORMATS[name].suffixes)
    if not len(source):
        raise InputError(f"{source.where}: there is nothing to write to {printable(path)}")
    _module(name).write(path, source)


def _module(name: str) -> Any:
    return importlib.import_module(f"isch.connect.files.{name}")


def text(key: Key, where: str) -> bytes:
    """A key as a text of fixed length can hold it: zeros at its end would be lost."""
    if isinstance(key, str) and key.endswith("\0"):
        raise InputError(f"{where}: the key {key!r} ends with a zero character, which this format cannot keep")
    return str(key).encode()
