"""The duplicates of a library as a user reviews them: groups, the copy to keep, decisions, the trash."""

import csv
import io
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np

from isch.describe.decoding.reader import Trait
from isch.errors import InputError, LockedError
from isch.files import printable
from isch.photos import rules as keeping
from isch.photos.candidates import Matches
from isch.photos.catalog import Item
from isch.photos.copies import Copies, find_copies
from isch.photos.decisions import Decision, Decisions, Verdict
from isch.photos.groups import group_matches
from isch.photos.library import Library
from isch.photos.matching import DEFAULT, radius_of, setting_of
from isch.photos.originals import Evidence, examine
from isch.photos.trash import Listed, Outcome, Removal, Trash

Plan = Sequence[tuple[Sequence[int], Sequence[int]]]
UPDATE_SECONDS = 5.0  # to wait for an update under way after files went to the trash
DESCRIBE_SECONDS = 60.0  # to wait for one after files came back: they are looked at again


@dataclass(frozen=True)
class Group:
    """Copies of one picture: which to keep and why, and the setting at which they come together."""

    items: list[Item]
    keep: int  # position among the items
    reason: str  # the rule that decided, or "you"
    closeness: str


class Found(NamedTuple):
    """The pictures of a group, by number, and the largest distance between two of them."""

    numbers: list[int]
    diameter: float


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

    def choose(self, items: Sequence[Item], evidence: Evidence) -> keeping.Choice:
        """The copy to keep, and the rule that decided."""
        return keeping.keep([_copy(item, evidence) for item in items], self.wanted, self.folders)


