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
from isch.hashing import METHODS, nested, rotation

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


@pytest.mark.parametrize(("r", "n_bits"), [(160, 160), (100, 160), (128, 256), (65, 300), (40, 128), (40, 64)])
def test_with_equal_turns_all_levels_of_new_coordinates_are_one_rotation(
    r: int, n_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nested, "turn", lambda *_: nested.Turn(0.3, 0.3))
    Z = coordinates(r=r)
    found = nested.learn(Z, 4, np.random.default_rng(0), n_bits)
    assert found.matrix.shape == (r, n_bits)
    begin = 0
    for end in (end for end in nested.levels(n_bits) if end >= r):
        R = found.matrix[:, begin:end]
        np.testing.assert_allclose(R @ R.T if R.shape[1] >= r else R.T @ R, np.eye(min(R.shape)), atol=1e-9)
        begin = end


def test_the_turn_leaves_little_noise_in_old_bits_and_more_where_new_coordinates_vary_less() -> None:
    even = np.ones(64)
    assert nested.turn(even, even) == pytest.approx((0.02 / 1.02, 0.04 / 1.02))
    assert nested.turn(even, 0 * even) == (0.5, 0.5)
    assert nested.turn(0 * even, even) == nested.turn(0 * even, 0 * even) == (0, 0)
    weaker = [nested.turn(even, share * even).old for share in (0.8, 0.4, 0.2, 0.1, 0.05)]
    assert weaker == sorted(weaker)
    Z = coordinates(r=128)
    R = nested.learn(Z, 5, np.random.default_rng(0), 128).matrix[:, :64]
    parts = np.square(R) * np.square(Z).mean(axis=0)[:, None]
    assert 0 < parts[64:].sum() <= 0.021 * parts.sum()


def test_bits_of_all_levels_vary_more_alike_than_those_of_a_rotation_each() -> None:
    Z = coordinates(r=256)
    R = nested.learn(Z, 5, np.random.default_rng(0), 256).matrix
    parts = slice(64), slice(64, 128), slice(128, 256)
    turned, alone = ([np.square(values[:, part]).mean() for part in parts] for values in (Z @ R, Z))
    assert max(turned) / min(turned) < max(alone) / min(alone) / 3


def test_learning_never_loses_and_tells_the_error() -> None:
    Z = coordinates(r=100)
    R = rotation.learn(np.ascontiguousarray(Z[:, :64]), 3, np.random.default_rng(0)).matrix
    level = nested.Level(R, 36, 64, nested.Turn(0.2, 0.4), np.random.default_rng(0))
    values = Z @ level.matrix()
    errors = level.learn(Z, 12)
    assert errors[0] == pytest.approx(np.square(np.where(values >= 0, 1, -1) - values).mean(), rel=1e-4)
    assert np.abs(Z @ level.matrix()).sum() > np.abs(values).sum()
    gains = [nested.Level(R, 36, 64, nested.Turn(0.2, 0.4), np.random.default_rng(0)) for _ in range(4)]
    sums = []
    for rounds, begun in zip((1, 2, 4, 8), gains, strict=True):
        begun.learn(Z, rounds)
        sums.append(float(np.abs(Z @ begun.matrix()).sum()))
    assert sums == sorted(sums)


@pytest.mark.parametrize("name", ["diffusion", "itq"])
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
        isch.DiffusionHash(64, nested=True, block_size=32).fit(X)


def precision(hashed: NDArray[np.uint8]) -> float:
    near = isch.nearest(hashed[:300], hashed, 51)[1][:, 1:]
    return float((DIGITS.target[near] == DIGITS.target[:300, None]).mean())


@pytest.mark.parametrize("name", ["diffusion", "itq"])
def test_every_level_is_nearly_as_good_as_codes_of_that_length(name: str) -> None:
    whole = isch.hasher(name, n_bits=256, nested=True).fit(X).transform(X)
    for n_bits in (64, 128, 256):
        alone = isch.hasher(name, n_bits=n_bits).fit(X).transform(X)
        assert precision(np.ascontiguousarray(whole[:, : n_bits // 8])) > precision(alone) - 0.02
