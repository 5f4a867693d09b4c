import numpy as np
import pytest
from numpy.typing import NDArray

from isch.fitting import Fit
from isch.hashing import dictionary, spectrum
from isch.hashing.isch import f


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def some_atoms(k: int = 200, d: int = 40) -> NDArray[np.float32]:
    atoms = (
        rng(1).standard_normal((k, d))
        @ np.diag(np.linspace(3, 0.2, d))
        @ np.linalg.qr(rng(2).standard_normal((d, d)))[0]
    )
    return (atoms / np.linalg.norm(atoms, axis=1, keepdims=True)).astype(np.float32)


ATOMS = some_atoms()
TRUE = np.linalg.eigvalsh(ATOMS.T.astype(np.float64) @ ATOMS)[::-1]


def plain_f(lam: NDArray[np.float64], tau: float, eta: float) -> NDArray[np.float64]:
    """The paper's equation (f) as printed."""
    s2 = eta * tau
    return np.sqrt(4 * tau**4 * lam / (s2**2 + 4 * tau**2 * s2 * lam + 4 * tau**4 * lam**2))


@pytest.mark.parametrize(
    ("eta", "tau", "star", "peak"), [(0.05, 0.001, 25, 0.1), (0.05, 0.01, 2.5, 0.3162), (0.05, 0.12, 0.2083, 1.0954)]
)
def test_weights_are_the_papers_f(eta: float, tau: float, star: float, peak: float) -> None:
    lam = np.geomspace(1e-4, 1e4, 300)
    ours = f(lam, eta / (2 * tau))
    np.testing.assert_allclose(ours, plain_f(lam, tau, eta), rtol=1e-10)
    assert abs(eta / (2 * tau) - star) < 1e-4
    at_star = f(np.array([eta / (2 * tau)]), eta / (2 * tau))[0]
    assert abs(at_star - peak) < 1e-4
    assert (ours <= at_star + 1e-12).all()
    r = np.geomspace(1, 50, 20)
    np.testing.assert_allclose(f(star * r, star), f(star / r, star))
    assert f(np.zeros(1), star)[0] == 0


def objective(M: NDArray[np.float64], D: NDArray[np.float64], tau: float, s2: float) -> float:
    """J = E[(c_iᵀc_j − x_iᵀ M x_j)²] under the sparse linear model, by its moments."""
    S = 2 * tau**2 * D @ D.T + s2 * np.eye(len(D))
    return float(4 * tau**4 * D.shape[1] - 8 * tau**4 * np.trace(D @ D.T @ M) + np.trace(M @ S @ M @ S))


def test_the_closed_form_minimises_the_expected_squared_difference() -> None:
    D, tau, s2, m = some_atoms(12, 6).T.astype(np.float64), 0.7, 0.4, 3
    pairs = spectrum.exact(D.T.astype(np.float32), m)
    star = s2 / (2 * tau**2)
    L = (pairs.eigenvectors * f(pairs.eigenvalues, star)).T.astype(np.float64)
    best = objective(L.T @ L, D, tau, s2)
    t = 4 * tau**4 * pairs.eigenvalues / (s2 + 2 * tau**2 * pairs.eigenvalues)
    np.testing.assert_allclose(best, 4 * tau**4 * D.shape[1] - (t**2).sum(), rtol=1e-5)
    for seed in range(200):
        other = L + rng(seed).standard_normal(L.shape) * 10.0 ** rng(seed).uniform(-3, 0)
        assert objective(other.T @ other, D, tau, s2) >= best - 1e-9


def test_the_objective_matches_simulation() -> None:
    D, tau, s2 = some_atoms(8, 4).T.astype(np.float64), 0.7, 0.4
    pairs = spectrum.exact(D.T.astype(np.float32), 2)
    L = (pairs.eigenvectors * f(pairs.eigenvalues, s2 / (2 * tau**2))).T
    g, n = rng(5), 400_000
    c = [g.laplace(0, tau, (n, 8)) for _ in range(2)]
    x = [ci @ D.T + g.standard_normal((n, 4)) * np.sqrt(s2) for ci in c]
    squares = ((c[0] * c[1]).sum(1) - ((x[0] @ L.T) * (x[1] @ L.T)).sum(1)) ** 2
    expected = objective((L.T @ L).astype(np.float64), D, tau, s2)
    assert abs(squares.mean() - expected) < 5 * squares.std() / np.sqrt(n)


