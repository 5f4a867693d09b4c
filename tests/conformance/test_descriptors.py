"""Every descriptor through the same checks."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pil
from sklearn.base import clone

from isch import describe, models
from isch.describe.base import Describer
from isch.errors import FormatError, InputError

SMALL: dict[str, dict[str, Any]] = {  # parameters that make a descriptor quick
    "le": {"grid": 3},
    "bow": {"n_words": 8},
    "vlad": {"n_words": 4},
    "fisher": {"n_words": 4},
    "llc": {"n_words": 16},
    "le+vlad": {"n_words": 4},
}
NAMES = [*(name for name in describe.DESCRIPTORS if name != "fusion"), "gist+lbp", "le+vlad"]


def drawn(n: int) -> NDArray[np.uint8]:
    """Pictures with structure: stripes of many directions and widths, and some noise."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:64, :64]
    angle, width, shift = rng.uniform(0, np.pi, n), rng.uniform(0.2, 1, n), rng.uniform(0, 6, n)
    waves = [np.sin((x * np.cos(a) + y * np.sin(a)) * w + s) for a, w, s in zip(angle, width, shift, strict=True)]
    grey = 128 + 90 * np.array(waves) + rng.normal(0, 8, (n, 64, 64))
    return np.repeat(grey.clip(0, 255).astype(np.uint8)[..., None], 3, axis=3)


PICTURES = drawn(16)


def dense(block: Any) -> NDArray[Any]:
    return np.asarray(block.toarray() if hasattr(block, "toarray") else block, np.float64)


@pytest.fixture(scope="module")
def fitted() -> Callable[[str], Describer]:
    made: dict[str, Describer] = {}

    def get(name: str) -> Describer:
        if name not in made:
            made[name] = describe.describer(name, **SMALL.get(name, {})).fit(PICTURES)
        return made[name]

    return get


@pytest.mark.parametrize("name", NAMES)
def test_shape_type_and_finiteness(fitted: Callable[[str], Describer], name: str) -> None:
    vectors = fitted(name).transform(PICTURES)
    assert vectors.shape == (16, fitted(name).n_features_out)
    assert vectors.dtype in (np.float32, np.float16)
    assert np.isfinite(dense(vectors)).all()
    assert len(np.unique(dense(vectors).round(5), axis=0)) > 8


@pytest.mark.parametrize("name", NAMES)
def test_paths_arrays_and_iterators_agree(fitted: Callable[[str], Describer], name: str, tmp_path: Path) -> None:
    for i, picture in enumerate(PICTURES[:5]):
        Pil.fromarray(picture).save(tmp_path / f"{i}.png")
    wanted = dense(fitted(name).transform(PICTURES[:5]))
    for given in (tmp_path, sorted(tmp_path.iterdir()), iter(PICTURES[:5]), [Pil.fromarray(p) for p in PICTURES[:5]]):
        np.testing.assert_allclose(dense(fitted(name).transform(given)), wanted, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_alone_is_described_as_among_others(fitted: Callable[[str], Describer], name: str) -> None:
    together = dense(fitted(name).transform(PICTURES[:6]))
    for row in (0, 5):
        np.testing.assert_allclose(dense(fitted(name).transform([PICTURES[row]]))[0], together[row], atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_threads_does_not_matter(
    fitted: Callable[[str], Describer], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = dense(fitted(name).transform(PICTURES))
    monkeypatch.setenv("ISCH_NUM_THREADS", "1")
    alone = describe.describer(name, **SMALL.get(name, {})).fit(PICTURES)
    np.testing.assert_allclose(dense(alone.transform(PICTURES)), wanted, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_two_threads_may_share_a_describer(fitted: Callable[[str], Describer], name: str) -> None:
    wanted, found = dense(fitted(name).transform(PICTURES)), {}

    def work(key: int) -> None:
        found[key] = dense(fitted(name).transform(PICTURES))

    threads = [threading.Thread(target=work, args=(key,)) for key in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for key in range(2):
        np.testing.assert_allclose(found[key], wanted, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_saved_and_loaded_it_gives_the_same(fitted: Callable[[str], Describer], name: str, tmp_path: Path) -> None:
    fitted(name).save(tmp_path / "model")
    again = describe.load(tmp_path / "model")
    np.testing.assert_array_equal(dense(again.transform(PICTURES)), dense(fitted(name).transform(PICTURES)))


def altered(part: models.Part) -> Iterator[models.Part]:
    """A part with every learned field missing, of another type, shape or content, and with one too many."""
    yield part._replace(learned={**part.learned, "transform": 1})
    yield part._replace(parameters={**part.parameters, "evil": 1})
    for name, value in part.learned.items():
        yield part._replace(learned={k: v for k, v in part.learned.items() if k != name})
        for other in ("text", value[None], value[..., :-1], value.astype(np.float16), np.full_like(value, np.nan)):
            yield part._replace(learned={**part.learned, name: other})


@pytest.mark.parametrize("name", NAMES)
def test_a_model_whose_parts_do_not_fit_is_refused(
    fitted: Callable[[str], Describer], name: str, tmp_path: Path
) -> None:
    for part in altered(fitted(name)._part()):
        models.write(tmp_path / "model", [part])
        with pytest.raises(FormatError, match="the model is damaged"):
            describe.load(tmp_path / "model")


@pytest.mark.parametrize("name", NAMES)
def test_pictures_of_all_shapes_are_described(fitted: Callable[[str], Describer], name: str) -> None:
    odd = [
        np.zeros((64, 64), np.uint8),
        np.full((33, 90, 3), 255, np.uint8),
        np.random.default_rng(1).integers(0, 256, (130, 47, 4), dtype=np.uint8),
    ]
    vectors = dense(fitted(name).transform(odd))
    assert vectors.shape == (3, fitted(name).n_features_out)
    assert np.isfinite(vectors).all()


@pytest.mark.parametrize("name", NAMES)
def test_bad_pictures_are_named(fitted: Callable[[str], Describer], name: str, tmp_path: Path) -> None:
    Pil.fromarray(PICTURES[0]).save(tmp_path / "a.png")
    (tmp_path / "b.jpg").touch()
    (batch,) = fitted(name).batches(tmp_path)
    assert batch.positions == [0]
    assert [(failure.name, failure.reason) for failure in batch.failures] == [
        (str(tmp_path / "b.jpg"), "the file is empty")
    ]
    with pytest.raises(FormatError, match=r"b\.jpg: the file is empty"):
        fitted(name).transform(tmp_path)
    with pytest.raises(InputError, match="no pictures"):
        fitted(name).transform([])


@pytest.mark.parametrize("name", NAMES)
def test_a_clone_has_the_parameters_but_not_what_was_learned(fitted: Callable[[str], Describer], name: str) -> None:
    copy = clone(fitted(name))
    assert str(copy.get_params()) == str(fitted(name).get_params())
    assert copy.__sklearn_is_fitted__() is not fitted(name).learns
