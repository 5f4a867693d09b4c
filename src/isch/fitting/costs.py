"""What work costs, known before it begins: stages with their flops and bytes."""

from dataclasses import dataclass
from typing import Any, NamedTuple

SVD_FLOPS = 21  # times m³, by convention; speeds are measured by the same convention
EIGH_FLOPS = 9  # times m³


class Size(NamedTuple):
    """How large features are."""

    rows: int  # n
    columns: int  # d
    item: int  # b, the bytes of a value

    @classmethod
    def of(cls, features: Any) -> "Size":
        """The size of features, or of what stands for them in a dry run; sparse ones count as if they were dense."""
        rows, columns = features.shape
        return cls(rows, columns, features.dtype.itemsize)

    def bytes(self, rows: int | None = None) -> int:
        """Of some rows, or of all."""
        return (self.rows if rows is None else rows) * self.columns * self.item


@dataclass(frozen=True)
class Stage:
    """Work under one label of progress."""

    label: str = ""
    products: float = 0.0  # flops of matrix products in single precision; double precision counts twice
    solving: float = 0.0  # flops of decompositions
    read: float = 0.0  # bytes of features, in one pass
    array: float = 0.0  # bytes of an array that lies in a file where memory is short
    memory: float = 0.0  # bytes that must be in memory meanwhile, besides the blocks of a pass
    kept: float = 0.0  # bytes that a checkpoint keeps of it
    moved: float = 0.0  # bytes of rows that are compared, gathered and added up, where that takes time


class Speeds(NamedTuple):
    """How fast work is done, per second."""

    products: float = 1e11
    solving: float = 5e9
    read: float = 1e9
    passes: float = 1.0  # how many times faster passes over features are than the same products here
    moved: float = 5e9

    def seconds(self, stage: Stage) -> float:
        """About how long a stage takes."""
        sharing = self.passes if stage.read else 1.0
        multiplying = stage.products / self.products / sharing + stage.solving / self.solving
        return multiplying + stage.read / self.read + stage.moved / self.moved


NOMINAL = Speeds()
