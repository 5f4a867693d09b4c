import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from isch.describe.codebook import nearest_word
from isch.describe.vlad import VLAD, vlad
from isch.features import dense

Matrix = NDArray[np.float32]


def reference(X: Matrix, words: Matrix) -> NDArray[np.float64]:
    """VLAD of one picture, as the formula stands."""
    out = np.zeros(words.shape)
    nearest = ((X[:, None].astype(np.float64) - words) ** 2).sum(axis=2).argmin(axis=1)
    for k in range(len(words)):
        residual = (X[nearest == k].astype(np.float64) - words[k]).sum(axis=0)
        out[k] = residual / np.maximum(np.linalg.norm(residual), 1e-12)
    return np.asarray(out.ravel() / np.maximum(np.linalg.norm(out), 1e-12))


def encode(X: Matrix, words: Matrix) -> Matrix:
    return np.asarray(vlad(X, nearest_word(X, words), np.zeros(len(X), np.intp), 1, words)[0])


def unit(rng: np.random.Generator, n: int) -> Matrix:
    rows = rng.random((n, 128), dtype=np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@given(st.integers(0, 60), st.integers(1, 20), st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_equals_the_reference_in_any_order_and_any_multiple(n: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, words = unit(rng, n), unit(rng, k)
    row = encode(X, words)
    np.testing.assert_allclose(row, reference(X, words), atol=2e-5)
    np.testing.assert_allclose(encode(rng.permutation(X), words), row, atol=2e-5)
    np.testing.assert_allclose(encode(np.repeat(X, 3, axis=0), words), row, atol=2e-5)


def test_many_pictures_at_once_equal_each_alone() -> None:
    rng = np.random.default_rng(0)
    words, X, owners = unit(rng, 7), unit(rng, 90), rng.integers(0, 4, 90)
    rows = vlad(X, nearest_word(X, words), owners, 5, words)
    for picture in range(5):
        np.testing.assert_allclose(rows[picture], reference(X[owners == picture], words), atol=2e-5)


def test_blocks_of_words_that_occur_share_the_length_equally() -> None:
    rng = np.random.default_rng(0)
    words, X = unit(rng, 30), unit(rng, 12)
    blocks = np.linalg.norm(encode(X, words).reshape(30, 128), axis=1)
    occurring = np.unique(nearest_word(X, words))
    assert 0 < len(occurring) < 30
    np.testing.assert_allclose(blocks[occurring], 1 / np.sqrt(len(occurring)), atol=1e-5)
    assert np.count_nonzero(blocks) == len(occurring)


@pytest.mark.skipif("ISCH_DATA" not in os.environ, reason="needs the thumbnails in $ISCH_DATA/tiny-imagenet-20k")
def test_finds_thumbnails_of_the_same_kind() -> None:
    folders = sorted((Path(os.environ["ISCH_DATA"]) / "tiny-imagenet-20k").iterdir())[:25]
    paths = [path for folder in folders for path in sorted(folder.iterdir())[:24]]
    labels = np.repeat(np.arange(25), 24)
    rows = dense(VLAD(n_words=64, step=8, max_descriptors=20_000).fit(paths).transform(paths))
    similarity = rows @ rows.T
    np.fill_diagonal(similarity, -1)
    nearest = np.argsort(-similarity, axis=1)[:, :10]
    assert (labels[nearest] == labels[:, None]).mean() > 2.5 * 23 / 599
