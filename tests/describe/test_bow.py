import numpy as np
import pytest

from isch.describe.bow import BoW, histograms, inverse_document_frequency, normalised
from isch.describe.codebook import nearest_word
from isch.features import dense


def pictures(n: int = 5) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(1).integers(0, 256, (n, 48, 48, 3), dtype=np.uint8)


def test_histograms_count_words_of_each_picture() -> None:
    counts = histograms(np.array([2, 0, 2, 1]), np.array([0, 0, 0, 2]), 3, 4)
    np.testing.assert_array_equal(counts, [[1, 0, 2, 0], [0, 0, 0, 0], [0, 1, 0, 0]])


def test_idf_is_the_logarithm_of_the_share_of_pictures() -> None:
    counts = np.array([[3, 0, 1.0], [1, 0, 0], [2, 0, 0], [1, 0, 5]])
    np.testing.assert_allclose(inverse_document_frequency(counts), [0, np.log(4), np.log(2)])


@pytest.mark.parametrize(("norm", "order"), [("l1", 1), ("l2", 2)])
def test_norms(norm: str, order: int) -> None:
    rows = normalised(np.array([[3, 4.0], [0, 0]]), norm)
    np.testing.assert_allclose(np.linalg.norm(rows, ord=order, axis=1), [1, 0], atol=1e-6)


def test_transform_is_the_histogram_of_nearest_words() -> None:
    describer = BoW(n_words=9).fit(pictures())
    for picture, row in zip(pictures(), describer.transform(pictures()), strict=True):
        words = nearest_word(describer._prepare(picture).values, describer.words_)
        np.testing.assert_allclose(row, np.bincount(words, minlength=9) / len(words), atol=1e-6)


def test_idf_weighs_the_counts() -> None:
    plain = BoW(n_words=40, norm="l2").fit(pictures())
    weighted = BoW(n_words=40, norm="l2", idf=True).fit(pictures())
    np.testing.assert_array_equal(plain.words_, weighted.words_)
    counts = plain._counts([plain._prepare(picture) for picture in pictures()])
    held = (counts > 0).sum(axis=0)
    assert held.min() < 5  # otherwise all weights are zero and nothing is tested
    np.testing.assert_allclose(weighted.idf_, np.log(5 / held))
    expected = normalised(counts * weighted.idf_, "l2")
    np.testing.assert_allclose(dense(weighted.transform(pictures())), expected, atol=1e-6)
