import numpy as np
import pytest
from scipy.sparse import csr_array

import isch
from isch import features
from isch.compute.passes import refuse_unfinite
from isch.errors import InputError
from isch.features import checks as module
from isch.features import finite

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_found_in_every_type(dtype: type, bad: float) -> None:
    block = RNG.standard_normal((50, 7)).astype(dtype)
    assert finite(block)
    block[49, 6] = bad
    assert not finite(block)
    with pytest.raises(InputError, match="1 value is NaN or infinity, the first in row 49"):
        refuse_unfinite(features.open(block))


@pytest.mark.parametrize("value", [3.5e38, -1e39, 1e200, -1.7e308])
def test_double_precision_beyond_single_is_refused(value: float) -> None:
    block = RNG.standard_normal((50, 7))
    block[31, 2] = value
    assert not finite(block)
    assert not finite(csr_array(block))
    with pytest.raises(InputError, match=r"exceed the range of single precision \(3.4e38\), the first in row 31"):
        refuse_unfinite(features.open(block))


@pytest.mark.parametrize("value", [3.4e38, -1e30, 1e-300])
def test_large_numbers_that_fit_are_not(value: float) -> None:
    block = RNG.standard_normal((50, 7))
    block[31, 2] = value
    assert finite(block)
    refuse_unfinite(features.open(block))


def test_fit_and_transform_refuse_the_same() -> None:
    X = RNG.standard_normal((200, 8))
    hasher = isch.hasher("itq", n_bits=4, random_state=0).fit(X)
    X[3, 3] = 1e39
    for call in (hasher.transform, hasher.project, isch.hasher("itq", n_bits=4).fit):
        with pytest.raises(InputError, match="exceed the range of single precision"):
            call(X)


@pytest.mark.parametrize(
    ("shape", "message"),
    [((3, 2**40), "at most 134,217,728 columns"), ((0, 3), "at least one row"), ((float("nan"), 3), "known number")],
)
def test_matrices_that_are_none(shape: tuple[int, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        module.check_matrix(shape, np.dtype(np.float32), "x")


def test_what_must_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    module.check_memory(1 << 20, "x")
    with pytest.raises(
        InputError, match=r"x: 1,048,576.0 GiB must be in memory at once; expected at most the [\d.]+ GiB"
    ):
        module.check_memory(1 << 50, "x")
    monkeypatch.delattr("os.sysconf")
    module.check_memory(1 << 50, "x")  # a system that does not say refuses the allocation itself
