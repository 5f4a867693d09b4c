import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import isch
from isch import codes
from isch.errors import InputError, IschWarning
from isch.hashing import spectrum
from isch.hashing.isch import f
from isch.scan.exact import distances

DIGITS: NDArray[np.float32] = load_digits().data.astype(np.float32)


def low_rank(n: int = 2000, d: int = 30, seed: int = 0) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, 8)) @ rng.standard_normal((8, d)) + 0.3 * rng.standard_normal((n, d))).astype(
        np.float32
    )


@pytest.fixture(scope="module")
def fitted() -> isch.ISCH:
    return isch.ISCH(32).fit(DIGITS)


def test_codes_are_the_signs_of_the_projections(fitted: isch.ISCH) -> None:
    Z = fitted.project(DIGITS)
    assert Z.dtype == np.float32
    assert Z.shape == (len(DIGITS), 32)
    np.testing.assert_array_equal(fitted.transform(DIGITS), codes.pack(Z >= 0))
    np.testing.assert_array_equal(np.concatenate(list(fitted.encode(DIGITS))), fitted.transform(DIGITS))


def test_projection_is_W_times_a_rotation() -> None:
    """LᵀL does not depend on R: with a given τ it is V f(λ)² Vᵀ up to the common scale."""
    fitted = isch.ISCH(32, tau=0.004).fit(DIGITS)
    D = fitted.dictionary_.T.astype(np.float64)
    lam, V = np.linalg.eigh(D @ D.T)
    lam, V = lam[::-1][:32], V[:, ::-1][:, :32]
    M = (V * (lam / (lam + fitted.lambda_star_) ** 2)) @ V.T
    ours = (fitted.projection_ @ fitted.projection_.T).astype(np.float64)
    np.testing.assert_allclose(ours / np.trace(ours), M / np.trace(M), atol=1e-6)


def test_diagnostics_describe_the_fit(fitted: isch.ISCH) -> None:
    assert (fitted.dictionary_kind_, fitted.spectrum_kind_, fitted.n_atoms_) == ("flat", "exact", 128)
    assert fitted.rank_ == np.linalg.matrix_rank(fitted.dictionary_, tol=1e-3)
    assert 0.9 < fitted.spectrum_share_ <= 1
    (errors,) = fitted.quantization_errors_
    assert (np.diff(errors) <= 1e-9).all()
    bits = codes.unpack(fitted.transform(DIGITS), 32)
    np.testing.assert_allclose(fitted.bit_balance_, bits.mean(axis=0), atol=1e-3)
    correlation = np.abs(np.corrcoef(bits.T))
    assert fitted.bit_correlation_ == pytest.approx((correlation.sum() - 32) / (32 * 31), abs=1e-3)
    assert fitted.block_overlap_ == 0


def test_auto_tau_is_that_of_the_level_of_the_spectrum(fitted: isch.ISCH) -> None:
    lam = np.linalg.svd(fitted.dictionary_.astype(np.float64), compute_uv=False) ** 2
    lam = lam[lam > 1e-6 * lam[0]]
    assert fitted.lambda_star_ == pytest.approx(np.exp((lam * np.log(lam)).sum() / lam.sum()), rel=1e-3)
    assert fitted.tau_ == pytest.approx(0.05 / (2 * fitted.lambda_star_))


def test_f_is_the_equation_of_the_paper() -> None:
    """With σ² = η τ."""
    lam, tau, eta = np.geomspace(0.01, 100, 9), 0.12, 0.05
    s2 = eta * tau
    paper = np.sqrt(4 * tau**4 * lam / (s2**2 + 4 * tau**2 * s2 * lam + 4 * tau**4 * lam**2))
    np.testing.assert_allclose(f(lam, eta / (2 * tau)), paper, rtol=1e-12)


def test_large_dictionaries_are_solved_by_the_paper_s_column_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectrum, "EXACT_LIMIT", 40)
    assert isch.ISCH(32, n_iter=3).fit(DIGITS).spectrum_kind_ == "columns"
    assert isch.DiffusionHash(32, n_iter=3).fit(DIGITS).spectrum_kind_ == "randomized"


@pytest.mark.parametrize("tau", ["auto", 0.005])
def test_more_blocks_than_directions(tau: Any) -> None:
    hasher = isch.ISCH(64, block_size=8, tau=tau).fit(low_rank(d=2))
    assert hasher.block_size_ == 32
    assert hasher.plan(low_rank(d=2), measured=False).stages[-1].label == "rotation 2 of 2"


def test_auto_tau_of_few_rows_follows_the_spectrum_alone() -> None:
    X = low_rank(90)
    hasher = isch.ISCH(8).fit(X)
    lam = np.linalg.svd(hasher.dictionary_.astype(np.float64), compute_uv=False) ** 2
    lam = lam[lam > 1e-6 * lam[0]]
    assert hasher.lambda_star_ == pytest.approx(np.exp((lam * np.log(lam)).sum() / lam.sum()), rel=1e-3)


