from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

import isch
from isch import codes
from isch.errors import ParameterError
from isch.hashing import METHODS, nested

DIGITS = load_digits()
X = DIGITS.data.astype(np.float32)


def coordinates(n: int = 2000, r: int = 300, seed: int = 0) -> NDArray[np.float32]:
    """Coordinates that vary less and less, most of them hardly."""
    Z = np.random.default_rng(seed).standard_normal((n, r)) * np.arange(1, r + 1) ** -0.7
    return (Z - Z.mean(axis=0)).astype(np.float32)


@pytest.mark.parametrize(
    ("n_bits", "expected"),
    [
        (1, [1]),
        (63, [63]),
        (64, [64]),
        (65, [64, 65]),
        (128, [64, 128]),
        (320, [64, 128, 256, 320]),
        (512, [64, 128, 256, 512]),
    ],
)
def test_levels_double_and_end_with_the_whole(n_bits: int, expected: list[int]) -> None:
    assert nested.levels(n_bits) == expected


def isotropy(Z: NDArray[np.float32], R: NDArray[np.float64]) -> float:
    """How much the weights of coordinates in the distance between codes are like a multiple of I; 1: just that."""
    M = (R / np.square(Z @ R).mean(axis=0)) @ R.T
    return float(np.trace(M) ** 2 / (len(M) * np.square(M).sum()))


@pytest.mark.parametrize(("n_bits", "r"), [(128, 128), (128, 100), (96, 96)])
def test_the_mix_makes_weights_more_even_than_others_do(n_bits: int, r: int, monkeypatch: pytest.MonkeyPatch) -> None:
    Z, found = coordinates(r=r), {}
    chosen = nested.mix
    for name, turn in {"chosen": 0, "none": -2, "less": -0.25, "more": 0.25}.items():

        def turned(*variances: Any, turn: float = turn) -> tuple[float, float]:
            c, s = chosen(*variances)
            angle = np.clip(np.arctan2(c, s) + (turn if 0 < c < 1 else 0), 0, np.pi / 2)
            return float(np.sin(angle)), float(np.cos(angle))

        monkeypatch.setattr(nested, "mix", turned)
        found[name] = isotropy(Z, nested.learn(Z, 3, np.random.default_rng(0), n_bits).matrix)
    assert found["chosen"] > found["none"]
    assert found["chosen"] == pytest.approx(max(found.values()), rel=0.02)


def test_parts_of_a_level_are_orthonormal_and_scaled_by_the_mix() -> None:
    Z = coordinates()
    R = nested.learn(Z, 3, np.random.default_rng(0), 128).matrix
    variances = np.square(Z.astype(np.float64)).mean(axis=0)
    c, s = nested.mix(variances[:64], variances[64:128], 64, 64)
    assert 0 < c < s
    np.testing.assert_allclose(R[:64, :64].T @ R[:64, :64], np.eye(64), atol=1e-9)
    np.testing.assert_allclose(R[:64, 64:].T @ R[:64, 64:], c**2 * np.eye(64), atol=1e-9)
    np.testing.assert_allclose(R[64:128, 64:].T @ R[64:128, 64:], s**2 * np.eye(64), atol=1e-9)
    assert not R[64:, :64].any()
    assert not R[128:].any()


def test_the_mix_needs_no_old_part_where_new_coordinates_vary_as_much() -> None:
    even = np.ones(64)
    assert nested.mix(even, even, 64, 64) == pytest.approx((0.0, 1.0))
    assert nested.mix(even[:0], even, 0, 64) == (0.0, 1.0)
    assert nested.mix(even, even[:0], 64, 64) == (1.0, 0.0)
    c, s = nested.mix(even, 0 * even, 64, 64)
    assert 0 < c < s < 1
    assert c**2 + s**2 == pytest.approx(1)
    weaker = [nested.mix(even, share * even, 64, 64)[0] for share in (0.8, 0.4, 0.2, 0.1, 0.05)]
    assert weaker == sorted(weaker)


def test_learning_a_level_never_loses() -> None:
    Z = coordinates(r=128)
    gains = []
    for n_iter in (1, 2, 4, 8):
        R = nested.learn(Z, n_iter, np.random.default_rng(0), 128).matrix[:, 64:]
        gains.append(float(np.abs(Z @ R).sum()))
    assert gains == sorted(gains)


@pytest.mark.parametrize("name", ["isch", "itq"])
def test_a_prefix_is_a_hasher_whose_codes_are_the_first_bytes(name: str, tmp_path: Path) -> None:
    whole = isch.hasher(name, n_bits=160, nested=True, n_iter=5).fit(X)
    short = whole.prefix(64)
    np.testing.assert_array_equal(short.transform(X), whole.transform(X)[:, :8])
    np.testing.assert_array_equal(codes.unpack(whole.prefix(13).transform(X), 13), codes.unpack(whole.transform(X), 13))
    short.save(tmp_path / "m")
    again = isch.load(tmp_path / "m")
    assert again.get_params() == whole.get_params() | {"n_bits": 64}
    np.testing.assert_array_equal(again.transform(X), short.transform(X))
    assert whole.n_bits == 160
    np.testing.assert_array_equal(whole.prefix(160).transform(X), whole.transform(X))


@pytest.mark.parametrize("name", ["lsh", "pcah"])
def test_methods_without_a_rotation_are_nested_by_nature(name: str) -> None:
    whole = isch.hasher(name, n_bits=48).fit(X)
    np.testing.assert_array_equal(whole.prefix(16).transform(X), whole.transform(X)[:, :2])


def test_a_compressed_model_has_prefixes(tmp_path: Path) -> None:
    small = isch.ITQ(128, nested=True, n_iter=5).fit(X).compressed(4)
    small.prefix(64).save(tmp_path / "m")
    np.testing.assert_array_equal(isch.load(tmp_path / "m").transform(X), small.transform(X)[:, :8])


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"lsh", "pcah"}))
def test_other_models_have_no_prefix(name: str) -> None:
    with pytest.raises(ParameterError, match="nested=True"):
        isch.hasher(name, n_bits=16).prefix(8)


@pytest.mark.parametrize("n_bits", [0, -1, 33, 8.0, True, "8", None])
def test_a_length_that_cannot_be_is_refused(n_bits: Any) -> None:
    with pytest.raises(ParameterError, match="from 1 to 32"):
        isch.LSH(32).fit(X).prefix(n_bits)


def test_what_cannot_be_combined_is_refused() -> None:
    with pytest.raises(NotFittedError):
        isch.ITQ(64, nested=True).prefix(8)
    with pytest.raises(ParameterError, match="without blocks"):
        isch.ISCH(64, nested=True, block_size=32).fit(X)


def precision(hashed: NDArray[np.uint8]) -> float:
    near = isch.nearest(hashed[:300], hashed, 51)[1][:, 1:]
    return float((DIGITS.target[near] == DIGITS.target[:300, None]).mean())


@pytest.mark.parametrize("name", ["isch", "itq"])
def test_every_level_is_nearly_as_good_as_codes_of_that_length(name: str) -> None:
    whole = isch.hasher(name, n_bits=256, nested=True).fit(X).transform(X)
    for n_bits in (64, 128, 256):
        alone = isch.hasher(name, n_bits=n_bits).fit(X).transform(X)
        assert precision(np.ascontiguousarray(whole[:, : n_bits // 8])) > precision(alone) - 0.02
