"""Uniform borders of a picture: where they end.

A border line has nearly everywhere the grey value of the outermost line. Lines of writing are passed over where the
border goes on behind them, so that a caption or the status bar of a screenshot is cut off too. A frame inside a frame
is found in the next round.
"""

from math import ceil

import numpy as np
from numpy.typing import NDArray

Box = tuple[int, int, int, int]  # top, bottom, left, right

TOLERANCE = 12  # grey levels that a border may differ from its outermost line
UNIFORM = 0.9  # the share of a border line that must be the border's grey
FILLED = 0.7  # the same over the whole border, with the writing in it
WRITING = 0.1  # the share of the height or width that one line of writing may take
LEAST = 0.15  # the share of the height and width that always remains
ROUNDS = 4


def content(square: NDArray[np.uint8]) -> Box:
    """The box inside the uniform borders of a grey picture; the whole picture if there are none.

    Parameters
    ----------
    square : uint8 (height, width)

    Returns
    -------
    tuple of int
        top, bottom, left, right, as in ``square[top:bottom, left:right]``.
    """
    values = square.astype(np.int16)
    top, bottom, left, right = 0, len(values), 0, values.shape[1]
    for _ in range(ROUNDS):
        before = top, bottom, left, right
        top += width(values[top:bottom, left:right], square.shape[0])
        bottom -= width(values[top:bottom, left:right][::-1], square.shape[0])
        left += width(values[top:bottom, left:right].T, square.shape[1])
        right -= width(values[top:bottom, left:right].T[::-1], square.shape[1])
        if (top, bottom, left, right) == before:
            break
    return top, bottom, left, right


def width(lines: NDArray[np.int16], full: int) -> int:
    """How many of the first lines are border; at least ``LEAST`` of ``full`` lines remain."""
    share = (np.abs(lines - np.median(lines[0])) <= TOLERANCE).mean(axis=1)
    if share[0] < UNIFORM:
        return 0
    filled = np.cumsum(share) / np.arange(1, len(share) + 1)
    uniform = np.flatnonzero(share >= UNIFORM)
    behind = np.diff(uniform) > 1 + WRITING * full
    reached = uniform[: int(behind.argmax()) + 1 if behind.any() else len(uniform)]
    border = reached[(filled[reached] >= FILLED) & (reached < len(lines) - ceil(LEAST * full))]
    return int(border[-1]) + 1 if len(border) else 0
