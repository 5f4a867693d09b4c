"""Keys and metadata as users give them, as the catalog stores them."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from isch.errors import InputError
from isch.search.catalog import Key

LARGEST = 2**63 - 1


def one(key: Any) -> Key:
    """A key: text, a 64-bit integer, or a path, which is text."""
    if type(key) is str:
        return _text(key)
    if isinstance(key, str | os.PathLike):
        return _text(str(os.fspath(key)))
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        if -LARGEST - 1 <= key <= LARGEST:
            return int(key)
        raise InputError(f"the key {key} does not fit 64 bits")
    raise InputError(f"a key must be a string or an integer; got {key!r}")


def many(keys: Any) -> list[Key]:
    """A list of keys; a single key is a list of one."""
    if isinstance(keys, str | os.PathLike | int | np.integer):
        return [one(keys)]
    if not isinstance(keys, Iterable) or isinstance(keys, bytes | Mapping):
        raise InputError(f"keys must be a sequence of strings or integers; got {type(keys).__name__}")
    listed = list(keys)
    return listed if _all_texts(listed) else [one(key) for key in listed]


def _all_texts(keys: list[Any]) -> bool:
    """Whether all keys are texts and valid, seen in one go."""
    try:
        "".join(keys).encode()
    except (TypeError, UnicodeEncodeError):
        return False
    return set(map(type, keys)) == {str}


def for_rows(keys: Any, names: Sequence[str] | None, n_rows: int, first_free: int) -> Sequence[Key]:
    """One key per row: those given, else the names the source has, else the next free integers."""
    if keys is None and names is None:
        if first_free + n_rows > LARGEST:
            raise InputError("no integers are left to number the items with; give keys")
        return range(first_free, first_free + n_rows)
    chosen = many(names if keys is None else keys)
    if len(chosen) != n_rows:
        raise InputError(f"expected one key for each of {n_rows} rows; got {len(chosen)} keys")
    return chosen


def repeated(keys: Sequence[Key]) -> str | None:
    """A sentence about the first repeated key, if there is one."""
    if len(set(keys)) == len(keys):
        return None
    seen: dict[Key, int] = {}
    for row, key in enumerate(keys):
        if seen.setdefault(key, row) != row:
            return f"the key {key!r} is given twice, in rows {seen[key]} and {row}; keys must be unique"
    return None


def metadata_entries(metadata: Any, n_rows: int) -> Any:
    """Metadata as a list with an entry for each row, or as one dictionary or None for all rows."""
    if metadata is None or isinstance(metadata, Mapping):
        return metadata
    entries = list(metadata) if isinstance(metadata, Iterable) and not isinstance(metadata, str | bytes) else None
    if entries is None or len(entries) != n_rows:
        got = type(metadata).__name__ if entries is None else f"{len(entries)} entries"
        raise InputError(f"metadata must be one dictionary or None for each of {n_rows} rows; got {got}")
    return entries


def metadata_rows(metadata: Any, n_rows: int) -> Iterator[str | None]:
    """One JSON text or None per row, from a sequence of dictionaries, one dictionary for all rows, or None."""
    entries = metadata_entries(metadata, n_rows)
    if isinstance(entries, list):
        return (json_text(entry, row) for row, entry in enumerate(entries))
    return repeat(json_text(entries, None), n_rows)


def json_text(entry: Any, row: int | None) -> str | None:
    """The metadata of a row, or of all rows, as JSON.

    Raises
    ------
    InputError
        They cannot be written as JSON.
    """
    where = "the metadata" if row is None else f"the metadata of row {row}"
    if entry is None:
        return None
    if not isinstance(entry, Mapping):
        raise InputError(f"{where} must be a dictionary or None; got {type(entry).__name__}")
    try:
        text = encode(dict(entry))
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{where} cannot be written as JSON ({error})") from error
    return text


def plain(value: Any) -> Any:
    """Convert values that JSON does not know."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not a JSON type")


encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False, default=plain).encode


def _text(key: str) -> str:
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"the key {key!r} is not valid Unicode text") from error
    return key
