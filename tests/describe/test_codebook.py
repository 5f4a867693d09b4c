import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

from isch import describe
from isch.describe import sift
from isch.describe.bow import BoW
from isch.describe.codebook import WordsDescriber, joined, nearest_word, sample
from isch.describe.fisher import Fisher
from isch.describe.llc import LLC
from isch.describe.sift import Local
from isch.describe.vlad import VLAD
from isch.errors import InputError, ParameterError
from isch.features import dense

SMALL: list[WordsDescriber | Fisher] = [
    BoW(n_words=12, n_iter=3),
    VLAD(n_words=6, n_iter=3),
    LLC(n_words=12, n_iter=3),
    Fisher(n_words=3, n_dimensions=8, n_iter=3),
]
each_describer = pytest.mark.parametrize("describer", SMALL, ids=lambda d: d.name)


def pictures(n: int = 6, side: int = 64) -> NDArray[np.uint8]:
    coarse = np.random.default_rng(0).integers(0, 256, (n, side // 8, side // 8, 3), dtype=np.uint8)
    return coarse.repeat(8, axis=1).repeat(8, axis=2)


@each_describer
def test_vectors_have_the_length_they_say(describer: Any) -> None:
    fitted = clone(describer).fit(pictures())
    vectors = fitted.transform(pictures())
    assert vectors.shape == (6, fitted.n_features_out)
    assert vectors.dtype == np.float32
    norms = np.linalg.norm(dense(vectors), axis=1, ord=1 if describer.name == "bow" else 2)
    np.testing.assert_allclose(norms, 1, atol=1e-5)


@each_describer
def test_alone_or_among_others_a_picture_has_the_same_vector(describer: Any) -> None:
    fitted = clone(describer).fit(pictures())
    together = dense(fitted.transform(pictures()))
    alone = np.concatenate([dense(fitted.transform([picture])) for picture in pictures()])
    np.testing.assert_allclose(together, alone, atol=1e-5)


@each_describer
def test_a_saved_model_describes_as_before(describer: Any, tmp_path: Path) -> None:
    fitted = clone(describer).fit(pictures())
    fitted.save(tmp_path / "model")
    again = describe.load(tmp_path / "model")
    np.testing.assert_array_equal(dense(fitted.transform(pictures())), dense(again.transform(pictures())))
    assert again.n_features_out == fitted.n_features_out


@each_describer
def test_the_same_seed_learns_the_same_whatever_the_threads(describer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = []
    for threads in ("1", "3"):
        monkeypatch.setenv("ISCH_NUM_THREADS", threads)
        vectors.append(dense(clone(describer).fit_transform(pictures())))
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


@each_describer
def test_a_picture_without_room_for_a_patch_is_all_zero(describer: Any) -> None:
    fitted = clone(describer).fit(pictures())
    strip = np.arange(300 * 3, dtype=np.uint8).reshape(3, 300)
    vectors = dense(fitted.transform([strip, pictures()[0]]))
    assert not vectors[0].any()
    assert vectors[1].any()


@each_describer
def test_learns_from_an_iterator(describer: Any) -> None:
    from_list = clone(describer).fit(list(pictures()))
    from_iterator = clone(describer).fit(iter(pictures()))
    np.testing.assert_array_equal(dense(from_list.transform(pictures())), dense(from_iterator.transform(pictures())))


def test_root_and_step_change_what_is_described() -> None:
    image = pictures(1)[0]
    plain, rooted, finer = (VLAD(**options)._prepare(image) for options in ({}, {"root": True}, {"step": 5}))
    np.testing.assert_allclose(rooted.values, sift.root(plain.values))
    assert len(finer.values) > 3 * len(plain.values)


def test_large_pictures_are_shrunk_and_small_ones_enlarged() -> None:
    describer = VLAD(scales=(1.0,), min_side=100, max_side=150)
    counts = [len(describer._prepare(np.zeros((side, side, 3), np.uint8)).values) for side in (30, 100, 120, 150, 500)]
    assert counts == [len(sift.grid(side, 20, 10)) ** 2 for side in (100, 100, 120, 150, 150)]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"patch": 18}, "patch must be a multiple of 4; got 18"),
        ({"scales": ()}, "scales must be fractions"),
        ({"scales": (1, 2)}, "scales must be fractions"),
        ({"n_words": 0}, "n_words"),
        ({"step": 0}, "step"),
        ({"max_descriptors": 1.5}, "max_descriptors"),
    ],
)
def test_refuses_wrong_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        VLAD(**parameters).fit(pictures())


def test_more_words_than_descriptors_are_refused() -> None:
    with pytest.raises(InputError, match=r"n_words = 5000 needs at least 5000 local descriptors.*gave \d+"):
        VLAD(n_words=5000).fit(pictures(1))


@pytest.mark.parametrize("n", [1, 7, 40, 200, 201, 1000])
def test_sample_is_a_subset_in_order(n: int) -> None:
    def parts() -> Iterator[NDArray[np.float32]]:
        for start in range(0, 201, 20):
            yield np.repeat(np.arange(start, min(start + 20, 201), dtype=np.float32)[:, None], sift.LENGTH, axis=1)

    rows = sample(parts(), n, np.random.default_rng(0))
    assert rows.shape == (min(n, 201), sift.LENGTH)
    assert (np.diff(rows[:, 0]) > 0).all()


def test_sample_favours_no_row() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(30, dtype=np.float32)[:, None], sift.LENGTH, axis=1)
    counts = np.zeros(30)
    for _ in range(2000):
        drawn = sample(np.array_split(rows, [3, 4, 15]), 6, rng)[:, 0]
        counts[drawn.astype(int)] += 1
    # Each row is drawn with probability 1/5: 400 ± 5 standard deviations of 17.9.
    assert abs(counts - 400).max() < 90


def test_nearest_word_is_the_nearest() -> None:
    rng = np.random.default_rng(0)
    descriptors, words = (rng.random((n, 128), dtype=np.float32) for n in (2500, 50))
    distances = ((descriptors[:, None].astype(np.float64) - words) ** 2).sum(axis=2)
    np.testing.assert_array_equal(nearest_word(descriptors, words), distances.argmin(axis=1))


def test_joined_keeps_the_owner_of_each_descriptor() -> None:
    batch = [Local(np.full((n, 128), n, np.float32), np.zeros((n, 2), np.float32)) for n in (2, 0, 3)]
    descriptors, owners = joined(batch)
    np.testing.assert_array_equal(owners, [0, 0, 2, 2, 2])
    np.testing.assert_array_equal(descriptors[:, 0], [2, 2, 3, 3, 3])


def test_learns_from_a_folder_passing_over_what_is_no_picture(tmp_path: Path) -> None:
    from PIL import Image

    for i, picture in enumerate(pictures()):
        Image.fromarray(picture).save(tmp_path / f"{i}.png")
    (tmp_path / "9.jpg").write_text("not a picture")
    folder = VLAD(n_words=6).fit(os.fspath(tmp_path))
    np.testing.assert_array_equal(folder.words_, VLAD(n_words=6).fit(pictures()).words_)
