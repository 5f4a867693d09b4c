"""A folder of feature files, read as one matrix in the order of their names."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from isch.errors import FormatError, InputError
from isch.features.base import Block, Features, stack
from isch.features.formats import SUFFIXES
from isch.features.npy import SIDES

OPEN = 100  # shards kept open at once; a process may only have so many open files


class ShardedFeatures(Features):
    """Several feature matrices one below the other."""

    def __init__(self, shards: Sequence[Features], where: str) -> None:
        self._shards = shards
        self._borders = [0, *np.cumsum([len(s) for s in shards]).tolist()]
        self.where = where
        self.shape = (self._borders[-1], shards[0].shape[1])
        self.dtype = np.result_type(*(s.dtype for s in shards))
        for shard in shards:
            if shard.shape[1] != self.shape[1]:
                raise InputError(f"{shard.where}: {shard.shape[1]} columns; {shards[0].where} has {self.shape[1]}")

    def read(self, start: int, stop: int) -> Block:
        first = min(bisect_right(self._borders, start), len(self._shards)) - 1
        parts: list[Block] = []
        for shard, offset in zip(self._shards[first:], self._borders[first:], strict=False):
            if offset >= stop and parts:
                break
            parts.append(shard.read(max(0, start - offset), min(len(shard), stop - offset)))
            if len(self._shards) > OPEN:
                shard.close()
        return parts[0] if len(parts) == 1 else stack(parts)

    def check(self) -> None:
        for shard in self._shards:
            shard.check()

    def version(self) -> list[Any]:
        return [shard.version() for shard in self._shards]

    def close(self) -> None:
        for shard in self._shards:
            shard.close()

    def _load_names(self) -> Sequence[str] | None:
        names = [shard.names for shard in self._shards]
        return None if any(n is None for n in names) else list(chain.from_iterable(n for n in names if n is not None))


def shard_paths(folder: Path) -> list[Path]:
    """The feature files of a folder, sorted by name, without hidden files and the sides of a .npy file."""
    files = sorted(p for p in folder.iterdir() if p.suffix in SUFFIXES and not p.name.startswith("."))
    sides = {p.with_suffix(f".{side}.npy") for p in files if p.suffix == ".npy" for side in SIDES}
    shards = [p for p in files if p not in sides]
    if not shards:
        raise FormatError(f"{folder}: the folder holds no feature files ({', '.join(sorted(SUFFIXES))})")
    return shards
