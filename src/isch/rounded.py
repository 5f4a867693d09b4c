"""Weights rounded to a few bits each, as model files keep them: whole numbers, packed, and one scale per column.

A weight is integer × scale of its column; integers of b bits run from −2^(b−1) to 2^(b−1) − 1. They are packed row by
row, the first bit of each the most significant, as codes are.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isch.errors import InputError, ParameterError

LEAST, MOST = 2, 8  # bits per weight
AT_ONCE = 1 << 20  # weights packed together; a multiple of 8, so that every part ends with a byte


@dataclass(frozen=True)
class Rounded:
    """A matrix (d, m) of rounded weights."""

    integers: NDArray[np.int8]  # (d, m)
    scales: NDArray[np.float32]  # (m,)
    bits: int

    @classmethod
    def of(cls, weights: NDArray[np.float32], scales: NDArray[np.float32], bits: int) -> "Rounded":
        """Weights that are whole multiples of their column's scale already."""
        return cls(np.rint(weights / scales).astype(np.int8), scales, bits)

    @classmethod
    def unpacked(
        cls, packed: NDArray[np.uint8], scales: NDArray[np.float32], shape: tuple[int, int], bits: int
    ) -> "Rounded":
        """What ``packed`` was made from; refused if the parts do not fit together."""
        check_bits(bits)
        n = shape[0] * shape[1]
        if packed.dtype != np.uint8 or packed.shape != (-(-n * bits // 8),):
            raise InputError(
                f"{shape[0]} × {shape[1]} weights of {bits} bits must be {-(-n * bits // 8)} bytes; "
                f"got {packed.dtype} of shape {packed.shape}"
            )
        if scales.dtype != np.float32 or scales.shape != (shape[1],) or not (scales > 0).all():
            raise InputError(f"the scales of {shape[1]} columns must be as many positive numbers of type float32")
        integers = np.empty(n, np.int8)
        for span in _spans(n):
            part = np.unpackbits(packed[span.start * bits // 8 : -(-span.stop * bits // 8)], count=len(span) * bits)
            wide = np.zeros((len(span), 8), np.uint8)
            wide[:, :bits] = part.reshape(-1, bits)  # the sign bit first, so that the shift below carries it along
            integers[span.start : span.stop] = np.packbits(wide, axis=1)[:, 0].view(np.int8) >> (8 - bits)
        return cls(integers.reshape(shape), scales, bits)

    def packed(self) -> NDArray[np.uint8]:
        """The integers, ``bits`` bits each."""
        flat = np.ascontiguousarray(self.integers).ravel().view(np.uint8)
        parts = [
            np.packbits(np.unpackbits(flat[span.start : span.stop, None], axis=1)[:, 8 - self.bits :])
            for span in _spans(len(flat))
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.uint8)

    def values(self) -> NDArray[np.float32]:
        """The weights."""
        return self.integers.astype(np.float32) * self.scales


def check_bits(bits: object) -> None:
    """Refuse a number of bits that no weight can have."""
    if not isinstance(bits, int) or isinstance(bits, bool) or not LEAST <= bits <= MOST:
        raise ParameterError(f"bits must be a whole number from {LEAST} to {MOST} (bits per weight); got {bits!r:.40}")


def _spans(n: int) -> Iterator[range]:
    return (range(start, min(start + AT_ONCE, n)) for start in range(0, n, AT_ONCE))
