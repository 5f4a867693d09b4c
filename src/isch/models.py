"""Model files: one safetensors file with a versioned JSON header; never pickle.

A file holds one or more parts in the order they are applied: a describer of pictures, a hasher, or both. The header is
the metadata entry ``isch``: {"version", "parts": [{"method", "parameters", "learned"}], "checksum"}. The learned arrays
of part i are the tensors ``i/name``; a sparse matrix ``x_`` is stored as ``x_.data``, ``x_.indices`` and ``x_.indptr``,
its shape in the header; rounded weights ``x_`` as ``x_.packed`` and ``x_.scales``, their shape and bits in the header
(version 3; models without any are written as version 2, which older programs read). The checksum covers arrays and
header. The same model always gives the same bytes.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch.errors import FileError, FormatError
from isch.files import reading, replacing
from isch.lazy import sparse
from isch.rounded import Rounded

VERSIONS = (2, 3)  # of model files; 3 if there are rounded weights

Arrays = dict[str, NDArray[Any]]


class Part(NamedTuple):
    """One thing that was learned: the name of its method, its parameters and its learned attributes."""

    method: str
    parameters: dict[str, Any]
    learned: dict[str, Any]


@dataclass(frozen=True)
class Model:
    """What a model file holds."""

    version: int
    checksum: str
    parts: list[Part]


def write(path: str | os.PathLike[str], parts: Sequence[Part]) -> None:
    """Write a model whole or not at all."""
    from safetensors.numpy import save

    header, arrays = _packed(parts)
    with replacing(path) as temporary:
        temporary.write_bytes(save(arrays, {"isch": _canonical(header)}))


def checksum(parts: Sequence[Part]) -> str:
    """What tells a model from others: the checksum that its file would have."""
    return str(_packed(parts)[0]["checksum"])


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The header of a model file, without its arrays and unchecked."""
    return _read(path, with_arrays=False)[0]


def read(path: str | os.PathLike[str]) -> Model:
    """The content of a model file, checked against its checksum."""
    header, arrays = _read(path, with_arrays=True)
    if not _matches(header, arrays):
        raise FormatError(f"{path}: the model is damaged (its content does not match its checksum)")
    try:
        parts = [_put_together(one, f"{i}/", arrays) for i, one in enumerate(header["parts"])]
        return Model(header["version"], header["checksum"], parts)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise FormatError(f"{path}: the header of the model is damaged ({error!r})") from error


def _packed(parts: Sequence[Part]) -> tuple[dict[str, Any], Arrays]:
    """(header, arrays) of a model file."""
    arrays: Arrays = {}
    described = [_take_apart(part, f"{i}/", arrays) for i, part in enumerate(parts)]
    version = 3 if any(isinstance(value, Rounded) for part in parts for value in part.learned.values()) else 2
    header = json.loads(json.dumps({"version": version, "parts": described}, default=_plain))
    return header | {"checksum": _checksum(arrays, header)}, arrays


def _take_apart(part: Part, prefix: str, arrays: Arrays) -> dict[str, Any]:
    """The header's entry of a part; its arrays are added to ``arrays``."""
    values: dict[str, Any] = {}
    for name, value in part.learned.items():
        if isinstance(value, np.ndarray) and value.dtype != object:
            arrays[f"{prefix}{name}"] = np.ascontiguousarray(value)
        elif hasattr(value, "indptr"):  # a sparse matrix in CSR form
            arrays |= {f"{prefix}{name}.{piece}": getattr(value, piece) for piece in ("data", "indices", "indptr")}
            values[name] = {"shape": list(value.shape)}
        elif isinstance(value, Rounded):
            arrays |= {f"{prefix}{name}.packed": value.packed(), f"{prefix}{name}.scales": value.scales}
            values[name] = {"shape": list(value.integers.shape), "bits": value.bits}
        else:
            values[name] = value
    return {"method": part.method, "parameters": part.parameters, "learned": values}


