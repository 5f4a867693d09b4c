"""Uniform borders of a picture: where they end.

A border line has the grey value of the outermost line almost everywhere. Lines of text are skipped if the border
continues behind them, so that a caption or the status bar of a screenshot is cut off too. A frame inside a frame is
found in the next round.
"""

import math

import numpy as np
from numba import njit

TOLERANCE = 12  # grey levels that a border may differ from its outermost line
UNIFORM = 0.9  # the share of a border line that must be the border's grey
FILLED = 0.7  # the same over the whole border, with the writing in it
WRITING = 0.1  # the share of the height or width that one line of writing may take
LEAST = 0.15  # the share of the height and width that always remains
ROUNDS = 4


@njit(cache=True, nogil=True)
def contents(squares):  # type: ignore[no-untyped-def]
    """The boxes inside the uniform borders of grey pictures; the whole picture where there are none.

    Parameters
    ----------
    squares : uint8 (n, height, width)

    Returns
    -------
    int64 (n, 4)
        top, bottom, left, right, as in ``square[top:bottom, left:right]``.
    """
    out = np.empty((len(squares), 4), np.int64)
    for picture in range(len(squares)):
        out[picture] = content(squares[picture])
    return out


@njit(cache=True, nogil=True)
def content(square):  # type: ignore[no-untyped-def]
    """(top, bottom, left, right) of one picture."""
    height, width = square.shape
    top, bottom, left, right = 0, height, 0, width
    for _ in range(ROUNDS):
        before = top, bottom, left, right
        top += border(square[top:bottom, left:right], height)
        bottom -= border(square[top:bottom, left:right][::-1], height)
        left += border(square[top:bottom, left:right].T, width)
        right -= border(square[top:bottom, left:right].T[::-1], width)
        if (top, bottom, left, right) == before:
            break
    return top, bottom, left, right


@njit(cache=True, nogil=True)
def border(lines, full):  # type: ignore[no-untyped-def]
    """How many of the first lines are border; at least ``LEAST`` of ``full`` lines remain."""
    grey, most = np.median(lines[0]), len(lines) - math.ceil(LEAST * full)
    last, found, total = 0, 0, 0.0
    for at in range(most):
        share = agreeing(lines[at], grey) / lines.shape[1]
        total += share
        if share >= UNIFORM:
            last = at
            if total / (at + 1) >= FILLED:
                found = at + 1
        elif at == 0 or at - last > WRITING * full:
            break
    return found


@njit(cache=True, nogil=True)
def agreeing(line, grey):  # type: ignore[no-untyped-def]
    """How many pixels of a line have about the same grey value."""
    count = 0
    for value in line:
        if abs(value - grey) <= TOLERANCE:
            count += 1
    return count
