"""What stores on servers share: addresses whose passwords stay hidden, and another try when a connection is lost.

A password is hidden by where it stands in an address, never by searching messages for its letters: that would hide
parts of words, and miss a password that a driver cuts in two.
"""

import re
import time
from collections.abc import Callable
from typing import TypeVar

from isch.errors import IschError, ParameterError

T = TypeVar("T")

TRIES = 4
FIRST_WAIT = 0.5  # seconds; doubled each time
_PASSWORD = re.compile(r"^((?:.*?//)?+[^:/@]*:).*@", re.DOTALL)


def masked(address: str) -> str:
    """Return an address with three asterisks in place of its password."""
    return _PASSWORD.sub(r"\1***@", address)


def check_address(address: str, ends: str) -> None:
    """Refuse an address whose password can be cut in two; a driver would print a part of it as a host or a name.

    Parameters
    ----------
    address : str
        Such as ``scheme://user:password@host/name``; anything without ``://`` passes.
    ends : str
        Characters before which the driver looks for the user and the password.
    """
    _, separator, rest = address.partition("://")
    user, at, others = rest.partition("@")
    if separator and at and ("@" in others or any(end in user for end in ends)):
        raise ParameterError(
            "the address has an @ that can be read in two ways; expected at most one, before the host, and in a name "
            "or password %40 for @, %2F for /, %3F for ? and %23 for #"
        )


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
