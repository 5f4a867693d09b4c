"""Trying again when a connection is lost."""

import time
from collections.abc import Callable
from typing import TypeVar

from isch.errors import IschError

T = TypeVar("T")

TRIES = 4
FIRST_WAIT = 0.5  # seconds; doubled each time


def retried(work: Callable[[], T], mend: Callable[[], None], lost: Callable[[BaseException], bool]) -> T:
    """``work()``, again after ``mend()`` while its error means a lost connection."""
    wait = FIRST_WAIT
    for _ in range(TRIES - 1):
        try:
            return work()
        except IschError as error:
            if not lost(error):
                raise
        time.sleep(wait)
        wait *= 2
        try:
            mend()
        except IschError:
            continue
    return work()
