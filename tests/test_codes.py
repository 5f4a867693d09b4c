import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isch import codes
from isch.errors import InputError


@given(st.integers(1, 40), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_unpack_undoes_pack(n_bits: int, rows: int, seed: int) -> None:
    bits = np.random.default_rng(seed).integers(0, 2, (rows, n_bits)).astype(np.bool_)
    packed = codes.pack(bits)
    assert packed.shape == (rows, codes.width(n_bits))
    np.testing.assert_array_equal(codes.unpack(packed, n_bits), bits)
    np.testing.assert_array_equal(codes.signs(packed, n_bits) > 0, bits)


def test_bit_i_is_bit_7_minus_i_mod_8_of_byte_i_div_8_and_padding_is_zero() -> None:
    for i in range(11):
        bits = np.zeros((1, 11), np.bool_)
        bits[0, i] = True
        packed = codes.pack(bits)
        expected = np.zeros((1, 2), np.uint8)
        expected[0, i // 8] = 1 << (7 - i % 8)
        np.testing.assert_array_equal(packed, expected)


def test_check_takes_one_code_and_any_memory_order() -> None:
    assert codes.check(np.zeros(4, np.uint8)).shape == (1, 4)
    assert codes.check(np.zeros((6, 4), np.uint8).T).flags.c_contiguous


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 4)), "uint8.*float64"),
        (np.zeros((2, 0), np.uint8), "at least one byte"),
        (np.zeros((2, 2, 2), np.uint8), "matrix"),
        (np.zeros((2, 5), np.uint8), "4 bytes wide; got 5"),
    ],
)
def test_check_refuses(array: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        codes.check(array, n_bytes=4)
