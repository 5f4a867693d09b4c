from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isch import rounded
from isch.errors import InputError, ParameterError
from isch.rounded import Rounded


def weights(bits: int, rows: int = 5, columns: int = 3, seed: int = 0) -> Rounded:
    rng = np.random.default_rng(seed)
    integers = rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (rows, columns), np.int8)
    return Rounded(integers, rng.uniform(1e-6, 1e3, columns).astype(np.float32), bits)


@given(st.integers(2, 8), st.integers(1, 40), st.integers(1, 40), st.integers(0, 99))
def test_packing_keeps_every_integer_in_few_bytes(bits: int, rows: int, columns: int, seed: int) -> None:
    before = weights(bits, rows, columns, seed)
    packed = before.packed()
    assert packed.nbytes == -(-rows * columns * bits // 8)
    after = Rounded.unpacked(packed, before.scales, (rows, columns), bits)
    np.testing.assert_array_equal(after.integers, before.integers)
    np.testing.assert_array_equal(Rounded.of(after.values(), after.scales, bits).integers, before.integers)


def test_parts_that_are_packed_separately_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = weights(3, 50, 7).packed()
    monkeypatch.setattr(rounded, "AT_ONCE", 16)
    np.testing.assert_array_equal(weights(3, 50, 7).packed(), whole)
    back = Rounded.unpacked(whole, weights(3, 50, 7).scales, (50, 7), 3)
    np.testing.assert_array_equal(back.integers, weights(3, 50, 7).integers)


def test_the_first_integer_comes_first_with_its_sign() -> None:
    one = Rounded(np.array([[-8, 7], [1, 0]], np.int8), np.ones(2, np.float32), 4)
    assert one.packed().tolist() == [0b1000_0111, 0b0001_0000]


@pytest.mark.parametrize("bits", [0, 1, 9, -4, 4.0, True, "4", None])
def test_bits_outside_2_to_8_are_refused(bits: Any) -> None:
    with pytest.raises(ParameterError, match="from 2 to 8"):
        rounded.check_bits(bits)


@pytest.mark.parametrize(
    ("packed", "scales"),
    [
        (np.zeros(7, np.uint8), np.ones(3, np.float32)),
        (np.zeros(9, np.uint8), np.ones(3, np.float32)),
        (np.zeros((8, 1), np.uint8), np.ones(3, np.float32)),
        (np.zeros(8, np.int8), np.ones(3, np.float32)),
        (np.zeros(8, np.uint8), np.ones(2, np.float32)),
        (np.zeros(8, np.uint8), np.ones(3)),
        (np.zeros(8, np.uint8), np.array([1, 0, 1], np.float32)),
        (np.zeros(8, np.uint8), np.array([1, np.nan, 1], np.float32)),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(packed: Any, scales: Any) -> None:
    with pytest.raises(InputError, match="must be"):
        Rounded.unpacked(packed, scales, (5, 3), 4)