@pytest.mark.parametrize("atoms", [ATOMS, some_atoms(30, 40)], ids=["overcomplete", "fewer atoms than dimensions"])
def test_exact_pairs_are_eigenpairs(atoms: NDArray[np.float32]) -> None:
    pairs = spectrum.exact(atoms, 10)
    V, gram = pairs.eigenvectors.astype(np.float64), atoms.T.astype(np.float64) @ atoms
    np.testing.assert_allclose(V.T @ V, np.eye(10), atol=1e-5)
    np.testing.assert_allclose(gram @ V, V * pairs.eigenvalues, atol=1e-4)
    np.testing.assert_allclose(pairs.eigenvalues, np.linalg.eigvalsh(gram)[::-1][:10], rtol=1e-6)
    assert pairs.share == pytest.approx(pairs.eigenvalues.sum() / len(atoms))


def test_dealing_gives_every_block_strong_and_weak_ones() -> None:
    whole = spectrum.exact(ATOMS, 8)
    pairs = whole.interleaved(3)
    np.testing.assert_array_equal(pairs.eigenvalues, whole.eigenvalues[[0, 3, 6, 1, 4, 7, 2, 5]])
    np.testing.assert_array_equal(pairs.eigenvectors[:, pairs.blocks[1]], whole.eigenvectors[:, [1, 4, 7]])
    assert pairs.sizes == (3, 3, 2)
    assert spectrum.exact(ATOMS, 2).interleaved(5).sizes == (1, 1)
    pairs = spectrum.exact(ATOMS, 12).interleaved(3)
    for block in np.split(pairs.eigenvalues, 3):
        assert (np.diff(block) < 0).all()
    np.testing.assert_allclose(np.sort(pairs.eigenvalues)[::-1], TRUE[:12], rtol=1e-5)


def test_randomized_finds_the_leading_pairs() -> None:
    ours, truth = spectrum.randomized(ATOMS, 8, run=Fit(rng())), spectrum.exact(ATOMS, 8)
    np.testing.assert_allclose(ours.eigenvalues, truth.eigenvalues, rtol=2e-2)
    cosines = np.linalg.svd(ours.eigenvectors[:, :6].T @ truth.eigenvectors, compute_uv=False)
    assert cosines.min() > 0.9


def test_columns_give_ritz_pairs_block_by_block() -> None:
    pairs = spectrum.columns(ATOMS, 24, 3, rng())
    gram = ATOMS.T.astype(np.float64) @ ATOMS
    for block, values in zip(
        np.split(pairs.eigenvectors.astype(np.float64), 3, axis=1), np.split(pairs.eigenvalues, 3), strict=True
    ):
        np.testing.assert_allclose(block.T @ block, np.eye(8), atol=1e-5)
        np.testing.assert_allclose(block.T @ gram @ block, np.diag(values), atol=1e-4)
        assert (values <= TRUE[:8] + 1e-6).all()
        W = block * f(values, 2.0)
        np.testing.assert_allclose(W.T @ W, np.diag(f(values, 2.0) ** 2), atol=1e-5)


def test_one_full_block_of_columns_is_exact() -> None:
    pairs = spectrum.columns(ATOMS, 40, 1, rng())
    np.testing.assert_allclose(pairs.eigenvalues, TRUE, rtol=1e-4)
    assert pairs.level == pytest.approx(spectrum.entropy_level(TRUE), rel=1e-4)


def test_a_group_with_repeated_atoms_is_drawn_again() -> None:
    repeated = np.concatenate([np.repeat(ATOMS[:1], 150, axis=0), ATOMS[:50]])
    pairs = spectrum.columns(repeated, 6, 2, rng(3))
    assert np.linalg.matrix_rank(pairs.eigenvectors[:, :3]) == 3


def test_equal_atoms_have_one_direction() -> None:
    pairs = spectrum.columns(np.repeat(ATOMS[:1], 50, axis=0), 6, 2, rng())
    assert pairs.sizes == (1, 1)
    np.testing.assert_allclose(np.abs(pairs.eigenvectors.T @ ATOMS[0]), 1, rtol=1e-5)


