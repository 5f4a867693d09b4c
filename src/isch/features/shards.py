"""A folder of feature files, read as one matrix in the order of their names."""

from bisect import bisect_right
from pathlib import Path

import numpy as np

from isch.errors import FormatError, InputError
from isch.features.base import Block, Features, stack


class ShardedFeatures(Features):
    """Several feature matrices one below the other."""

    def __init__(self, shards: list[Features], where: str) -> None:
        widths = {s.shape[1] for s in shards}
        if len(widths) > 1:
            odd = next(s for s in shards if s.shape[1] != shards[0].shape[1])
            raise InputError(f"{odd.where}: {odd.shape[1]} columns; {shards[0].where} has {shards[0].shape[1]}")
        self._shards = shards
        self._borders = [0, *np.cumsum([len(s) for s in shards]).tolist()]
        self.shape = (self._borders[-1], shards[0].shape[1])
        self.dtype = np.result_type(*(s.dtype for s in shards))
        self.where = where
        if all(s.names is not None for s in shards):
            self.names = [name for s in shards for name in s.names or ()]

    def read(self, start: int, stop: int) -> Block:
        first = min(bisect_right(self._borders, start), len(self._shards)) - 1
        parts: list[Block] = []
        for shard, offset in zip(self._shards[first:], self._borders[first:], strict=False):
            if offset >= stop and parts:
                break
            parts.append(shard.read(max(0, start - offset), min(len(shard), stop - offset)))
        return parts[0] if len(parts) == 1 else stack(parts)


def open_folder(path: Path, openers: dict[str, object]) -> list[Path]:
    """The feature files of a folder, sorted by name."""
    files = sorted(p for p in path.iterdir() if p.suffix in openers and not p.name.startswith("."))
    if not files:
        raise FormatError(f"{path}: the folder holds no feature files ({', '.join(sorted(openers))})")
    return files
