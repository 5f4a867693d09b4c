"""GIST against values of LEAR's program lear_gist 1.0 and a plain reference."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isch.describe.gist import GIST, gabor_filters, pooling, stretched
from isch.errors import ParameterError


def formula(n: int) -> NDArray[np.uint8]:
    y, x = np.mgrid[:n, :n]
    return np.stack([(x * 7 + y * 13) % 256, (x * y * 3) % 256, (x * x + 5 * y) % 256], axis=-1).astype(np.uint8)


def reference(image: NDArray[np.float64], padding: int = 0) -> NDArray[np.float64]:
    """One grey picture, loop by loop, in double precision."""
    n = len(image)
    x = np.pad(np.log(1 + image), 5, "symmetric")
    f = np.arange(n + 10) - (n + 10) // 2
    g = np.fft.fftshift(np.exp(-(f[:, None] ** 2 + f**2) / (4 / np.sqrt(np.log(2))) ** 2))
    x = x - np.real(np.fft.ifft2(np.fft.fft2(x) * g))
    x = x / (0.2 + np.sqrt(np.abs(np.fft.ifft2(np.fft.fft2(x**2) * g))))
    spectrum = np.fft.fft2(np.pad(x[5:-5, 5:-5], padding, "symmetric") if padding else x[5:-5, 5:-5])
    side = n + 2 * padding
    f = np.arange(side) - side // 2
    fy, fx = np.meshgrid(f, f, indexing="ij")
    values = []
    for scale in range(4):
        for j in range(8):
            turn = np.angle(np.exp(1j * (np.arctan2(fy, fx) + np.pi * j / 8)))
            radial = (np.hypot(fx, fy) / (side * 0.3 / 1.85**scale) - 1) ** 2
            transfer = np.fft.ifftshift(np.exp(-3.5 * radial - 2 * np.pi * turn**2))
            response = np.abs(np.fft.ifft2(spectrum * transfer))[padding : padding + n, padding : padding + n]
            edges = np.floor(np.linspace(0, n, 5)).astype(int)
            for column in range(4):
                for row in range(4):
                    cell = response[edges[row] : edges[row + 1], edges[column] : edges[column + 1]]
                    values.append(cell.mean())
    return np.array(values)


def test_grey_equals_lear() -> None:
    ours = GIST().describe([formula(32)])[0]
    assert ours.shape == (512,)
    np.testing.assert_allclose(
        ours[[0, 1, 100, 200, 300, 511]],
        [0.06272255, 0.06633712, 0.04177973, 0.10036749, 0.00941261, 0.01312408],
        atol=2e-6,
    )


def test_grey_of_another_size_equals_lear() -> None:
    ours = GIST(side=64).describe([formula(64)])[0]
    np.testing.assert_allclose(
        ours[[0, 1, 100, 200, 300, 511]],
        [0.07060406, 0.13331729, 0.10206703, 0.04424756, 0.01683828, 0.02007553],
        atol=2e-6,
    )


def test_colour_with_unequal_orientations_equals_lear() -> None:
    ours = GIST(colour=True, orientations=(8, 8, 4)).describe([formula(32)])[0]
    assert ours.shape == (960,)
    np.testing.assert_allclose(ours[:4], [0.03611307, 0.03203516, 0.0960278, 0.03248712], atol=2e-6)
    np.testing.assert_allclose(ours[-3:], [0.06166562, 0.03411058, 0.04338641], atol=2e-6)


def test_batches_equal_the_plain_reference() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (70, 32, 32, 3), dtype=np.uint8)
    ours = np.asarray(GIST().transform(pictures))
    for row in (0, 63, 69):
        np.testing.assert_allclose(ours[row], reference(pictures[row].mean(axis=2)), atol=3e-6)


def test_variant_b_equals_the_plain_reference() -> None:
    picture = formula(64)
    grey = picture.mean(axis=2)
    wanted = reference((grey - grey.min()) / (grey.max() - grey.min()) * 255, padding=32)
    np.testing.assert_allclose(GIST(variant="B", side=64).describe([picture])[0], wanted, atol=5e-6)


def test_variant_b_ignores_contrast() -> None:
    picture = formula(64) // 2
    gist = GIST(variant="B", side=64)
    np.testing.assert_allclose(gist.describe([picture])[0], gist.describe([picture + 40])[0], atol=1e-5)


def test_any_size_becomes_the_side() -> None:
    pictures = [np.zeros((20, 33, 3), np.uint8), np.full((300, 200, 3), 90, np.uint8)]
    assert np.asarray(GIST().transform(pictures)).shape == (2, 512)
    assert np.asarray(GIST(variant="B", side=32).transform(pictures)).shape == (2, 512)


def test_a_constant_picture_is_finite() -> None:
    for variant in "AB":
        values = GIST(variant=variant, side=32).describe([np.full((32, 32, 3), 255, np.uint8)])
        assert np.isfinite(values).all()
    assert (stretched(np.full((1, 4, 4), 9, np.float32)) == 0).all()


@pytest.mark.parametrize(("side", "blocks", "padding"), [(10, 4, 0), (10, 5, 2), (16, 4, 1)])
def test_pooling_takes_means_over_blocks(side: int, blocks: int, padding: int) -> None:
    values = np.random.default_rng(0).random(side + 2 * padding).astype(np.float32)
    edges = padding + np.floor(np.linspace(0, side, blocks + 1)).astype(int)
    wanted = [values[start:stop].mean() for start, stop in pairwise(edges)]
    np.testing.assert_allclose(values @ pooling(side, blocks, padding), np.array(wanted), rtol=1e-5)


def test_filters_peak_at_their_centre_frequency() -> None:
    filters = gabor_filters(64, (8, 8, 8, 8))
    assert filters.shape == (32, 64, 64)
    assert int(filters[0][0].argmax()) == round(0.3 * 64)
    assert filters[0][0, 0] == pytest.approx(np.exp(-3.5))


def test_bad_parameters() -> None:
    cases: list[dict[str, Any]] = [
        {"side": 33},
        {"side": 6},
        {"orientations": ()},
        {"orientations": (8, 0)},
        {"blocks": 0},
    ]
    for parameters in cases:
        with pytest.raises(ParameterError):
            GIST(**parameters).transform(np.zeros((1, 32, 32, 3), np.uint8))
