"""The values beside a table of results: one per query, and the curves.

    RESULTS/EXPERIMENT.safetensors

Runs with the same numbers of queries and ranks form a group: ``G.per_query`` (runs × queries, 16-bit fractions),
``G.precision`` and ``G.recall`` (runs × ranks, single precision) and ``G.ranks``. The header lists the keys of the runs
of each group in order. Values are not compressed, so that version control stores only what changed.
"""

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch.errors import FormatError
from isch.evaluate.runs import CURVES, Result, from_steps, to_steps
from isch.files import regular, replacing

VERSION = 1
DIGITS = 6  # decimals of a curve that single precision keeps


class Values(NamedTuple):
    """The stored values of one run."""

    per_query: NDArray[np.float64]
    curves: dict[str, list[float]]


def write(path: Path, results: Iterable[Result]) -> None:
    """Write the values of results, whole or not at all."""
    from safetensors.numpy import save

    arrays: dict[str, NDArray[Any]] = {}
    keys: list[list[str]] = []
    for group, (shape, members) in enumerate(groupby(sorted(results, key=_group), key=_group)):
        some = list(members)
        keys.append([r.run.key for r in some])
        arrays[f"{group}.ranks"] = np.array(shape[1], np.int64)
        arrays[f"{group}.per_query"] = np.stack([to_steps(r.per_query) for r in some])
        for name in ("precision", "recall"):
            arrays[f"{group}.{name}"] = np.array([r.curves[name] for r in some], np.float32)
    header = {"version": VERSION, "keys": keys}
    with replacing(path) as temporary:
        temporary.write_bytes(save(arrays, {"isch": json.dumps(header)}))


def _group(result: Result) -> tuple[int, list[float]]:
    return len(result.per_query), result.curves["ranks"]


def read(path: Path) -> dict[str, Values]:
    """The values of each run, by its key.

    Raises
    ------
    FormatError
        The file is damaged, of another version, or not a file of values.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(regular(path), framework="numpy") as file:
            header = json.loads((file.metadata() or {})["isch"])
            if header["version"] != VERSION:
                raise FormatError(f"{path}: format version {header['version']}; this ISCH reads version {VERSION}")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return dict(_unpacked(header["keys"], arrays))
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError, AttributeError) as error:
        raise FormatError(f"{path}: not a file of result values, or damaged ({error})") from error


def _unpacked(keys: list[list[str]], arrays: Mapping[str, NDArray[Any]]) -> Iterable[tuple[str, Values]]:
    for group, names in enumerate(keys):
        ranks, steps = arrays[f"{group}.ranks"], arrays[f"{group}.per_query"]
        curves = {name: arrays[f"{group}.{name}"] for name in CURVES[1:]}
        _check(len(names), ranks, steps, curves)
        rounded = {name: np.round(values.astype(np.float64), DIGITS) for name, values in curves.items()}
        for row, key in enumerate(names):
            lists = {"ranks": ranks.astype(float).tolist(), **{n: v[row].tolist() for n, v in rounded.items()}}
            yield str(key), Values(from_steps(steps[row]), lists)


def _check(n: int, ranks: NDArray[Any], steps: NDArray[Any], curves: Mapping[str, NDArray[Any]]) -> None:
    if steps.dtype != np.uint16 or steps.ndim != 2 or len(steps) != n:
        raise ValueError(f"expected {n} rows of 16-bit values; got {steps.dtype} of shape {steps.shape}")
    for name, values in curves.items():
        if values.dtype != np.float32 or values.shape != (n, *ranks.shape):
            raise ValueError(f"{name}: expected {n} × {len(ranks)} numbers; got {values.dtype} of shape {values.shape}")
