from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

import isch
from isch import codes, models
from isch.encoder import Encoder
from isch.errors import FormatError, InputError, ParameterError
from isch.hashing import METHODS
from isch.hashing.base import LinearHasher
from isch.rounded import Rounded

X = load_digits().data.astype(np.float32)
LINEAR = sorted(name for name in METHODS if issubclass(METHODS[name], LinearHasher))
QUICK: dict[str, dict[str, Any]] = {
    "kmh": {"n_iter": 5},
    "isch": {"n_iter": 10},
    "diffusion": {"n_iter": 10},
    "distance": {"n_iter": 10},
}


def fitted(name: str, n_bits: int = 32) -> isch.hashing.base.Hasher:
    return isch.hasher(name, n_bits=n_bits, **QUICK.get(name, {})).fit(X)


def differing(a: Any, b: Any, n_bits: int) -> float:
    return float((codes.unpack(a, n_bits) != codes.unpack(b, n_bits)).mean())


@pytest.mark.parametrize("name", LINEAR)
def test_codes_stay_but_for_few_bits_and_survive_the_file(name: str, tmp_path: Path) -> None:
    hasher = fitted(name)
    before = hasher.transform(X)
    shares = []
    for bits in (2, 4, 8):
        small = hasher.compressed(bits, X)
        shares.append(differing(small.transform(X), before, 32))
        small.save(tmp_path / "small")
        loaded = isch.load(tmp_path / "small")
        np.testing.assert_array_equal(loaded.transform(X), small.transform(X))
        loaded.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "small").read_bytes()
    assert shares[0] > shares[1] > shares[2]
    assert shares[1] < (0.1 if name == "sklsh" else 0.05)  # SKLSH reads several periods of a wave off each value
    np.testing.assert_array_equal(hasher.transform(X), before)


@pytest.mark.parametrize("name", ["isch", "diffusion", "distance", "itq", "lsh", "pcah", "pcarr"])
def test_data_make_rounding_better(name: str) -> None:
    hasher = fitted(name)
    before = hasher.transform(X)
    told, untold = hasher.compressed(3, X), hasher.compressed(3)
    assert differing(told.transform(X), before, 32) <= differing(untold.transform(X), before, 32)


@pytest.mark.parametrize(("bits", "share"), [(4, 1 / 8), (8, 1 / 4)])
def test_the_file_is_that_much_smaller(bits: int, share: float, tmp_path: Path) -> None:
    wide = np.random.default_rng(0).standard_normal((600, 1000)).astype(np.float32)
    hasher = isch.LSH(256).fit(wide)
    hasher.save(tmp_path / "large")
    hasher.compressed(bits).save(tmp_path / "small")
    assert (tmp_path / "small").stat().st_size < (share + 0.01) * (tmp_path / "large").stat().st_size


def test_more_features_than_a_covariance_is_made_for() -> None:
    wide = np.random.default_rng(0).standard_normal((40, 5000)).astype(np.float32)
    hasher = isch.LSH(16).fit(wide)
    assert differing(hasher.compressed(4, wide).transform(wide), hasher.transform(wide), 16) < 0.1


def test_a_new_fit_forgets_the_rounding(tmp_path: Path) -> None:
    small = fitted("lsh").compressed(2)
    again = small.fit(X)
    np.testing.assert_array_equal(again.transform(X), fitted("lsh").transform(X))
    again.save(tmp_path / "m")
    assert models.read(tmp_path / "m").version == 2


def test_rounding_again_rounds_what_is_there() -> None:
    twice = fitted("itq").compressed(8).compressed(4)
    assert len(np.unique(np.rint(twice.projection_[:, 0] / twice.scales_[0]))) <= 16


def test_an_encoder_is_compressed_with_its_hasher(tmp_path: Path) -> None:
    encoder = Encoder(fitted("isch"))
    encoder.compressed(4, X).save(tmp_path / "m")
    np.testing.assert_array_equal(Encoder.load(tmp_path / "m").codes(X), fitted("isch").compressed(4, X).transform(X))


@pytest.mark.parametrize("name", sorted(set(METHODS) - set(LINEAR)))
def test_a_method_without_a_matrix_says_so(name: str) -> None:
    with pytest.raises(ParameterError, match="has no matrix of weights"):
        isch.hasher(name, n_bits=8).compressed()


def test_what_cannot_be_used_is_refused() -> None:
    with pytest.raises(ParameterError, match="from 2 to 8"):
        fitted("lsh").compressed(1)
    with pytest.raises(NotFittedError):
        isch.LSH(8).compressed()
    with pytest.raises(InputError, match="expecting 64 features"):
        fitted("lsh").compressed(4, X[:, :5])
    with pytest.raises(InputError, match="NaN"):
        fitted("lsh").compressed(4, np.full((5, 64), np.nan))


def test_rows_that_do_not_vary_count_as_no_data() -> None:
    hasher = fitted("lsh")
    for rows in (X[:1], np.repeat(X[:1], 5, axis=0), X * np.float32(1e-30)):
        np.testing.assert_array_equal(hasher.compressed(4, rows).projection_, hasher.compressed(4).projection_)


def test_rows_too_large_to_square_are_refused() -> None:
    with pytest.raises(InputError, match="range of single precision"):
        fitted("lsh").compressed(4, X * np.float32(1e30))


def crafted(path: Path, learned: dict[str, Any]) -> None:
    part = fitted("lsh").compressed(4)._part()
    models.write(path, [part._replace(learned={**part.learned, **learned})])


@pytest.mark.parametrize(
    "learned",
    [
        {"projection_": Rounded(np.zeros((64, 31), np.int8), np.ones(31, np.float32), 4)},
        {"projection_": Rounded(np.zeros((63, 32), np.int8), np.ones(32, np.float32), 4)},
        {"projection_": Rounded(np.zeros((64, 32), np.int8), np.zeros(32, np.float32), 4)},
        {"projection_": Rounded(np.ones((64, 32), np.int8), np.full(32, np.inf, np.float32), 4)},
        {"mean_": Rounded(np.zeros((64, 1), np.int8), np.ones(1, np.float32), 4)},
        {"scales_": np.ones(32, np.float32)},
        {"weight_bits_": 4},
        {"mean_": np.zeros(64, np.int32)},
    ],
)
def test_a_crafted_file_is_refused(learned: dict[str, Any], tmp_path: Path) -> None:
    crafted(tmp_path / "m", learned)
    with pytest.raises(FormatError, match="damaged"):
        isch.load(tmp_path / "m")


@pytest.mark.parametrize("entry", [{"shape": [64, 32], "bits": 9}, {"shape": [64], "bits": 4}, {"shape": [64, "x"]}, 5])
def test_a_header_that_does_not_describe_the_weights_is_refused(entry: Any, tmp_path: Path) -> None:
    part = fitted("lsh").compressed(4)._part()
    arrays: models.Arrays = {}
    described = models._take_apart(part, "0/", arrays)
    described["learned"]["projection_"] = entry
    header = {"version": 3, "parts": [described]}
    from safetensors.numpy import save_file

    metadata = {"isch": models._canonical(header | {"checksum": models._checksum(arrays, header)})}
    save_file(arrays, tmp_path / "m", metadata)
    with pytest.raises(FormatError, match="damaged"):
        isch.load(tmp_path / "m")
