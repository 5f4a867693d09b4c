"""The duplicates of a library as a user reviews them: groups, the copy to keep, decisions, the trash."""

import csv
import io
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations

from isch.errors import InputError, LockedError
from isch.photos import rules as keeping
from isch.photos.catalog import Item
from isch.photos.copies import Copies, find_copies
from isch.photos.decisions import Decision, Decisions, Verdict
from isch.photos.groups import group_matches
from isch.photos.library import Library
from isch.photos.matching import DEFAULT, radius_of, setting_of
from isch.photos.trash import Listed, Outcome, Removal, to_trash

UPDATE_SECONDS = 5.0  # to wait for an update under way after files went to the trash


@dataclass(frozen=True)
class Group:
    """Copies of one picture: which to keep and why, and the setting at which they come together."""

    items: list[Item]
    keep: int  # position among the items
    reason: str  # the rule that decided, or "you"
    closeness: str


@dataclass(frozen=True)
class Preference:
    """Which copy is to be kept: rules in the order of their weight, and the folders preferred."""

    rules: Sequence[str] = keeping.DEFAULT
    folders: Sequence[str] = ()

    def __post_init__(self) -> None:
        keeping.named(self.wanted, self.folders)  # refuses unknown rules, also where there is nothing to choose

    @property
    def wanted(self) -> list[str]:
        """The rules that can be followed: without a preferred folder, no rule asks for it."""
        first = [keeping.FOLDER] if self.folders and keeping.FOLDER not in self.rules else []
        return [name for name in (*first, *self.rules) if name != keeping.FOLDER or self.folders]

    def choose(self, items: Sequence[Item]) -> keeping.Choice:
        """The copy to keep, and the rule that decided."""
        return keeping.keep([_copy(item) for item in items], self.wanted, self.folders)


class Duplicates:
    """The duplicates of a library; pairs are searched for once and again when the collection has changed."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.decisions = Decisions(library.data / "decisions.sqlite")
        self._lock = threading.Lock()
        self._copies: Copies | None = None

    def groups(self, closeness: str = DEFAULT, preference: Preference | None = None) -> list[Group]:
        """Groups that are still to be decided, the largest first.

        Parameters
        ----------
        closeness : "identical", "same" or "altered"
            Which copies belong together.
        preference : Preference
            Which copy is to be kept where the user has not said.
        """
        radius_of(closeness)
        copies = self._now()
        apart = _rows(copies, self.decisions.apart())
        found = group_matches(copies.matches, len(copies.numbers), closeness, apart)
        numbers = [[copies.numbers[row] for row in group.rows] for group in found]
        known = self._library.catalog.items([number for some in numbers for number in some])
        listed = [[known[number] for number in some if number in known] for some in numbers]
        said, wanted = _by_first(self.decisions.all()), preference or Preference()
        groups = (
            _group(items, setting_of(group.diameter), said, wanted)
            for items, group in zip(listed, found, strict=True)
            if len(items) > 1
        )
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
        outcomes = to_trash(removals, self._library.data / "trash.jsonl")
        self._library.away(outcome.path for outcome in outcomes if outcome.moved)
        with suppress(LockedError):  # the process that works on the library will see that the files are gone
            self._library.update(wait=UPDATE_SECONDS)
        return outcomes

    def _now(self) -> Copies:
        """All pairs of copies, read again when the collection is another than last time."""
        with self._lock:
            if self._copies is None or self._copies.revision != self._library.catalog.revision():
                self._copies = find_copies(self._library)
            return self._copies

    def _items(self, numbers: Sequence[int]) -> list[Item]:
        items = self._library.catalog.items(list(numbers))
        for number in numbers:
            if number not in items:
                raise InputError(f"there is no picture {number} in the library")
        return [items[number] for number in numbers]


def _rows(copies: Copies, pairs: Iterable[tuple[str, str]]) -> list[tuple[int, int]]:
    """The pairs of rows with pairs of contents."""
    rows: dict[str, list[int]] = {}
    for row, digest in enumerate(copies.digests):
        rows.setdefault(digest, []).append(row)
    return [(a, b) for one, other in pairs for a in rows.get(one, []) for b in rows.get(other, []) if a != b]


def _by_first(decided: Sequence[Decision]) -> dict[str, list[Decision]]:
    out: dict[str, list[Decision]] = {}
    for decision in decided:
        out.setdefault(decision.first, []).append(decision)
    return out


def _group(items: list[Item], closeness: str, said: dict[str, list[Decision]], preference: Preference) -> Group | None:
    """A group as it is shown; None if the user has said that all of it stays."""
    digests = sorted({item.digest for item in items})
    decided = [d for digest in digests for d in said.get(digest, []) if d.second in digests]
    both = {(d.first, d.second) for d in decided if d.verdict == Verdict.BOTH}
    if len(digests) > 1 and both.issuperset(combinations(digests, 2)):
        return None
    losers = {d.second if d.verdict == Verdict.FIRST else d.first for d in decided if _chooses(d.verdict)}
    winners = {d.first if d.verdict == Verdict.FIRST else d.second for d in decided if _chooses(d.verdict)} - losers
    for position, item in enumerate(items):
        if item.digest in winners:
            return Group(items, position, "you", closeness)
    choice = preference.choose(items)
    return Group(items, choice.index, choice.rule, closeness)


def as_csv(groups: Sequence[Group]) -> str:
    """The list as CSV, one line per picture."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["group", "keep", "path", "width", "height", "bytes", "format", "taken", "closeness"])
    for number, group in enumerate(groups, 1):
        for position, item in enumerate(group.items):
            row = [item.path, item.width, item.height, item.bytes, item.format, item.taken, group.closeness]
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
