"""Every hashing method keeps the same promises."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import estimator_checks_generator

import isch
from isch import codes, distances, models, progress
from isch.errors import FormatError, InputError, ParameterError
from isch.features.arrays import ArrayFeatures
from isch.hashing import METHODS
from isch.hashing import hasher as hasher_named
from isch.hashing.base import Hasher

D = 24
LIMITED = {"pcah", "kmh", "cbe"}  # methods with m ≤ d
SEEDLESS = {"pcah", "sh", "mdsh", "kmh"}  # nothing random in them at this size
SMALL: dict[str, dict[str, Any]] = {
    **{name: {"n_iter": 10} for name in ("isch", "diffusion", "distance", "sph")},
    "kmh": {"n_iter": 5},
}


def make(name: str, n_bits: int = 13, **parameters: Any) -> Hasher:
    return hasher_named(name, n_bits=n_bits, **SMALL.get(name, {}), **parameters)


def clusters(n: int, seed: int = 0) -> NDArray[np.float32]:
    """Whole numbers from −100 to 100 or so (exact in float16) in ten correlated clusters."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 20, (10, D))
    spread = rng.normal(0, 10, (D, D)) / np.sqrt(D) * np.linspace(2, 0.5, D)
    rows = centres[rng.integers(10, size=n)] + rng.normal(size=(n, D)) @ spread
    return np.asarray(np.round(rows), np.float32)


@pytest.fixture(scope="module")
def X() -> NDArray[np.float32]:
    return clusters(600)