def _put_together(entry: dict[str, Any], prefix: str, arrays: Arrays) -> Part:
    """The part described by a header entry and arrays."""
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    made = {whole: make for name in own if (make := MAKERS.get(name.rpartition(".")[2])) and (whole := _whole(name))}
    learned = {name: value for name, value in entry["learned"].items() if name not in made}
    learned |= {name: array for name, array in own.items() if _whole(name) not in made}
    learned |= {name: make(own, name, entry["learned"][name]) for name, make in made.items()}
    if not (isinstance(entry["method"], str) and isinstance(entry["parameters"], dict)):
        raise TypeError("method and parameters must be a text and an object")
    return Part(entry["method"], entry["parameters"], learned)


def _whole(name: str) -> str:
    """The attribute that a tensor is a piece of."""
    return name.rpartition(".")[0]


def _csr(arrays: Arrays, name: str, entry: dict[str, Any]) -> "sparse.csr_array":
    shape = entry["shape"]
    data, indices, indptr = (arrays[f"{name}.{piece}"] for piece in ("data", "indices", "indptr"))
    if indptr.ndim != 1 or len(indptr) != shape[0] + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise ValueError(f"{name} is not a sparse matrix of {shape[0]} rows")
    if not (len(data) == len(indices) == indptr[-1]):
        raise ValueError(f"{name} has {len(data)} values and {len(indices)} columns for {indptr[-1]} entries")
    if len(indices) and not (indices.min() >= 0 and indices.max() < shape[1]):
        raise ValueError(f"{name} has a column outside its {shape[1]} columns")
    return sparse.csr_array((data, indices, indptr), shape=(shape[0], shape[1]))


def _rounded(arrays: Arrays, name: str, entry: dict[str, Any]) -> Rounded:
    rows, columns = entry["shape"]
    if not (isinstance(rows, int) and isinstance(columns, int) and min(rows, columns) > 0):
        raise ValueError(f"{name} has the shape {entry['shape']!r:.80}; expected two positive whole numbers")
    return Rounded.unpacked(arrays[f"{name}.packed"], arrays[f"{name}.scales"], (rows, columns), entry["bits"])


MAKERS = {"indptr": _csr, "packed": _rounded}  # by a piece that only such a value has


def _read(path: str | os.PathLike[str], with_arrays: bool) -> tuple[dict[str, Any], Arrays]:
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise FileError(f"{path}: no such model file")
    try:
        with reading(path), safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})["isch"])
            _check_version(header, path)
            names = list(file.keys()) if with_arrays else []
            return header, {name: file.get_tensor(name) for name in names}
    except (FileError, MemoryError):
        raise
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from error
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path}: not an ISCH model file, or damaged ({error})") from error


def _check_version(header: dict[str, Any], path: str | os.PathLike[str]) -> None:
    version = header["version"]
    if not isinstance(version, int) or version < 1:
        raise FormatError(f"{path}: not an ISCH model file, or damaged (format version {version!r:.40})")
    if version < VERSIONS[0]:
        raise FormatError(f"{path}: the model has format version {version}, which is not read any more; fit it again")
    if version > VERSIONS[-1]:
        raise FormatError(
            f"{path}: the model has format version {version}; this ISCH reads up to version {VERSIONS[-1]}"
        )


def _matches(header: dict[str, Any], arrays: Arrays) -> bool:
    """Whether the checksum is that of the arrays and the rest of the header."""
    return bool(header.get("checksum") == _checksum(arrays, {k: v for k, v in header.items() if k != "checksum"}))


def _checksum(arrays: Arrays, header: dict[str, Any]) -> str:
    digest = hashlib.sha256(_canonical(header).encode())
    for name in sorted(arrays):
        digest.update(name.encode() + str(arrays[name].dtype).encode() + str(arrays[name].shape).encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def _canonical(header: dict[str, Any]) -> str:
    return json.dumps(header, sort_keys=True)


def _plain(value: Any) -> Any:
    """Convert values that JSON does not know: NumPy's. A random generator is not stored."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    raise TypeError(f"a model cannot hold a {type(value).__name__}")
