"""The duplicates of a library as a user reviews them: groups, the copy to keep, decisions, the trash."""

import csv
import io
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from isch.errors import InputError
from isch.photos import rules as keeping
from isch.photos.candidates import Matches
from isch.photos.catalog import Item
from isch.photos.decisions import Decisions, Verdict
from isch.photos.fingerprint import FINGERPRINT
from isch.photos.groups import group_matches
from isch.photos.library import Library
from isch.photos.matching import DEFAULT, find_matches
from isch.photos.trash import Listed, Outcome, Removal, to_trash


@dataclass(frozen=True)
class Group:
    """Copies of one picture: which to keep and why, and the largest distance between two of them."""

    items: list[Item]
    keep: int  # position among the items
    reason: str  # the rule that decided, or "you"
    diameter: float


@dataclass(frozen=True)
class Preference:
    """Which copy is to be kept: rules in the order of their weight, and the folders preferred."""

    rules: Sequence[str] = keeping.DEFAULT
    folders: Sequence[str] = ()

    def choose(self, items: Sequence[Item]) -> keeping.Choice:
        """The copy to keep, and the rule that decided."""
        first = [keeping.FOLDER] if self.folders and keeping.FOLDER not in self.rules else []
        wanted = [name for name in (*first, *self.rules) if name != keeping.FOLDER or self.folders]
        return keeping.keep([_copy(item) for item in items], wanted, self.folders)


class Duplicates:
    """The duplicates of a library; pairs are searched for once and again when the collection has changed."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.decisions = Decisions(library.home / "decisions.sqlite")
        self._lock = threading.Lock()
        self._state: object = None
        self._numbers: list[int] = []
        self._digests: list[str] = []
        self._matches: Matches | None = None

    def groups(self, closeness: str | float = DEFAULT, preference: Preference | None = None) -> list[Group]:
        """Groups that are still to be decided, the largest first.

        Parameters
        ----------
        closeness : "identical", "near", "loose" or a number of bits
            How near copies are.
        preference : Preference
            Which copy is to be kept where the user has not said.
        """
        with self._lock:
            matches = self._found()
            if matches is None:
                return []
            found = group_matches(matches, len(self._numbers), closeness, self._apart())
            rows = [(group.rows, float(group.diameter)) for group in found]
            items = self._library.catalog.items([self._numbers[row] for members, _ in rows for row in members])
        listed = [([items[self._numbers[row]] for row in members], wide) for members, wide in rows]
        groups = [self._group(members, wide, preference or Preference()) for members, wide in listed]
        return sorted((group for group in groups if group is not None), key=lambda g: (-len(g.items), g.items[0].id))

    def decide(self, verdict: str, numbers: Sequence[int], kept: int | None = None) -> None:
        """Remember what the user said of some pictures: "not duplicates", "keep both", "keep one" or "forget"."""
        digests = [item.digest for item in self._items(numbers)]
        if verdict == "not duplicates":
            self.decisions.not_duplicates(digests)
        elif verdict == "keep both":
            self.decisions.keep_all(digests)
        elif verdict == "forget":
            self.decisions.forget(digests)
        elif verdict == "keep one" and kept is not None and kept in numbers:
            chosen = self._items([kept])[0].digest
            self.decisions.keep_one(chosen, [digest for digest in digests if digest != chosen])
        else:
            raise InputError(f"expected a decision and the picture it keeps; got {verdict!r} of picture {kept}")

    def trash(self, plan: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Outcome]:
        """Move copies to the system's trash: for each group the pictures to give up and those kept."""
        removals = [
            Removal([_listed(item) for item in self._items(give_up)], [_listed(item) for item in self._items(kept)])
            for give_up, kept in plan
        ]
        outcomes = to_trash(removals, self._library.home / "trash.jsonl")
        self._library.update()
        return outcomes

    def _found(self) -> Matches | None:
        """All pairs of copies, searched for when the collection is another than last time."""
        rows = list(self._library.catalog.fingerprints())
        state = hash(tuple((number, digest) for number, digest, _ in rows))
        if state != self._state:
            self._numbers = [number for number, _, _ in rows]
            self._digests = [digest for _, digest, _ in rows]
            prints = np.frombuffer(b"".join(blob for _, _, blob in rows), FINGERPRINT)
            self._matches = find_matches(prints, self._vectors()) if rows else None
            self._state = state
        return self._matches

    def _vectors(self) -> NDArray[np.float32]:
        """The vectors of all pictures, in the order of their numbers."""
        places = {number: row for row, number in enumerate(self._numbers)}
        out: NDArray[np.float32] | None = None
        for numbers, vectors in self._library.vectors():
            if out is None:
                out = np.zeros((len(places), vectors.shape[1]), np.float32)
            known = [i for i, number in enumerate(numbers) if number in places]
            out[[places[numbers[i]] for i in known]] = vectors[known]
        return np.zeros((len(places), 1), np.float32) if out is None else out

    def _apart(self) -> list[tuple[int, int]]:
        """The pairs of rows that the user said are not duplicates."""
        rows: dict[str, list[int]] = {}
        for row, digest in enumerate(self._digests):
            rows.setdefault(digest, []).append(row)
        pairs = self.decisions.apart()
        return [(a, b) for one, other in pairs for a in rows.get(one, []) for b in rows.get(other, []) if a != b]

    def _group(self, items: list[Item], diameter: float, preference: Preference) -> Group | None:
        """A group as it is shown; None if the user has said that all of it stays."""
        decided = self.decisions.among({item.digest for item in items})
        both = {(d.first, d.second) for d in decided if d.verdict == Verdict.BOTH}
        digests = sorted({item.digest for item in items})
        if len(digests) > 1 and both.issuperset(combinations(digests, 2)):
            return None
        losers = {d.second if d.verdict == Verdict.FIRST else d.first for d in decided if _chooses(d.verdict)}
        winners = {d.first if d.verdict == Verdict.FIRST else d.second for d in decided if _chooses(d.verdict)} - losers
        for position, item in enumerate(items):
            if item.digest in winners:
                return Group(items, position, "you", diameter)
        choice = preference.choose(items)
        return Group(items, choice.index, choice.rule, diameter)

    def _items(self, numbers: Sequence[int]) -> list[Item]:
        items = self._library.catalog.items(list(numbers))
        for number in numbers:
            if number not in items:
                raise InputError(f"there is no picture {number} in the library")
        return [items[number] for number in numbers]


def as_csv(groups: Sequence[Group]) -> str:
    """The list as CSV, one line per picture."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["group", "keep", "path", "width", "height", "bytes", "format", "taken", "largest distance"])
    for number, group in enumerate(groups, 1):
        for position, item in enumerate(group.items):
            row = [item.path, item.width, item.height, item.bytes, item.format, item.taken, f"{group.diameter:g}"]
            writer.writerow([number, "keep" if position == group.keep else "", *map(_harmless, row)])
    return out.getvalue()


def _harmless(value: object) -> object:
    """A text that a spreadsheet would take for a formula begins with an apostrophe."""
    if isinstance(value, str):
        value = value.encode("utf-8", "backslashreplace").decode()
        return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
    return value


def _chooses(verdict: Verdict) -> bool:
    return verdict in (Verdict.FIRST, Verdict.SECOND)


def _copy(item: Item) -> keeping.Copy:
    date = datetime.fromisoformat(item.taken).timestamp()
    return keeping.Copy(item.path, item.width, item.height, item.bytes, item.format, date)


def _listed(item: Item) -> Listed:
    return Listed(item.path, item.bytes, item.changed, item.digest)
