"""What a code is; the only place that knows.

Bit i of an m-bit code is bit 7 − i%8 of byte i//8 (``numpy.packbits`` order); m is any positive integer.
Padding bits are zero in every code. An array of codes is uint8 (n, ceil(m/8)), C-contiguous.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isch.errors import InputError

Codes = NDArray[np.uint8]


def width(n_bits: int) -> int:
    """Bytes in one code of ``n_bits`` bits."""
    return -(-n_bits // 8)


def pack(bits: NDArray[np.bool_]) -> Codes:
    """(n, m) booleans → (n, ceil(m/8)) bytes."""
    return np.packbits(bits, axis=1)


def unpack(codes: Codes, n_bits: int) -> NDArray[np.bool_]:
    """(n, ceil(m/8)) bytes → (n, m) booleans."""
    return np.unpackbits(codes, axis=1, count=n_bits).view(np.bool_)


def signs(codes: Codes, n_bits: int) -> NDArray[np.float32]:
    """(n, ceil(m/8)) bytes → (n, m) values +1 (bit set) or −1."""
    return unpack(codes, n_bits).astype(np.float32) * 2 - 1


def check(codes: ArrayLike, n_bytes: int | None = None, name: str = "codes") -> Codes:
    """Codes as a C-contiguous uint8 matrix; a single code becomes one row. Refuses any other dtype or width."""
    array = np.asarray(codes)
    if array.dtype != np.uint8:
        raise InputError(f"{name} must be packed bytes (dtype uint8); got dtype {array.dtype}")
    if array.ndim == 1:
        array = array[None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"{name} must be a matrix (n, bytes) with at least one byte per code; got shape {array.shape}")
    if n_bytes is not None and array.shape[1] != n_bytes:
        raise InputError(f"{name} must be {n_bytes} bytes wide; got {array.shape[1]} bytes")
    return np.ascontiguousarray(array)
