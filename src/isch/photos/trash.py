"""Copies of pictures go to the system's trash, never further; a log says where each went, so that it can come back.

    trash = Trash(folder, log=data / "trash.jsonl")          # the folder of the pictures
    with trash.alone():                                      # one at a time, in all threads and processes
        outcomes = trash.discard([Removal(give_up=[second], keep=[first])])
    trash.undo()                                             # brings back what the last step moved

The caller has asked the user. A file is moved only if it lies in the folder and has not changed since it was listed,
and only while another file that is to be kept, no link to it, exists unchanged. A file that cannot be moved stays where
it is, and its outcome says why; the others are still moved.

The log has one JSON object per line: what is about to be moved, then what happened to it. One thing cannot be
prevented: the system's trash takes a path, so a folder that somebody replaces within microseconds, between the last
check and the move, leads it to another file. That file can be restored from the trash.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, TextIO

from isch.errors import FileError, require
from isch.files import printable, reading
from isch.locks import locked
from isch.photos import below
from isch.photos.below import Held, Refused
from isch.photos.bin import restored, whereabouts
from isch.photos.exact import content_hash

PATIENCE = 60.0  # seconds to wait for others who are moving pictures
LATEST = 1e11  # seconds since 1970: what comes later is no time


@dataclass(frozen=True)
class Listed:
    """A file as it was when it was listed."""

    path: str
    bytes: int
    modified_ns: int
    content: str  # its hash

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> "Listed":
        """The file as it is now."""
        info = os.stat(path)
        return cls(os.fspath(path), info.st_size, info.st_mtime_ns, content_hash(path))


@dataclass(frozen=True)
class Removal:
    """Copies to give up, and the copies of the same picture that are kept."""

    give_up: Sequence[Listed]
    keep: Sequence[Listed]


@dataclass(frozen=True)
class Outcome:
    """What became of one file: where it went if it was moved and that is known, else why it was not moved."""

    path: str
    bytes: int
    content: str
    moved: bool
    to: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Step:
    """What was moved together and can come back together."""

    name: str
    at: float  # seconds since 1970
    entries: list[dict[str, Any]]  # of the log, one for each file


Move = Callable[[str], object]


class Trash:
    """The way to the system's trash, and back, for the files below one folder.

    Parameters
    ----------
    top : the folder; files elsewhere are never moved, and neither are those reached through a link in it
    log : a file of JSON lines, which grows; nothing is moved if it cannot be written
    move : what moves one file; send2trash by default
    """

    def __init__(self, top: str | os.PathLike[str], log: str | os.PathLike[str], move: Move | None = None) -> None:
        self.top = os.path.abspath(top)
        self.log = Path(log)
        self._move = move

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep others, in any thread or process, from moving pictures of this library meanwhile.

        Raises
        ------
        LockedError
            Somebody else is still moving pictures after a minute.
        """
        with locked(self.log.with_name("trash.lock"), PATIENCE, "is moving pictures to the trash"):
            yield

    def discard(self, removals: Sequence[Removal], step: str | None = None) -> list[Outcome]:
        """Move copies to the trash; to be called with the trash ``alone``.

        Parameters
        ----------
        removals : for each group, what to give up and what is kept
        step : the name of the step that these belong to, if it has begun already

        Returns
        -------
        list of Outcome
            One for each file to give up, in order.

        Raises
        ------
        FileError
            The log cannot be written.
        MissingExtra
            send2trash is not installed.
        """
        mover = self._move if self._move is not None else require("send2trash", "photos").send2trash
        given_up = {os.path.realpath(file.path) for removal in removals for file in removal.give_up}
        outcomes = []
        with _writing(self.log, step or token_hex(8)) as record:
            for removal in removals:
                kept = [file for file in removal.keep if os.path.realpath(file.path) not in given_up]
                outcomes += [self._give_up(file, kept, mover, record) for file in removal.give_up]
        return outcomes

    def steps(self) -> list[Step]:
        """The steps that can be undone, the last one at the end."""
        return _steps(_read(self.log))

    def undo(self) -> list[Outcome]:
        """Bring back what the last step moved, to where it was unless something else is there; nothing is replaced.

        Returns
        -------
        list of Outcome
            One for each file; ``moved`` if it is back. Empty if there is nothing to undo.
        """
        with self.alone():
            steps = self.steps()
            if not steps:
                return []
            last = steps[-1]
            with _writing(self.log, last.name) as record:
                outcomes = [self._bring_back(entry, record) for entry in reversed(last.entries)]
                record(event="undone")
            return outcomes

    def _give_up(self, file: Listed, kept: Sequence[Listed], move: Move, record: Callable[..., None]) -> Outcome:
        about = partial(Outcome, file.path, file.bytes, file.content)
        try:
            with self._unchanged(file) as held, self._another(held, kept) as other:
                inode = {"device": held.info.st_dev, "inode": held.info.st_ino}
                record(event="moving", path=file.path, bytes=file.bytes, content=file.content, **inode)
                other.check()
                held.check()
                outcome = about(moved=True, to=_moved(held, move))
        except Refused as refusal:
            outcome = about(moved=False, reason=str(refusal))
        record(event="moved" if outcome.moved else "refused", **asdict(outcome))
        return outcome

    @contextmanager
    def _unchanged(self, file: Listed, given: Held | None = None) -> Iterator[Held]:
        """The file as it was listed, open: one that is given up, or one that is kept in place of ``given``."""
        with below.held(self.top, file.path) as held:
            if given is not None and held.inode == given.inode:
                raise Refused("it is the same file under another name, so giving it up saves nothing")
            held.claim(alone=given is None)
            if (held.info.st_size, held.info.st_mtime_ns) != (file.bytes, file.modified_ns):
                raise Refused("it has changed since it was listed")
            if held.content() != file.content:
                raise Refused("its content has changed since it was listed")
            yield held

    @contextmanager
    def _another(self, given: Held, kept: Sequence[Listed]) -> Iterator[Held]:
        """A copy that is kept, open and unchanged."""
        reasons = []
        with ExitStack() as stack:
            for file in kept:
                try:
                    held = stack.enter_context(self._unchanged(file, given))
                except Refused as refusal:
                    reasons.append(f"{printable(file.path)}, which is to be kept: {refusal}")
                else:
                    yield held
                    return
        why = f"it may be the last copy: {reasons[0]}" if reasons else "it is the last copy: no other one is kept"
        raise Refused(why)

    def _bring_back(self, entry: dict[str, Any], record: Callable[..., None]) -> Outcome:
        path = str(entry["path"])
        about = partial(Outcome, path, int(entry["bytes"]), str(entry["content"]))
        try:
            restored(self.top, path, entry)
            outcome = about(moved=True, to=path)
        except Refused as refusal:
            outcome = about(moved=False, reason=str(refusal))
        record(event="restored" if outcome.moved else "stayed", **asdict(outcome))
        return outcome