def test_auto_tau_of_a_sample_without_variation() -> None:
    """All rows drawn are equal, although one row of all differs."""
    X = np.ones((3000, 5), np.float32)
    X[1234] = 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IschWarning)
        assert np.isfinite(isch.ISCH(3).fit(X).project(X)).all()


@pytest.mark.parametrize("different", [1, 20, 200])
def test_most_rows_are_equal(different: int) -> None:
    """So that hardly any direction varies."""
    X = np.ones((3000, 60), np.float32)
    X[:different] = np.random.default_rng(0).standard_normal((different, 60))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IschWarning)
        assert np.isfinite(isch.ISCH(16).fit(X).project(X)).all()


def test_tau_and_eta_matter_only_through_their_ratio() -> None:
    one, two = (isch.ISCH(16, tau=tau, eta=eta).fit(DIGITS) for tau, eta in ((0.01, 0.05), (0.02, 0.1)))
    np.testing.assert_array_equal(one.transform(DIGITS), two.transform(DIGITS))


@pytest.mark.parametrize("spectrum", ["exact", "columns", "randomized"])
@pytest.mark.parametrize("block_size", [None, 8])
def test_every_spectrum_keeps_neighbours(spectrum: Any, block_size: int | None) -> None:
    hasher = isch.ISCH(32, spectrum=spectrum, block_size=block_size).fit(DIGITS)
    assert len(hasher.quantization_errors_) == (4 if block_size else 1)
    near = distances(hasher.transform(DIGITS[:200]), hasher.transform(DIGITS))
    labels = load_digits().target
    same = (labels[:200, None] == labels)[np.arange(200)[:, None], np.argsort(near, axis=1, kind="stable")[:, 1:11]]
    assert same.mean() > 0.8


def test_columns_overlap_and_dealt_eigenvectors_do_not() -> None:
    assert isch.ISCH(32, spectrum="columns", block_size=8).fit(DIGITS).block_overlap_ > 0.1
    assert isch.ISCH(32, spectrum="exact", block_size=8).fit(DIGITS).block_overlap_ < 1e-9


def test_hierarchical_dictionary() -> None:
    hasher = isch.ISCH(16, dictionary="hierarchical", n_branches=8).fit(DIGITS)
    assert hasher.n_atoms_asked_ == 8 * 17
    assert 64 < hasher.n_atoms_ <= 8 * 17


def test_few_rows_of_many_dimensions_give_long_codes() -> None:
    """Fewer rows than a tree of clusters needs: every row may be an atom."""
    X = np.random.default_rng(0).standard_normal((100, 4200), dtype=np.float32)
    with pytest.warns(IschWarning, match="not overcomplete"):
        hasher = isch.ISCH(96).fit(X)
    assert (hasher.dictionary_kind_, hasher.n_atoms_) == ("flat", 100)


@pytest.mark.parametrize("power", [-60, -3, 1, 60])
def test_scaling_by_a_power_of_two_changes_no_bit(power: int) -> None:
    X = low_rank()
    codes_of = lambda data: isch.ISCH(12).fit(data).transform(data)  # noqa: E731
    np.testing.assert_array_equal(codes_of(X), codes_of(X * np.float32(2.0**power)))


def test_shifting_all_data_changes_codes_by_rounding_only() -> None:
    X = low_rank().astype(np.float64)
    one, two = (isch.ISCH(12).fit(data).transform(data) for data in (X, X + np.linspace(-5, 5, 30)))
    assert (codes.unpack(one, 12) != codes.unpack(two, 12)).mean() < 1e-3


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        isch.ISCH(20, random_state=3).fit(DIGITS).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    isch.ISCH(20, random_state=4).fit(DIGITS).save(tmp_path / "c")
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()


def test_threads_and_batches_change_at_most_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    from isch.compute import passes

    results = []
    for threads, rows in (("1", 1024), ("2", 1024), ("2", 100)):
        monkeypatch.setenv("ISCH_NUM_THREADS", threads)
        monkeypatch.setattr(passes, "block_rows", lambda _, rows=rows: rows)
        results.append(codes.unpack(isch.ISCH(32).fit(DIGITS).transform(DIGITS), 32))
    for other in results[1:]:
        assert (results[0] != other).sum() <= results[0].size / 100_000 + 1