@pytest.fixture(params=sorted(METHODS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def assert_same_but_for_rounding(hasher: Hasher, data: Any, got: NDArray[np.uint8], want: NDArray[np.uint8]) -> None:
    """Codes may differ only where the projected value is at the threshold."""
    differ = codes.unpack(got, hasher.n_bits) != codes.unpack(want, hasher.n_bits)
    values = np.abs(hasher.project(data))
    assert values[differ].max(initial=0) <= 1e-4 * values.mean()


def test_codes_are_packed_signs_of_the_projection(name: str, X: NDArray[np.float32]) -> None:
    hasher = make(name).fit(X)
    values, packed = hasher.project(X), hasher.transform(X)
    assert packed.shape == (600, 2)
    assert packed.dtype == np.uint8
    assert values.shape == (600, 13)
    assert values.dtype == np.float32
    np.testing.assert_array_equal(packed, codes.pack(values >= 0))
    bits = codes.unpack(packed, 13)
    assert len(np.unique(bits, axis=0)) >= 2
    assert bits.mean() == pytest.approx(0.5, abs=0.25)


def test_codes_keep_neighbours(name: str, X: NDArray[np.float32]) -> None:
    from isch.scan.exact import distances as between

    hasher = make(name, 12 if name in LIMITED else 64).fit(X)
    near = between(hasher.transform(X[:100]), hasher.transform(X), hasher.distance)
    real = ((X[:100, None] - X[None]) ** 2).sum(axis=2)
    order = np.argsort(near + 1e-9 * np.arange(600), axis=1)[:, :30]
    found = np.take_along_axis(real, order, axis=1).mean()
    assert found < 0.6 * real.mean()


def test_same_seed_same_codes(name: str, X: NDArray[np.float32]) -> None:
    first, second = (make(name, random_state=3).fit(X).transform(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_other_seed_other_codes(name: str, X: NDArray[np.float32]) -> None:
    if name in SEEDLESS:
        pytest.skip("no randomness in this method")
    first, second = (make(name, random_state=seed).fit(X).transform(X) for seed in (1, 2))
    assert (first != second).any()


def test_seed_may_be_a_random_state(name: str, X: NDArray[np.float32]) -> None:
    first, second = (make(name, random_state=np.random.RandomState(5)).fit(X).transform(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_saved_and_loaded_codes_the_same_and_saves_the_same_bytes(
    name: str, X: NDArray[np.float32], tmp_path: Path
) -> None:
    hasher = make(name).fit(X)
    hasher.save(tmp_path / "a")
    loaded = isch.load(tmp_path / "a")
    loaded.save(tmp_path / "b")
    assert type(loaded) is type(hasher)
    assert loaded.get_params() == hasher.get_params()
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    np.testing.assert_array_equal(loaded.transform(X), hasher.transform(X))
    assert type(loaded.distance) is type(hasher.distance)


def test_batches_code_like_the_whole(name: str, X: NDArray[np.float32]) -> None:
    hasher, many = make(name).fit(X), clusters(2500, seed=1)
    whole = hasher.transform(many)
    np.testing.assert_array_equal(np.concatenate(list(hasher.encode(many))), whole)
    pieces = np.concatenate([hasher.transform(part) for part in np.array_split(many, [1, 8, 700, 1999])])
    assert_same_but_for_rounding(hasher, many, pieces, whole)


def test_one_row(name: str, X: NDArray[np.float32]) -> None:
    hasher = make(name).fit(X)
    assert_same_but_for_rounding(hasher, X[:1], hasher.transform(X[:1]), hasher.transform(X)[:1])


@pytest.mark.parametrize("n_bits", [1, 8, 13, 24])
def test_any_number_of_bits(name: str, X: NDArray[np.float32], n_bits: int) -> None:
    hasher = make(name, n_bits).fit(X)
    packed = hasher.transform(X)
    assert packed.shape == (600, codes.width(n_bits))
    np.testing.assert_array_equal(codes.pack(codes.unpack(packed, n_bits)), packed)


def test_more_bits_than_features(name: str, X: NDArray[np.float32]) -> None:
    hasher = make(name, D + 5)
    if name in LIMITED:
        with pytest.raises(InputError, match=rf"(?s)(\b{D}\b.*\b{D + 5}\b|\b{D + 5}\b.*\b{D}\b)"):
            hasher.fit(X)
    else:
        assert hasher.fit(X).transform(X).shape == (600, codes.width(D + 5))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int16, np.int64])
def test_any_dtype(name: str, X: NDArray[np.float32], dtype: type) -> None:
    want, got = make(name).fit(X), make(name).fit(X.astype(dtype))
    assert_same_but_for_rounding(want, X, want.transform(X.astype(dtype)), want.transform(X))
    assert np.mean(codes.unpack(got.transform(X), 13) == codes.unpack(want.transform(X), 13)) > 0.999


def test_unsigned_bytes(name: str, X: NDArray[np.float32]) -> None:
    raised = np.clip(X + 128, 0, 255)
    hasher = make(name).fit(raised)
    assert_same_but_for_rounding(hasher, raised, hasher.transform(raised.astype(np.uint8)), hasher.transform(raised))


def test_sparse_input(name: str, X: NDArray[np.float32]) -> None:
    thinned = np.where(np.abs(X) > 15, X, 0)
    want, got = make(name).fit(thinned), make(name).fit(csr_array(thinned))
    assert_same_but_for_rounding(want, thinned, want.transform(csr_array(thinned)), want.transform(thinned))
    assert np.mean(codes.unpack(got.transform(thinned), 13) == codes.unpack(want.transform(thinned), 13)) > 0.999


@pytest.mark.parametrize("names", [False, True])
def test_a_sparse_matrix_with_a_column_out_of_range_is_refused(names: bool, X: NDArray[np.float32]) -> None:
    import pandas as pd

    hasher = make("lsh").fit(pd.DataFrame(X, columns=[f"c{i}" for i in range(D)]) if names else X)
    broken = csr_array(X[:3])
    broken.indices[5] = 10**6
    with pytest.raises(InputError, match="the sparse matrix"):
        hasher.transform(broken)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_input_may_be_read_only_and_stays_as_it_was(name: str, X: NDArray[np.float32], dtype: type, order: Any) -> None:
    mine: NDArray[Any] = np.array(X, dtype, order=order)
    mine.flags.writeable = False
    hasher = make(name).fit(mine)
    hasher.transform(mine)
    hasher.project(mine)
    np.testing.assert_array_equal(mine, X)


def test_threads_do_not_matter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    many = clusters(2500, seed=2)
    results = []
    for threads in ("1", "3"):
        monkeypatch.setenv("ISCH_NUM_THREADS", threads)
        results.append(make(name).fit(many).transform(many))
    np.testing.assert_array_equal(results[0], results[1])


class Frugal(ArrayFeatures):
    """Features that refuse to be read in one piece."""

    def read(self, start: int, stop: int) -> Any:
        assert stop - start <= 1024, "read more than a block at once"
        return super().read(start, stop)

    def take(self, rows: NDArray[np.intp]) -> Any:
        assert len(rows) <= 1500, "took more than max_samples at once"
        return super().take(rows)


def test_features_are_read_in_blocks(name: str) -> None:
    many = clusters(2500, seed=3)
    limit = {"max_samples": 1500} if "max_samples" in isch.hasher(name).get_params() else {}
    hasher = make(name, **limit).fit(Frugal(many))
    want = make(name, **limit).fit(many)
    np.testing.assert_array_equal(hasher.transform(Frugal(many)), want.transform(many))


def test_fits_from_a_file(name: str, X: NDArray[np.float32], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    hasher = make(name).fit(tmp_path / "x.npy")
    np.testing.assert_array_equal(hasher.transform(str(tmp_path / "x.npy")), make(name).fit(X).transform(X))


class Recorder:
    """A progress reporter that remembers."""

    def __init__(self) -> None:
        self.tasks: list[list[Any]] = []

    def task(self, label: str, total: int, unit: str) -> Any:
        from contextlib import nullcontext

        entry: list[Any] = [label, total, 0]
        self.tasks.append(entry)

        def advance(steps: int) -> None:
            entry[2] += steps

        return nullcontext(advance)


def test_reports_progress(name: str, X: NDArray[np.float32]) -> None:
    recorder = Recorder()
    with progress.listen(recorder):
        make(name).fit(X)
    assert recorder.tasks
    assert all(label and 0 <= done <= total for label, total, done in recorder.tasks)
    assert any(done == total == 600 for _, total, done in recorder.tasks)


def test_declares_a_distance(name: str, X: NDArray[np.float32]) -> None:
    assert isinstance(make(name).fit(X).distance, distances.Distance)


def test_refuses_what_it_cannot_use(name: str, X: NDArray[np.float32]) -> None:
    broken = X.copy()
    broken[7, 3] = np.nan
    with pytest.raises(InputError, match="1 value is NaN or infinity, the first in row 7"):
        make(name).fit(broken)
    with pytest.raises(ParameterError, match="n_bits"):
        make(name, 0).fit(X)
    with pytest.raises(NotFittedError):
        make(name).transform(X)
    with pytest.raises(ValueError, match=rf"has {D - 1} features.*expecting {D} features"):
        make(name).fit(X).transform(X[:, 1:])
    with pytest.raises(ValueError, match="NaN or infinity"):
        make(name).fit(X).transform(broken)
    with pytest.raises(ParameterError, match="unknown parameter"):
        isch.hasher(name, bits=3)


def altered(part: models.Part) -> Iterator[tuple[str, models.Part]]:
    """(what was done, the part after it): every field missing, of another type, shape, size or content."""
    yield "a field too many", part._replace(learned={**part.learned, "transform": 1})
    yield "a field too many", part._replace(learned={**part.learned, "_constraints": {}})
    yield "an unknown parameter", part._replace(parameters={**part.parameters, "evil": 1})
    for bits in (0, -1, 12, 14, 4 * 10**9, 10**30, 2.5, "many", None, [8]):
        yield f"n_bits = {bits}", part._replace(parameters={**part.parameters, "n_bits": bits})
    for name, value in part.learned.items():
        others: list[Any] = [None, "text", [[[]]], {}, -1, 10**30, np.zeros((2, 2, 2)), np.zeros(0, np.float32)]
        if isinstance(value, np.ndarray):
            others += [value[:-1], value[None], value.astype(np.float16), np.concatenate([value, value])]
            if value.dtype.kind == "f" and value.size:
                others += [np.full_like(value, np.nan)]
            if value.dtype.kind == "i":
                others += [np.full_like(value, -1), np.full_like(value, 10**6)]
        missing = {k: v for k, v in part.learned.items() if k != name}
        yield f"{name} missing", part._replace(learned=missing)
        for other in others:
            yield f"{name} = {other!r:.40}", part._replace(learned={**part.learned, name: other})


MAY_VARY = {  # fields that say something about the model and may be any number, list or text
    *("n_samples_", "n_iter_", "rank_", "n_atoms_", "n_atoms_asked_", "block_size_", "quantization_errors_", "sigma_"),
    *("gamma_", "tau_", "lambda_star_", "spectrum_share_", "block_overlap_", "bit_correlation_", "dictionary_kind_"),
    *("spectrum_kind_", "errors_", "objective_", "rank_", "eigenvalues_", "variances_", "unit_", "n_neighbours_"),
}


def test_a_model_whose_parts_do_not_fit_is_refused(name: str, X: NDArray[np.float32], tmp_path: Path) -> None:
    path = tmp_path / "model"
    hasher = make(name).fit(X)
    accepted = set()
    for what, part in altered(hasher._part()):
        models.write(path, [part])
        refusal, loaded = attempt(path)
        if loaded is None:
            assert refusal.startswith(f"{path}: the model is damaged ({name}: "), what
            assert len(refusal) < 500, what
        else:
            assert loaded.transform(X[:5]).shape == (5, codes.width(loaded.n_bits)), what
            accepted.add(what.split()[0])
    assert accepted <= MAY_VARY | ({"n_bits"} if name == "cbe" else set())  # one r serves any number of bits


def attempt(path: Path) -> tuple[str, Hasher | None]:
    """The refusal of a model, or the model."""
    try:
        return "", isch.load(path)
    except FormatError as error:
        return str(error), None


def contract() -> list[Any]:
    """scikit-learn's checks of every method; they warn of estimators that do not inherit from BaseEstimator."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Estimator .* does not inherit", UserWarning)
        return [
            pytest.param(estimator, check, id=f"{name}-{getattr(check, 'func', check).__name__}")
            for name in sorted(METHODS)
            for estimator, check in estimator_checks_generator(make(name, 1))
        ]


@pytest.mark.filterwarnings("ignore::isch.errors.IschWarning")  # the data of these checks are tiny
@pytest.mark.parametrize(("estimator", "check"), contract())
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)