def _moved(held: Held, move: Move) -> str | None:
    """Move a file; where it went, if that is known."""
    try:
        move(held.path)
    except Exception as error:  # every desktop's trash fails in its own way
        raise Refused(f"the trash did not take it ({getattr(error, 'strerror', None) or error})") from None
    if os.path.lexists(held.path):
        raise Refused("the trash did not take it, and gave no reason")
    return whereabouts(held.path, held.inode, held.info.st_size)


def _steps(lines: Sequence[dict[str, Any]]) -> list[Step]:
    """What the lines of a log leave to undo."""
    steps: dict[str, Step] = {}
    for line in lines:
        name, event = line.get("step"), line.get("event")
        if not isinstance(name, str):
            continue
        step = steps.get(name) or Step(name, float(line["at"]), [])
        if event == "moving" or name not in steps:
            steps.pop(name, None)
            steps[name] = step  # a step that goes on is the last one
        known = [entry for entry in step.entries if entry["path"] == line.get("path")]
        if event == "moving":
            step.entries.append(line)
        elif event == "moved" and known:
            known[-1].update(to=line.get("to"))
        elif event in ("refused", "restored") and known:
            step.entries.remove(known[-1])
        elif event == "undone":
            del steps[name]
    return [step for step in steps.values() if step.entries]


def _read(log: Path) -> list[dict[str, Any]]:
    """The lines of the log; one that a crash cut short, or that was damaged, is left out."""
    if not os.path.lexists(log):
        return []
    with reading(log) as file:
        text = file.read().decode("utf-8", "replace")
    lines = []
    for line in text.split("\n"):
        with suppress(ValueError, RecursionError):
            found = json.loads(line)
            if isinstance(found, dict) and _is_sound(found):
                lines.append(found)
    return lines


def _is_sound(line: dict[str, Any]) -> bool:
    """Whether a line has what its event needs."""
    at = line.get("at")
    if not isinstance(at, int | float) or not 0 <= at < LATEST:
        return False
    if line.get("event") not in ("moving", "moved", "refused", "restored"):
        return True
    texts = all(isinstance(line.get(name), str) and "\0" not in line[name] for name in ("path", "content"))
    return texts and isinstance(line.get("bytes"), int)


@contextmanager
def _writing(path: Path, step: str) -> Iterator[Callable[..., None]]:
    """A function that adds a line about a step to the log, on disk before it returns."""
    try:
        with open(path, "a+", encoding="utf-8", errors="replace", opener=_no_link) as file:
            _end_line(file)
            yield lambda **values: _append(file, {"at": round(time.time(), 3), "step": step, **values})
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{printable(path)}: the log of the trash cannot be written ({error.strerror})") from error


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


def _end_line(file: TextIO) -> None:
    """Begin a new line after one that a crash cut short."""
    end = file.seek(0, os.SEEK_END)
    if end:
        file.seek(end - 1)
        if file.read(1) != "\n":
            file.write("\n")


def _append(file: TextIO, values: dict[str, Any]) -> None:
    file.write(json.dumps(values) + "\n")
    file.flush()
    os.fsync(file.fileno())