def test_every_source_gives_the_same_codes(tmp_path: Path) -> None:
    import dask.array
    from scipy.sparse import csr_array

    np.save(tmp_path / "x.npy", DIGITS)
    (tmp_path / "shards").mkdir()
    for number, part in enumerate(np.array_split(DIGITS, 3)):
        np.save(tmp_path / "shards" / f"{number}.npy", part)
    expected = isch.ISCH(16).fit(DIGITS).transform(DIGITS)
    memory_map = np.load(tmp_path / "x.npy", mmap_mode="r")
    chunked = dask.array.from_array(DIGITS, chunks=(500, 64))
    for source in (str(tmp_path / "x.npy"), tmp_path / "shards", memory_map, chunked):
        np.testing.assert_array_equal(isch.ISCH(16).fit(source).transform(source), expected)
    sparse = csr_array(DIGITS)
    bits = codes.unpack(isch.ISCH(16).fit(sparse).transform(sparse), 16)
    assert (bits != codes.unpack(expected, 16)).mean() < 1e-3


def test_a_row_of_the_database_finds_itself_at_distance_zero(fitted: isch.ISCH) -> None:
    near, rows = isch.nearest(fitted.transform(DIGITS[5:6]), fitted.transform(DIGITS), 1)
    assert near[0, 0] == 0
    assert (fitted.transform(DIGITS)[rows[0, 0]] == fitted.transform(DIGITS[5:6])[0]).all()


def test_learning_from_a_sample_uses_the_mean_of_all_rows() -> None:
    hasher = isch.ISCH(16, max_samples=500).fit(DIGITS)
    np.testing.assert_allclose(hasher.mean_, DIGITS.mean(axis=0), rtol=1e-5, atol=1e-6)


def test_few_rows_warn_that_the_dictionary_is_not_overcomplete() -> None:
    with pytest.warns(IschWarning, match="40 atoms for 64 dimensions and is not overcomplete"):
        hasher = isch.ISCH(8).fit(DIGITS[:40])
    assert hasher.n_atoms_asked_ == 128


def test_duplicates_give_fewer_atoms_and_still_work() -> None:
    X = np.repeat(low_rank(60), 20, axis=0)
    hasher = isch.ISCH(8, n_atoms=100).fit(X)
    assert hasher.n_atoms_ <= 60
    assert hasher.n_atoms_asked_ == 100
    assert len(np.unique(hasher.transform(X), axis=0)) > 20


