"""One thing that is attacked."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def nothing(_: Path) -> Iterable[Path]:
    """No crafted files."""
    return ()


@dataclass(frozen=True)
class Target:
    """A file or folder, and how a user reads it.

    Parameters
    ----------
    name
        What the table calls it; the part before the first space is its group (``--only features``).
    make
        ``make(folder)`` writes a good file or folder into an empty folder and returns its path.
    attempt
        ``attempt(path)`` reads it as a user would and returns the answer: arrays, strings, numbers, or lists and
        dictionaries of them. Anything it raises that is not an ``isch.errors`` exception counts as foreign.
    sealed
        Whether checksums cover every byte, so that damage is either refused or changes nothing. Where they do not,
        an answer of the right shape with changed values counts as ``changed``, not as ``wrong``.
    endless
        Whether the format does not say how many rows there are, so that a file cut between two rows is a good one.
        Such an answer counts as ``changed`` too.
    crafted
        ``crafted(folder)`` writes files that must be refused, and yields their paths, each with a telling name. A
        program in them shall create the file ``executed`` in the folder above; that counts as ``wrong``.
    mended
        Whether what is damaged or crafted may also be made again: then the answer is that of the good file.
    """

    name: str
    make: Callable[[Path], Path]
    attempt: Callable[[Path], Any]
    sealed: bool
    crafted: Callable[[Path], Iterable[Path]] = nothing
    endless: bool = False
    mended: bool = False

    @property
    def group(self) -> str:
        """The first word of the name."""
        return self.name.partition(" ")[0]
