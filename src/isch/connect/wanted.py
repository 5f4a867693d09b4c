"""What a user may say about codes that others made: which columns to read, how long the codes are, their bit order."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from isch.codes import Codes, width
from isch.connect.base import Source
from isch.connect.mark import Mark
from isch.errors import FormatError, InputError
from isch.search.reading import Batch

_REVERSED = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1), axis=1, bitorder="little")


@dataclass(frozen=True)
class Wanted:
    """How codes are to be read.

    Parameters
    ----------
    n_bits : int, optional
        Bits per code; by default what the source says, else all bits of its bytes.
    code, key : str, optional
        The names of the columns with the codes and the keys; by default those that can be meant.
    """

    n_bits: int | None = None
    code: str | None = None
    key: str | None = None

    def length(self, n_bytes: int, where: str) -> int:
        """Bits per code of codes of some bytes."""
        n_bits = 8 * n_bytes if self.n_bits is None else self.n_bits
        if n_bytes == 0 or width(n_bits) != n_bytes:
            raise InputError(f"{where}: its codes have {n_bytes} bytes; codes of {n_bits} bits have {width(n_bits)}")
        return n_bits

    def mark(self, text: str | None, n_bytes: int, where: str) -> Mark:
        """The mark that a source carries as text, or one of the length alone."""
        if text is None:
            return Mark(self.length(n_bytes, where))
        mark = Mark.parse(text, where)
        if width(mark.n_bits) != n_bytes:
            raise FormatError(f"{where}: says that its codes have {mark.n_bits} bits; they have {n_bytes} bytes")
        if self.n_bits is not None:
            mark.check(Mark(self.n_bits), where)
        return mark


class Reversed(Source):
    """A source whose bytes hold their bits in the other order, the lowest first."""

    def __init__(self, source: Source) -> None:
        self.where, self.mark, self._source = source.where, source.mark, source

    def __len__(self) -> int:
        return len(self._source)

    def batches(self) -> Iterator[Batch]:
        """All items with the bits of each byte turned round."""
        return (batch._replace(codes=_turned(batch.codes)) for batch in self._source.batches())


def _turned(codes: Codes) -> Codes:
    return np.ascontiguousarray(_REVERSED[:, 0][codes])
