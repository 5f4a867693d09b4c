import numpy as np
import pytest
from sklearn.cluster import KMeans

from isch import kmeans
from isch.errors import InputError


def blobs(n: int = 600, d: int = 5, centres: int = 12) -> np.ndarray:
    rng = np.random.default_rng(1)
    return (rng.standard_normal((centres, d))[rng.integers(0, centres, n)] * 5 + rng.standard_normal((n, d))).astype(
        np.float32
    )


def test_assign_equals_brute_force() -> None:
    X, C = blobs(), blobs(17)
    plain = ((X[:, None] - C) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(kmeans.assign(X, C), plain)


def test_ties_go_to_the_lower_number() -> None:
    C = np.array([[1.0, 0], [0, 1], [1, 0]], np.float32)
    np.testing.assert_array_equal(kmeans.assign(C, C), [0, 1, 0])


def test_means_equal_plain_numpy() -> None:
    X, labels = blobs(), np.random.default_rng(0).integers(0, 9, 600)
    centres, sizes = kmeans.means(X, labels, np.zeros((10, 5), np.float32))
    np.testing.assert_allclose(centres[:9], [X[labels == c].mean(axis=0) for c in range(9)], rtol=1e-5, atol=1e-6)
    assert sizes[9] == 0
    assert (centres[9] == 0).all()


def test_converges_to_what_scikit_learn_finds_from_the_same_start() -> None:
    X = blobs()
    start = X[np.sort(np.random.default_rng(3).choice(len(X), 8, replace=False))]
    ours, labels = kmeans.fit(X, 8, 100, np.random.default_rng(3))
    theirs = KMeans(8, init=start, n_init=1, max_iter=100, tol=0, algorithm="lloyd").fit(X)
    np.testing.assert_array_equal(labels, theirs.labels_)
    np.testing.assert_allclose(ours, theirs.cluster_centers_, rtol=1e-4, atol=1e-4)


def test_every_centre_is_the_mean_of_its_rows_even_when_stopped_early() -> None:
    X = blobs()
    centres, labels = kmeans.fit(X, 20, 2, np.random.default_rng(0))
    np.testing.assert_allclose(centres, [X[labels == c].mean(axis=0) for c in range(len(centres))], atol=1e-5)


def test_the_number_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X = blobs(5000)
    results = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("ISCH_NUM_THREADS", threads)
        results.append(kmeans.fit(X, 50, 10, np.random.default_rng(0))[0])
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()


def test_empty_clusters_are_seeded_again() -> None:
    X = np.concatenate([blobs(300), np.zeros((300, 5), np.float32)])
    centres, _ = kmeans.fit(X, 100, 30, np.random.default_rng(0))
    assert len(centres) >= 95


def test_fewer_distinct_rows_than_clusters_gives_as_many_as_there_are() -> None:
    X = np.repeat(np.eye(3, 4, dtype=np.float32), 10, axis=0)
    centres, labels = kmeans.fit(X, 8, 10, np.random.default_rng(0))
    assert len(np.unique(centres, axis=0)) == len(centres) == 3
    assert len(np.unique(labels)) == 3


def test_clusters_whose_centres_are_equal_up_to_rounding_are_one() -> None:
    centres = np.array([[1, 2], [9, 9], [0, 1], [1, np.nextafter(np.float32(2), np.float32(3))], [0, 1]], np.float32)
    found, labels = kmeans.distinct(centres, np.array([3, 4, 2, 0, 4]))
    np.testing.assert_array_equal(found, centres[[0, 2]])
    np.testing.assert_array_equal(labels, [0, 1, 1, 0, 1])


def test_alike_rows_are_found_as_by_comparing_all() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 7)).astype(np.float32)[rng.integers(0, 40, 300)]
    rows *= rng.choice([1, 1 + 1e-6, 1 + 1e-3], (300, 1)).astype(np.float32)
    rows[5] = rows[8] = 0
    apart = np.linalg.norm((rows[:, None] - rows).astype(np.float64), axis=2)
    plain = (apart <= 1e-5 * np.linalg.norm(rows, axis=1)[:, None]).argmax(axis=1)
    np.testing.assert_array_equal(kmeans.alike(rows, 1e-5), plain)


@pytest.mark.parametrize("k", [0, 601])
def test_refuses_more_clusters_than_rows(k: int) -> None:
    with pytest.raises(InputError, match=f"between 1 and the number of rows .600.; got {k}"):
        kmeans.fit(blobs(), k, 5, np.random.default_rng(0))
