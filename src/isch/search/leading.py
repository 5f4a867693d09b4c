"""Reading less: tiles whose leading words alone are too far from all queries of a group are dismissed.

How many words it takes to dismiss a tile is measured on a few tiles, as limits fall. Then the number of leading words
is chosen with which all tiles cost least: those words of every tile, and all words of a tile that they do not dismiss.
Where this saves nothing, as with random codes, all words are compared at once. Tiles are not dismissed one by one,
because a branch that the CPU does not foresee costs more than it saves: 64 tiles give a mask.
"""

import numpy as np
from numba import njit

from isch.search.byte_scan import TOGETHER
from isch.search.kernels import BYTES, lowest_bit, next_hit, possible_tiles

UNIT = TOGETHER if BYTES else 1  # words that are counted together
FEWEST_WORDS = 3  # of codes that are worth it
SAMPLE, FEW = 64, 8  # tiles, and those after which it may be clear that nothing is saved
WAIT, AGAIN = 256, 8  # tiles before limits are low enough to measure, and the growth until it is done again
COUNT, LOOK = 3.0, 0.6  # instructions per query: to count a word, to compare with the limit
FIXED, CALL = 6.0, 80.0  # instructions per tile, and more for one that is not dismissed
AT_ONCE = 64  # tiles in a mask


@njit(cache=True, nogil=True)
def every_word(groups, words, first, wait):  # type: ignore[no-untyped-def]
    """For each group of queries, the state of a scan of tiles from ``first`` on, in which none is dismissed yet.

    It is (leading words, first tile, tile at which to measure; a mask of possible tiles, its first tile and its end).
    """
    states = np.zeros((groups, 6), np.int64)
    states[:, 0], states[:, 1], states[:, 2] = words, first, first + wait
    return states


@njit(cache=True, nogil=True)
def dismissed_after(at, tile, words, width):  # type: ignore[no-untyped-def]
    """How many leading words dismiss a tile; words + 1 if all do not."""
    low, high = 0, -(-words // UNIT) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if possible_tiles(at, tile, tile + 1, words, min(UNIT * middle, words), width):
            low = middle
        else:
            high = middle
    return min(UNIT * high, words) if UNIT * (high - 1) < words else words + 1


@njit(cache=True, nogil=True)
def cost(dismissals, leading, words, width):  # type: ignore[no-untyped-def]
    """Instructions per tile, if some are dismissed after so many words."""
    whole = COUNT * width * words + LOOK * width + FIXED
    if leading == words:
        return whole
    stay = (np.sum(dismissals > leading) + 1.0) / (len(dismissals) + 2.0)  # Laplace's rule
    return COUNT * width * leading + LOOK * width + FIXED + stay * (whole + CALL)


@njit(cache=True, nogil=True)
def begin(at, n, words, width, state, tile):  # type: ignore[no-untyped-def]
    """Begin with a block of n tiles; if it is time at this tile, choose the leading words from a sample of them.

    Returns whether all words are to be compared at once, for which ``next_hit`` is quicker.
    """
    state[5] = 0
    if words < FEWEST_WORDS or tile < state[2]:
        return state[0] == words
    state[2] = state[1] + max(WAIT, AGAIN * (tile - state[1]))
    size = min(SAMPLE, n)
    dismissals = np.empty(size, np.int64)
    for i in range(size):
        dismissals[i] = dismissed_after(at, i * n // size, words, width)
        if i + 1 == FEW and dismissals[:FEW].min() >= words:
            state[0] = words
            return True
    state[0], least = words, cost(dismissals, words, words, width)
    for leading in range(UNIT, words, UNIT):
        now = cost(dismissals, leading, words, width)
        if now < least:
            state[0], least = leading, now
    return state[0] == words


@njit(cache=True, nogil=True)
def next_near(at, tile, last, words, width, state):  # type: ignore[no-untyped-def]
    """As ``next_hit`` from a tile on, without those that leading words dismiss."""
    while tile < last:
        if tile >= state[5]:
            state[4], state[5] = tile, min(tile + AT_ONCE, last)
            state[3] = np.int64(possible_tiles(at, tile, state[5], words, state[0], width))
        mask = np.uint64(state[3]) >> np.uint64(tile - state[4])
        if mask:
            tile += lowest_bit(mask)
            if next_hit(at, tile, tile + 1, words, width) == tile:
                return tile
            tile += 1
        else:
            tile = state[5]
    return last
