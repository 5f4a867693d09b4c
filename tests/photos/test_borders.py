from math import ceil

import numpy as np
import pytest

from isch.photos import borders


def plain_border(lines, full):
    """The twin of ``border``."""
    share = (np.abs(lines.astype(int) - np.median(lines[0])) <= borders.TOLERANCE).mean(axis=1)
    if share[0] < borders.UNIFORM:
        return 0
    filled = np.cumsum(share) / np.arange(1, len(share) + 1)
    uniform = np.flatnonzero(share >= borders.UNIFORM)
    behind = np.diff(uniform) > 1 + borders.WRITING * full
    reached = uniform[: int(behind.argmax()) + 1 if behind.any() else len(uniform)]
    border = reached[(filled[reached] >= borders.FILLED) & (reached < len(lines) - ceil(borders.LEAST * full))]
    return int(border[-1]) + 1 if len(border) else 0


def test_the_kernel_is_the_plain_search():
    rng = np.random.default_rng(0)
    found = set()
    for _ in range(2000):
        height, width = rng.integers(1, 40, 2)
        lines = np.where(rng.random((height, 1)) < 0.3, rng.integers(0, 255, (height, width)), 90).astype(np.uint8)
        lines[rng.random((height, width)) < rng.choice([0, 0.08, 0.12])] = 200
        assert borders.border(lines[:, :], 30) == plain_border(lines, 30)
        found.add(borders.border(lines[:, :], 30))
    assert len(found) > 20


def test_many_are_as_one_by_one(picture):
    many = np.stack([picture, np.full_like(picture, 9), np.pad(picture, ((5, 0), (0, 3)), constant_values=1)[:60, 3:]])
    assert borders.contents(many).tolist() == [list(borders.content(one)) for one in many]


@pytest.fixture
def picture():
    return np.random.default_rng(0).integers(0, 255, (60, 80)).astype(np.uint8)


def framed(picture, value, top, bottom, left, right):
    return np.pad(picture, ((top, bottom), (left, right)), constant_values=value)


@pytest.mark.parametrize("value", [0, 128, 255])
@pytest.mark.parametrize(
    "frame",
    [(5, 5, 5, 5), (30, 30, 40, 40), (60, 90, 80, 70), (20, 20, 0, 0), (0, 0, 7, 30), (0, 3, 0, 0), (0, 0, 0, 0)],
)
def test_what_is_inside_a_uniform_border_is_found(picture, value, frame):
    top, bottom, left, right = frame
    whole = framed(picture, value, *frame)
    assert borders.content(whole) == (top, whole.shape[0] - bottom, left, whole.shape[1] - right)


def test_a_border_may_be_noisy(picture):
    whole = framed(picture, 100, 10, 10, 10, 10).astype(int)
    noise = np.random.default_rng(1).integers(-8, 9, whole.shape)
    noise[10:-10, 10:-10] = 0
    assert borders.content((whole + noise).astype(np.uint8)) == (10, 70, 10, 90)


def test_a_frame_inside_a_frame_is_cut_off_too(picture):
    assert borders.content(framed(framed(picture, 0, 3, 3, 3, 3), 255, 8, 8, 8, 8)) == (11, 71, 11, 91)


def test_writing_in_a_border_is_passed_over(picture):
    whole = framed(picture, 255, 0, 24, 0, 0)
    whole[68:74, 30:50] = 0
    assert borders.content(whole) == (0, 60, 0, 80)


def test_some_of_the_picture_always_remains():
    flat = np.full((128, 128), 7, np.uint8)
    top, bottom, left, right = borders.content(flat)
    assert bottom - top >= 0.15 * 128 - 1
    assert right - left >= 0.15 * 128 - 1


def test_a_picture_of_one_pixel_is_no_border():
    assert borders.content(np.zeros((1, 1), np.uint8)) == (0, 1, 0, 1)