class Duplicates:
    """The duplicates of a library; pairs are searched for once and again when the collection has changed."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.decisions = Decisions(library.data / "decisions.sqlite")
        self.bin = Trash(library.folder, library.data / "trash.jsonl")
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
        found = self._found(closeness)
        known = self._library.catalog.items([number for group in found for number in group.numbers])
        listed = [_files([known[number] for number in group.numbers if number in known]) for group in found]
        said, wanted = _by_first(self.decisions.all()), preference or Preference()
        evidence = Evidence({}, set())
        if "original" in wanted.rules:
            evidence = examine(self._library.catalog, listed)
        groups = (
            _group(items, setting_of(group.diameter), said, partial(wanted.choose, evidence=evidence))
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

    def trash(self, plan: Plan, closeness: str = DEFAULT, step: str | None = None) -> list[Outcome]:
        """Move copies to the system's trash.

        Parameters
        ----------
        plan : pairs of lists
            For each group the pictures to give up, and those that are kept.
        closeness : str
            The setting at which they were shown: only what is a copy there, or has the same content, may replace a
            picture.
        step : str, optional
            The name of the step these belong to, if it has begun already: a step is undone as a whole.

        Returns
        -------
        list of Outcome
            One for each picture to give up, in order.
        """
        with self.bin.alone():
            asked = self._asked(plan, closeness)
            moves = [one for _, one in asked if isinstance(one, Removal)]
            done = iter(self.bin.discard(moves, step))
            outcomes = [next(done) if isinstance(one, Removal) else one for _, one in asked]
        moved = [number for (number, _), outcome in zip(asked, outcomes, strict=True) if outcome.moved]
        self._library.away(outcome.path for outcome in outcomes if outcome.moved)
        with suppress(LockedError):  # the process that works on the library will see that the files are gone
            self._library.forget(moved, UPDATE_SECONDS)
        return outcomes

    def undo(self) -> list[Outcome]:
        """Bring back what the last step moved to the trash; one outcome for each file, none if there is no step."""
        outcomes = self.bin.undo()
        with suppress(LockedError):  # those who work on the library for so long will see the files
            self._library.update(DESCRIBE_SECONDS)
        return outcomes

    def _asked(self, plan: Plan, closeness: str) -> list[tuple[int, Removal | Outcome]]:
        """What is to be done with each picture to give up, or why nothing is."""
        named = {number for give_up, kept in plan for number in (*give_up, *kept)}
        known = self._library.catalog.items(sorted(named))
        groups = {number: place for place, group in enumerate(self._found(closeness)) for number in group.numbers}
        asked = []
        for give_up, kept in plan:
            others = [known[number] for number in kept if number in known]
            asked += [(number, _removal(number, known.get(number), others, groups)) for number in give_up]
        return asked

    def _found(self, closeness: str) -> list[Found]:
        """All groups, also those on which the user has decided which copy to keep."""
        copies = self._now()
        apart = _rows(copies, self.decisions.apart())
        matches = _of_stills(copies, self._library.catalog.having(Trait.FRAMES))
        found = group_matches(matches, len(copies.numbers), closeness, apart)
        return [Found([copies.numbers[row] for row in group.rows], float(group.diameter)) for group in found]

    def _now(self) -> Copies:
        """All pairs of copies; searched for again when the collection has other pictures, not when it has fewer."""
        with self._lock:
            catalog = self._library.catalog
            if self._copies is None or self._copies.revision != catalog.revision():
                left = self._copies and _left(
                    self._copies, *catalog.at_once(lambda: (catalog.revision(), catalog.digests()))
                )
                self._copies = left or find_copies(self._library)
            return self._copies

    def _items(self, numbers: Sequence[int]) -> list[Item]:
        items = self._library.catalog.items(list(numbers))
        for number in numbers:
            if number not in items:
                raise InputError(f"there is no picture {number} in the library")
        return [items[number] for number in numbers]


def _removal(number: int, item: Item | None, others: Sequence[Item], groups: Mapping[int, int]) -> Removal | Outcome:
    """How a picture is given up for others that are kept: those of them that are copies of it."""
    if item is None:
        return Outcome(f"picture {number}", 0, "", moved=False, reason="there is no such picture in the library")
    group = groups.get(number, -1)
    same = [one for one in others if one.digest == item.digest or groups.get(one.id) == group]
    if others and not same:
        reason = f"{printable(others[0].path)}, which is to be kept, is not a copy of it"
        return Outcome(item.path, item.bytes, item.digest, moved=False, reason=reason)
    return Removal([_listed(item)], [_listed(one) for one in same])


def _of_stills(copies: Copies, animated: Collection[int]) -> Matches:
    """The pairs without those in which one is an animation or has several pages, unless both have the same bytes.

    Only the first frame was compared.
    """
    matches = copies.matches
    moving = np.isin(np.asarray(copies.numbers, np.int64), list(animated))
    doubtful = np.flatnonzero(moving[matches.first] | moving[matches.second])
    refused = [i for i in doubtful if copies.digests[matches.first[i]] != copies.digests[matches.second[i]]]
    wanted = np.ones(len(matches.first), np.bool_)
    wanted[refused] = False
    return matches.where(wanted)


def _files(items: list[Item]) -> list[Item]:
    """Items without those that are another name (a hard link) of one before: to give them up saves nothing."""
    contents = Counter(item.digest for item in items)
    seen: set[tuple[int, int]] = set()
    files = []
    for item in items:
        if contents[item.digest] > 1:
            with suppress(OSError):
                info = os.stat(item.path)
                if (info.st_dev, info.st_ino) in seen:
                    continue
                seen.add((info.st_dev, info.st_ino))
        files.append(item)
    return files


def _left(copies: Copies, revision: str, pictures: Sequence[tuple[int, str]]) -> Copies | None:
    """The pairs among the pictures there are now; None if some of them are new or have changed."""
    rows = {picture: row for row, picture in enumerate(zip(copies.numbers, copies.digests, strict=True))}
    if any(picture not in rows for picture in pictures):
        return None
    place = np.full(len(copies.numbers), -1, np.int64)  # of each row among those that are left
    place[[rows[picture] for picture in pictures]] = np.arange(len(pictures))
    matches = copies.matches._replace(first=place[copies.matches.first], second=place[copies.matches.second])
    found = matches.where((matches.first >= 0) & (matches.second >= 0))
    return Copies(revision, [number for number, _ in pictures], [digest for _, digest in pictures], found)


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


def _group(
    items: list[Item],
    closeness: str,
    said: dict[str, list[Decision]],
    choose: Callable[[Sequence[Item]], keeping.Choice],
) -> Group | None:
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
    choice = choose(items)
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
        value = printable(value)
        return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
    return value


def _chooses(verdict: Verdict) -> bool:
    return verdict in (Verdict.FIRST, Verdict.SECOND)


def _copy(item: Item, evidence: Evidence) -> keeping.Copy:
    return keeping.Copy(
        item.path,
        item.width,
        item.height,
        item.bytes,
        item.format,
        datetime.fromisoformat(item.taken).timestamp(),
        item.camera,
        Trait(item.traits),
        item.quality,
        evidence.looks.get(item.digest),
        item.digest in evidence.enlarged,
    )


def _listed(item: Item) -> Listed:
    return Listed(item.path, item.bytes, item.changed, item.digest)