def test_constant_bits_are_warned_of() -> None:
    from isch.hashing import diagnostics

    with pytest.warns(IschWarning, match="1 of 3 bits are the same"):
        diagnostics.warn_of_collapse(np.array([0.5, 0.9999, 0.4], np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diagnostics.warn_of_collapse(np.array([0.5, 0.9], np.float32))


@pytest.mark.parametrize(
    ("X", "parameters", "message"),
    [
        (DIGITS, {"n_bits": 0}, "'n_bits' parameter of ISCH must be an int in the range .1, 1048576.. Got 0"),
        (DIGITS, {"tau": -1.0}, "'tau' parameter of ISCH"),
        (DIGITS, {"spectrum": "magic"}, "'spectrum' parameter of ISCH must be a str among"),
        (DIGITS, {"n_bits": 32, "block_size": 5}, "block_size must divide n_bits = 32; got 5"),
        (DIGITS, {"n_bits": 10**30}, "'n_bits' parameter of ISCH must be an int in the range .1, 1048576.. Got 1000"),
        (np.ones((50, 4)), {"n_bits": 2}, "all rows are equal"),
        (np.full((50, 4), np.nan), {"n_bits": 2}, "200 values are NaN or infinity, the first in row 0"),
        (DIGITS[:1], {"n_bits": 2}, "n_samples = 1"),
        (DIGITS.astype(np.float64) * 1e300, {"n_bits": 2}, "exceed the range of single precision"),
        (np.full((50, 4), 0.3), {"n_bits": 2}, "all rows are equal"),
    ],
)
def test_bad_input_is_one_sentence(X: Any, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        isch.ISCH(**parameters).fit(X)
    assert "\n" not in str(caught.value)


def precision(hasher: Any, k: int = 20) -> float:
    """The share of rows of the same digit among the nearest, ties in expectation."""
    from isch.evaluate import metrics

    labels = load_digits().target
    packed = hasher.fit(DIGITS).transform(DIGITS)
    profiles = [
        metrics.from_integers(row, labels == label, hasher.n_bits + 1)
        for row, label in zip(distances(packed[:400], packed), labels, strict=False)
    ]
    return float(np.mean([metrics.measure(f"precision@{k}").of(profile) for profile in profiles]))


def test_more_bits_than_the_rank_keep_making_codes_better() -> None:
    """64 features of rank 61."""
    found = [precision(isch.ISCH(bits, n_iter=20)) for bits in (32, 64, 128, 256, 1024)]
    assert (np.diff(found[:3]) > 0.001).all()
    assert min(found[3:]) > found[2] - 0.002


@pytest.mark.parametrize("n_bits", [62, 64, 200, 521, 1024])
@pytest.mark.parametrize("spectrum", ["exact", "randomized"])
def test_any_number_of_bits_is_a_tight_frame_of_the_eigenvectors(n_bits: int, spectrum: Any) -> None:
    """L Lᵀ = W R Rᵀ Wᵀ = W Wᵀ: its eigenvalues are the squares of f(λ), up to the common scale."""
    hasher = isch.ISCH(n_bits, spectrum=spectrum, n_iter=3, tau=0.004).fit(DIGITS)
    assert hasher.projection_.shape == (64, n_bits)
    assert len(hasher.eigenvalues_) == 61
    assert hasher.block_size_ == n_bits
    f = np.sort(hasher.eigenvalues_ / (hasher.eigenvalues_ + hasher.lambda_star_) ** 2)[::-1]
    L = hasher.projection_.astype(np.float64)
    got = np.linalg.eigvalsh(L @ L.T)[::-1][:61]
    np.testing.assert_allclose(got / got.sum(), f / f.sum(), rtol=2e-2, atol=1e-6)
    assert all((np.diff(errors) <= 1e-9).all() for errors in hasher.quantization_errors_)


@pytest.mark.parametrize("n_bits", [64, 521])
def test_sampled_columns_give_any_number_of_bits(n_bits: int) -> None:
    hasher = isch.ISCH(n_bits, spectrum="columns", n_iter=3).fit(DIGITS)
    assert hasher.transform(DIGITS).shape == (len(DIGITS), codes.width(n_bits))
    assert len(hasher.eigenvalues_) <= 64


def test_a_prime_number_of_bits_is_split_into_blocks_that_differ_by_one() -> None:
    hasher = isch.ISCH(521, n_iter=2).fit(np.random.default_rng(0).standard_normal((1400, 530)))
    assert len(hasher.quantization_errors_) == 2
    assert hasher.block_size_ == 261


def test_long_codes_of_a_tree_with_few_leaves() -> None:
    """The dictionary of few rows of many dimensions has a low rank."""
    X = np.random.default_rng(0).standard_normal((2000, 40)) @ np.random.default_rng(1).standard_normal((40, 5000))
    with pytest.warns(IschWarning, match="not overcomplete"):
        hasher = isch.ISCH(3200, dictionary="hierarchical", n_iter=2).fit(X.astype(np.float32))
    assert (hasher.rank_, len(hasher.eigenvalues_), len(hasher.quantization_errors_)) == (40, 40, 1)
    assert hasher.transform(X[:3]).shape == (3, 400)


@pytest.mark.parametrize("n_bits", [2, 9, 700])
def test_data_of_one_direction_give_codes(n_bits: int) -> None:
    """Constant columns, rank 1, and hardly any rows."""
    line = np.zeros((30, 6), np.float32)
    line[:, 2] = np.linspace(-3, 5, 30)
    for X in (line, line[[3, 20]]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IschWarning)
            hasher = isch.ISCH(n_bits).fit(X)
        bits = codes.unpack(hasher.transform(X), n_bits)
        assert (bits[0] != bits[-1]).all()


def test_sparse_codes_solve_the_lasso_and_their_inner_products_are_followed(fitted: isch.ISCH) -> None:
    from sklearn.linear_model import Lasso

    hasher = isch.ISCH(48, eta=0.05).fit(DIGITS / 16)
    X = DIGITS[:150] / 16
    C = isch.sparse_codes(X, hasher)
    lasso = Lasso(alpha=hasher.eta / 64, fit_intercept=False, tol=1e-8, max_iter=100_000)
    D = hasher.dictionary_.T.astype(np.float64)

    def objective(x: NDArray[np.float64], c: NDArray[np.float64]) -> float:
        return float(0.5 * ((x - D @ c) ** 2).sum() + hasher.eta * np.abs(c).sum())

    for row in range(5):
        x = X[row] - hasher.mean_
        assert objective(x, C[row]) == pytest.approx(objective(x, lasso.fit(D, x).coef_), rel=1e-3)
    Y = hasher.project(X)
    upper = np.triu_indices(150, 1)
    assert np.corrcoef((Y @ Y.T)[upper], (C @ C.T)[upper])[0, 1] > 0.5


def test_sparse_codes_need_the_dictionary(tmp_path: Path, fitted: isch.ISCH) -> None:
    fitted.save(tmp_path / "m")
    with pytest.raises(InputError, match="keep_dictionary"):
        isch.sparse_codes(DIGITS[:2], isch.load(tmp_path / "m"))
    isch.ISCH(8, keep_dictionary=True).fit(DIGITS / 16).save(tmp_path / "k")
    assert isch.sparse_codes(DIGITS[:2] / 16, isch.load(tmp_path / "k")).shape == (2, 128)
