"""The shape of the tables of multi-index hashing: how many parts of how many bits a code has, and what it costs.

Two codes within r = s·a + b bits are within a bits in one of the first b + 1 of s parts, or within a − 1 bits in one of
the others (Norouzi, Punjani, Fleet 2012). More parts take more memory, wider ones more lookups.
"""

from functools import lru_cache
from math import comb
from typing import NamedTuple

from isch.scan.costs import CANDIDATE_COST, PROBE_COST

WIDEST = 26  # bits of a part


class Shape(NamedTuple):
    """How many parts of how many bits, for so many rows."""

    n_parts: int
    width: int
    n_rows: int

    @property
    def n_values(self) -> int:
        """Values that a part can have."""
        return 1 << self.width

    @property
    def n_bytes(self) -> int:
        """Memory of the tables."""
        return 4 * self.n_parts * (self.n_rows + self.n_values + 1)

    def reach(self, radius: int) -> list[int]:
        """How many bits a lookup changes in each part; −1: the part is not looked up."""
        each, rest = divmod(radius, self.n_parts)
        return [each - (part > rest) for part in range(self.n_parts)]

    def n_probes(self, radius: int) -> int:
        """Lookups per query."""
        each, rest = divmod(radius, self.n_parts)
        fewer = sum(comb(self.width, bits) for bits in range(each))
        return self.n_parts * fewer + (rest + 1) * comb(self.width, each)

    def cost(self, radius: int) -> float:
        """Nanoseconds per query, if all values are equally frequent."""
        return self.n_probes(radius) * (PROBE_COST + CANDIDATE_COST * self.n_rows / self.n_values)


@lru_cache(256)
def best(n_rows: int, n_bits: int, radius: int, most_bytes: float) -> Shape:
    """The shape that costs least at a radius, within a limit of memory, if any is."""
    widths = range(1, min(WIDEST, n_bits) + 1)
    shapes = [Shape(s, w, n_rows) for w in widths for s in range(1, min(n_bits // w, 2 * radius + 1) + 1)]
    fitting = [shape for shape in shapes if shape.n_bytes <= most_bytes] or [Shape(1, 1, n_rows)]
    return min(fitting, key=lambda shape: (shape.cost(radius), shape.n_bytes))
