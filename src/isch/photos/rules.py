"""Which copy of a picture to keep: rules in order of priority; if one sees no difference, the next decides.

    choice = keep(copies, ["folder", "pixels", "format"], folders=["/home/me/Pictures/Best"])
    copies[choice.index], choice.rule

A rule is a function of one copy; the least value wins. The path decides last, so the outcome never depends on the order
of the copies.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from isch.errors import InputError, unknown

RAW = frozenset(
    ["RAW", "DNG", "CR2", "CR3", "CRW", "NEF", "NRW", "ARW", "SRF", "SR2", "RAF", "RW2", "ORF", "PEF", "SRW"]
)
HEIC = frozenset(["HEIC", "HEIF"])
_RANKS = {**dict.fromkeys(RAW, 0), **dict.fromkeys(HEIC, 1), "TIFF": 2, "JPEG": 3, "MPO": 3}
_CONVERTED = 4  # PNG, WebP, GIF and others: of a photograph usually made from a JPEG


@dataclass(frozen=True)
class Copy:
    """What the rules know of one copy of a picture."""

    path: str
    width: int
    height: int
    bytes: int
    format: str  # as Pillow names it, or the suffix of a camera's RAW format, such as "NEF"
    date: float | None = None  # when it was taken or last changed, in seconds since 1970

    @property
    def folder(self) -> str:
        """The folder it lies in."""
        return os.path.dirname(self.path)


@dataclass(frozen=True)
class Choice:
    """The copy to keep, and the rule that decided; "path" if no rule saw a difference, "only" if there was one copy."""

    index: int
    rule: str


Rule = Callable[[Copy], float]


def most_pixels(copy: Copy) -> float:
    """More pixels are better."""
    return -copy.width * copy.height


def largest_file(copy: Copy) -> float:
    """More bytes are better."""
    return -copy.bytes


def best_format(copy: Copy) -> float:
    """RAW before HEIC before TIFF before JPEG before what is usually converted from one of them."""
    return _RANKS.get(copy.format.upper(), _CONVERTED)


def oldest(copy: Copy) -> float:
    """An earlier date is better; a known one better than none."""
    return math.inf if copy.date is None or math.isnan(copy.date) else copy.date


def preferred_folder(folders: Sequence[str | os.PathLike[str]]) -> Rule:
    """Below an earlier folder of the list is better; below any of them better than elsewhere."""
    tops = [os.path.normpath(os.fspath(folder)) for folder in folders]

    def place(copy: Copy) -> float:
        folder = os.path.normpath(copy.folder)
        return next((i for i, top in enumerate(tops) if _below(folder, top)), len(tops))

    return place


def _below(folder: str, top: str) -> bool:
    return folder == top or folder.startswith(top.rstrip(os.sep) + os.sep)


RULES: Mapping[str, Rule] = {
    "pixels": most_pixels,
    "bytes": largest_file,
    "format": best_format,
    "oldest": oldest,
}
FOLDER = "folder"  # the rule that needs to be told something: the preferred folders
DEFAULT = ("pixels", "format", "bytes", "oldest")


def keep(
    copies: Sequence[Copy], rules: Sequence[str] = DEFAULT, folders: Sequence[str | os.PathLike[str]] = ()
) -> Choice:
    """The copy to keep.

    Parameters
    ----------
    copies : at least one
    rules : names of rules, the weightiest first: "pixels", "bytes", "format", "oldest", "folder"
    folders : the preferred folders for the rule "folder", the most preferred first

    Returns
    -------
    Choice

    Raises
    ------
    InputError
        There are no copies, a rule is unknown, or "folder" is asked for without folders.
    """
    if not copies:
        raise InputError("expected at least one copy to choose from; got none")
    chosen = named(rules, folders)
    left = list(range(len(copies)))
    if len(left) == 1:
        return Choice(0, "only")
    for name, rule in chosen.items():
        values = [rule(copies[i]) for i in left]
        left = [i for i, value in zip(left, values, strict=True) if value == min(values)]
        if len(left) == 1:
            return Choice(left[0], name)
    return Choice(min(left, key=lambda i: (copies[i].path, i)), "path")


def named(rules: Sequence[str], folders: Sequence[str | os.PathLike[str]] = ()) -> dict[str, Rule]:
    """The rules of some names, in order."""
    every = {**RULES, FOLDER: preferred_folder(folders)}
    for name in rules:
        if name not in every:
            raise unknown("rule", name, every)
    if FOLDER in rules and not folders:
        raise InputError('the rule "folder" needs at least one preferred folder; got none')
    return {name: every[name] for name in rules}