@pytest.mark.parametrize("n_blocks", [1, 3, 50])
@pytest.mark.parametrize("n_bits", [21, 41, 500])
def test_more_bits_than_rank_get_as_many_pairs_as_there_are(n_bits: int, n_blocks: int) -> None:
    flat = ATOMS.copy()
    flat[:, 20:] = 0
    flat = dictionary.normalise(flat)
    gram = flat.T.astype(np.float64) @ flat
    for pairs in (
        spectrum.exact(flat, n_bits).interleaved(n_blocks),
        spectrum.randomized(flat, n_bits, run=Fit(rng())).interleaved(n_blocks),
    ):
        V = pairs.eigenvectors.astype(np.float64)
        assert V.shape == (40, 20)
        assert pairs.sizes == tuple(len(part) for part in np.array_split(np.arange(20), min(n_blocks, 20)))
        assert [part.stop - part.start for part in pairs.blocks] == list(pairs.sizes)
        np.testing.assert_allclose(V.T @ V, np.eye(20), atol=1e-5)
        np.testing.assert_allclose(gram @ V, V * pairs.eigenvalues, atol=1e-3)
    sampled = spectrum.columns(flat, n_bits, n_blocks, rng())
    assert sum(sampled.sizes) == len(sampled.eigenvalues) == sampled.eigenvectors.shape[1]
    assert (sampled.eigenvalues > 0).all()
    assert len(sampled.sizes) == min(n_blocks, n_bits, 40)
    assert max(sampled.sizes) <= 20


def test_completed_spectrum_keeps_the_trace_and_the_number_of_dimensions() -> None:
    for leading in (0, 5, 40):
        whole = spectrum.completed(TRUE[:leading], ATOMS)
        assert len(whole) == 40
        assert whole.sum() == pytest.approx(len(ATOMS), rel=1e-5)


def test_what_random_atoms_would_have_tells_nothing() -> None:
    rng = np.random.default_rng(0)
    k, d, strong = 200, 800, 5
    noise = rng.standard_normal((k, d))
    random = dictionary.normalise(noise.astype(np.float32))
    edge = np.linalg.eigvalsh(random @ random.T).max()
    assert edge == pytest.approx((1 + (k / d) ** 0.5) ** 2, rel=0.05)
    signal = rng.standard_normal((k, strong)) @ rng.standard_normal((strong, d))
    atoms = dictionary.normalise((noise + signal).astype(np.float32))
    eigenvalues = np.linalg.eigvalsh(atoms @ atoms.T)[::-1].astype(np.float64)
    assert len(spectrum.above_noise(eigenvalues, atoms)) == strong
    assert len(spectrum.above_noise(np.ones(k), random)) == k
    assert len(spectrum.above_noise(eigenvalues, np.ascontiguousarray(atoms.T))) == k
    pairs = spectrum.exact(atoms, 4)
    assert pairs.level == pytest.approx(spectrum.entropy_level(eigenvalues[:strong]), rel=1e-4)


def test_level_is_the_trace_over_the_effective_rank() -> None:
    assert spectrum.entropy_level(np.full(7, 3.0)) == pytest.approx(3)
    shares = TRUE / TRUE.sum()
    assert spectrum.entropy_level(TRUE) == pytest.approx(TRUE.sum() / np.exp(-shares @ np.log(shares)))
    assert spectrum.entropy_level(TRUE * 5) == pytest.approx(5 * spectrum.entropy_level(TRUE))
    assert spectrum.entropy_level(np.append(TRUE, np.zeros(50))) == pytest.approx(spectrum.entropy_level(TRUE))
    assert TRUE.mean() < spectrum.entropy_level(TRUE) < TRUE.max()
    for leading in (20, 30):
        assert spectrum.entropy_level(spectrum.completed(TRUE[:leading], ATOMS)) == pytest.approx(
            spectrum.entropy_level(TRUE), rel=0.1
        )


def test_slabs_do_not_change_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = spectrum.gram(ATOMS), spectrum.ritz_pairs(ATOMS, np.eye(40))[0]
    monkeypatch.setattr(spectrum, "SLAB_ATOMS", 7)
    np.testing.assert_allclose(spectrum.gram(ATOMS), whole[0], atol=1e-10)
    np.testing.assert_allclose(spectrum.ritz_pairs(ATOMS, np.eye(40))[0], whole[1], atol=1e-5)
