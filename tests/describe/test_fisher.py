import numpy as np
import pytest
from numpy.typing import NDArray
from skimage.feature import fisher_vector as skimage_fisher_vector
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

from isch.describe.fisher import Fisher, Mixture, fisher_vector, fit_mixture, improve, posteriors, principal_axes
from isch.features import dense


@pytest.fixture(scope="module")
def data() -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(400, 6)) * rng.uniform(0.2, 2, 6) + rng.integers(0, 3, (400, 1)) * 1.5


@pytest.fixture(scope="module")
def model(data: NDArray[np.float64]) -> GaussianMixture:
    return GaussianMixture(4, covariance_type="diag", random_state=0).fit(data)


def mixture_of(model: GaussianMixture) -> Mixture:
    return Mixture(model.weights_, model.means_, np.sqrt(model.covariances_))


def test_posteriors_equal_scikit_learn(data: NDArray[np.float64], model: GaussianMixture) -> None:
    np.testing.assert_allclose(posteriors(data, mixture_of(model)), model.predict_proba(data), atol=1e-10)


def test_equals_scikit_image(data: NDArray[np.float64], model: GaussianMixture) -> None:
    """Without the gradients by the weights, and with the sign of the deviations' that the derivative has."""
    theirs = skimage_fisher_vector(data[:50], model)[4:]
    theirs[24:] *= -1
    np.testing.assert_allclose(fisher_vector(data[:50], mixture_of(model)), theirs, atol=1e-10)


def test_is_the_gradient_of_the_likelihood(data: NDArray[np.float64], model: GaussianMixture) -> None:
    """∂ log p / ∂μ = √w u / σ and ∂ log p / ∂σ = √(2 w) v / σ, by finite differences."""
    X, mixture = data[:30], mixture_of(model)

    def likelihood(means: NDArray[np.float64], deviations: NDArray[np.float64]) -> float:
        y = (X[:, None] - means) / deviations
        densities = np.exp(-0.5 * (y**2).sum(axis=2)) / deviations.prod(axis=1)
        return float(np.log(densities @ mixture.weights).mean())

    u, v = fisher_vector(X, mixture).reshape(2, 4, 6)
    step = np.zeros((4, 6))
    step[2, 3] = 1e-5
    weight, deviation = mixture.weights[2], mixture.deviations[2, 3]
    by_mean = likelihood(mixture.means + step, mixture.deviations) - likelihood(
        mixture.means - step, mixture.deviations
    )
    by_deviation = likelihood(mixture.means, mixture.deviations + step) - likelihood(
        mixture.means, mixture.deviations - step
    )
    assert by_mean / 2e-5 == pytest.approx(np.sqrt(weight) * u[2, 3] / deviation, abs=1e-7)
    assert by_deviation / 2e-5 == pytest.approx(np.sqrt(2 * weight) * v[2, 3] / deviation, abs=1e-7)


def test_vanishes_on_the_data_the_mixture_was_fitted_to(data: NDArray[np.float64]) -> None:
    model = GaussianMixture(3, covariance_type="diag", tol=1e-10, max_iter=5000, reg_covar=0, random_state=0).fit(data)
    assert abs(fisher_vector(data, mixture_of(model))).max() < 1e-3


def test_improved_has_length_one_and_keeps_signs(data: NDArray[np.float64], model: GaussianMixture) -> None:
    row = fisher_vector(data[:20], mixture_of(model))
    better = improve(row[None])[0]
    assert np.linalg.norm(better) == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(better**2 * np.sign(better) * abs(row).sum(), row, atol=1e-6)


def test_mixture_is_as_likely_as_scikit_learns_own(data: NDArray[np.float64]) -> None:
    mixture = fit_mixture(data.astype(np.float32), 4, 100, np.random.default_rng(0))
    own = GaussianMixture(4, covariance_type="diag", random_state=0).fit(data)
    ours = GaussianMixture(4, covariance_type="diag")
    ours.weights_, ours.means_, ours.covariances_ = mixture.weights, mixture.means, mixture.deviations**2
    ours.precisions_cholesky_ = 1 / mixture.deviations
    assert ours.score(data) > own.score(data) - 0.05


def test_mixture_of_repeated_rows_is_finite() -> None:
    X = np.repeat(np.eye(3, dtype=np.float32), 5, axis=0)
    mixture = fit_mixture(X, 5, 10, np.random.default_rng(0))
    assert all(np.isfinite(part).all() for part in mixture)
    assert np.isfinite(fisher_vector(X, mixture)).all()


def test_principal_axes_equal_pca(data: NDArray[np.float64]) -> None:
    ours = principal_axes(data - data.mean(axis=0), 3)
    theirs = PCA(3).fit(data).components_.T
    np.testing.assert_allclose(abs((ours * theirs).sum(axis=0)), 1, atol=1e-9)


def test_length_is_two_numbers_a_component_and_dimension() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (4, 64, 64), dtype=np.uint8)
    describer = Fisher(n_words=5, n_dimensions=16).fit(pictures)
    assert describer.transform(pictures).shape == (4, 2 * 5 * 16)
    unreduced = Fisher(n_words=5, n_dimensions=128, improved=False).fit(pictures)
    local = unreduced._prepare(np.repeat(pictures[0][..., None], 3, axis=2))
    mixture = Mixture(unreduced.weights_, unreduced.means_, unreduced.deviations_)
    expected = fisher_vector(local.values - unreduced.centre_, mixture)
    np.testing.assert_allclose(dense(unreduced.transform(pictures[:1]))[0], expected, atol=2e-4)
