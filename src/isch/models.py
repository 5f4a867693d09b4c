"""Model files: one safetensors file with a versioned JSON header; never pickle.

The header is the metadata entry ``isch``: {"version", "method", "parameters", "learned", "checksum"}. Learned arrays
are the tensors; a sparse matrix ``x_`` is stored as ``x_.data``, ``x_.indices``, ``x_.indptr`` and its shape in the
header. The same model always gives the same bytes.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from isch.errors import FileError, FormatError
from isch.files import replacing

VERSION = 1

Arrays = dict[str, NDArray[Any]]


def write(path: str | os.PathLike[str], method: str, parameters: dict[str, Any], learned: dict[str, Any]) -> None:
    """Write a model whole or not at all."""
    from safetensors.numpy import save

    arrays: Arrays = {}
    values: dict[str, Any] = {}
    for name, value in learned.items():
        if isinstance(value, csr_array):
            arrays |= {f"{name}.{part}": getattr(value, part) for part in ("data", "indices", "indptr")}
            values[name] = {"shape": list(value.shape)}
        elif isinstance(value, np.ndarray) and value.dtype != object:
            arrays[name] = np.ascontiguousarray(value)
        else:
            values[name] = value
    header = {
        "version": VERSION,
        "method": method,
        "parameters": parameters,
        "learned": values,
        "checksum": _checksum(arrays),
    }
    with replacing(path) as temporary:
        temporary.write_bytes(save(arrays, {"isch": json.dumps(header, sort_keys=True, default=_plain)}))


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The header of a model file, without its arrays."""
    return _read(path, arrays=False)[0]


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(header, learned attributes) of a model file, checked against its checksum."""
    header, arrays = _read(path, arrays=True)
    if _checksum(arrays) != header["checksum"]:
        raise FormatError(f"{path}: the model is damaged (its arrays do not match their checksum)")
    learned = {name: value for name, value in header["learned"].items() if f"{name}.data" not in arrays}
    for name, array in arrays.items():
        owner, _, part = name.partition(".")
        if not part:
            learned[owner] = array
        elif part == "data":
            parts = (array, arrays[f"{owner}.indices"], arrays[f"{owner}.indptr"])
            learned[owner] = csr_array(parts, shape=tuple(header["learned"][owner]["shape"]))
    return header, learned


def _read(path: str | os.PathLike[str], arrays: bool) -> tuple[dict[str, Any], Arrays]:
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise FileError(f"{path}: no such model file")
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})["isch"])
            _check_version(header, path)
            return header, {name: file.get_tensor(name) for name in file.keys()} if arrays else {}  # noqa: SIM118
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise FormatError(f"{path}: not an ISCH model file, or damaged ({error})") from error


def _check_version(header: dict[str, Any], path: str | os.PathLike[str]) -> None:
    if header["version"] > VERSION:
        raise FormatError(
            f"{path}: the model has format version {header['version']}; this ISCH reads up to version {VERSION}"
        )


def _checksum(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode() + str(arrays[name].dtype).encode() + str(arrays[name].shape).encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """What JSON does not know: NumPy values; a random generator is not kept."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    raise TypeError(f"a model cannot hold a {type(value).__name__}")
