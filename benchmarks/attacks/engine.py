"""Damages copies of good files, has a child process read them, and counts what happens.

The child does the reading, so that a crash or a hang ends the child and not the count.
"""

import multiprocessing
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from attacks.target import Target
from isch.errors import IschError

OUTCOMES = ("tried", "refused", "right", "changed", "wrong", "crashed", "hung", "foreign")
BAD = ("wrong", "crashed", "hung", "foreign")
SECONDS = 20.0  # longer than that is a hang
HEADER = 4096
MEMORY = 12 << 30  # address space of the child; asking for more is a MemoryError there

EXECUTED = "executed"  # what a crafted file with a program in it creates beside the folder it lies in

Damage = Callable[[bytes, random.Random], bytes]


def flip(content: bytes, rng: random.Random) -> bytes:
    """One byte replaced by another one, half of the time near an end, where formats keep what they know of the rest."""
    place = rng.randrange(len(content) if rng.random() < 0.5 else min(len(content), HEADER))
    place = len(content) - 1 - place if rng.random() < 0.25 else place
    other = (content[place] + rng.randrange(1, 256)) % 256
    return content[:place] + bytes([other]) + content[place + 1 :]


def cut(content: bytes, rng: random.Random) -> bytes:
    """The beginning, up to a random place."""
    return content[: rng.randrange(len(content))]


def smear(content: bytes, rng: random.Random) -> bytes:
    """A few bytes in a few places replaced by noise, zeros, ones or what stands elsewhere."""
    for _ in range(rng.choice([1, 1, 2, 4])):
        length, elsewhere = rng.choice([2, 4, 8, 16]), rng.randrange(len(content))
        patches = (rng.randbytes(length), bytes(length), b"\xff" * length, content[elsewhere : elsewhere + length])
        place = rng.randrange(len(content) if rng.random() < 0.5 else min(len(content), HEADER))
        content = content[:place] + rng.choice(patches)[: len(content) - place] + content[place + length :]
    return content


DAMAGES: dict[str, Damage] = {"flips": flip, "cuts": cut, "smears": smear}


class Child:
    """A process that makes attempts for us. It is started again when it dies or hangs."""

    def __init__(self, targets: dict[str, Target]) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._targets = targets
        self._process: Any = None

    def ask(self, name: str, path: Path, patience: float = 1) -> tuple[str, Any]:
        """(outcome, answer or message): "answer", "refused", "foreign", "crashed" or "hung"."""
        if self._process is None:
            self._start()
        self._pipe.send((name, path))
        try:
            if self._pipe.poll(patience * SECONDS):
                return self._pipe.recv()  # type: ignore[no-any-return]
        except (EOFError, ConnectionResetError):
            self._process.join()
            code = self._process.exitcode
            self._process = None
            return "crashed", f"exit code {code}"
        self.stop()
        return "hung", f"no answer within {SECONDS:.0f} seconds"

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._pipe.close()  # which ends it, unless it hangs
            self._process.join(2)
            self._process.kill()
            self._process.join()
            self._process = None

    def _start(self) -> None:
        self._pipe, theirs = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(theirs, self._targets), daemon=True)
        self._process.start()
        theirs.close()


def _serve(pipe: Connection, targets: dict[str, Target]) -> None:
    with suppress(ImportError):  # Windows has no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with suppress(EOFError):
        while True:
            name, path = pipe.recv()
            pipe.send(_attempt(targets[name], path))


def _attempt(target: Target, path: Path) -> tuple[str, Any]:
    try:
        return "answer", target.attempt(path)
    except IschError as error:
        sentence = str(error)
        return ("foreign", f"more than a line: {sentence!r}") if "\n" in sentence else ("refused", sentence)
    except BaseException as error:
        return "foreign", f"{type(error).__name__}: {error}"


def attack(
    child: Child, target: Target, folder: Path, amounts: dict[str, int], seed: int = 0
) -> tuple[Counter[str], list[str]]:
    """(how many of each outcome, a line for each bad one); ``amounts`` says how much of each of ``DAMAGES``."""
    good = folder / "good"
    good.mkdir(parents=True)
    path = target.make(good)
    shutil.copytree(good, folder / "asked", symlinks=True)  # an attempt may change what it reads
    outcome, expected = child.ask(target.name, folder / "asked" / path.name, patience=10)  # it may have to compile
    if outcome != "answer":
        raise RuntimeError(f"{target.name}: the undamaged file was {outcome}: {expected}")
    counts, notes = Counter[str](), list[str]()
    for label, harmed in _damaged(path, folder / "bad", amounts, seed):
        _count(target, label, child.ask(target.name, harmed), expected, counts, notes)
    crafts = folder / "crafted"
    crafts.mkdir()
    for made in target.crafted(crafts):
        kind, said = child.ask(target.name, made)
        if kind == "answer" and target.mended and same(said, expected):
            kind = "right"
        counts.update(["tried", "wrong" if kind == "answer" else kind])
        if kind not in ("refused", "right"):
            notes.append(f"{target.name}: {made.name}: {'accepted' if kind == 'answer' else f'{kind}, {said}'}")
    if (folder / EXECUTED).exists():
        counts.update(["wrong"])
        notes.append(f"{target.name}: a crafted file has run its own code")
    return counts, notes


def _count(
    target: Target, label: str, outcome: tuple[str, Any], expected: Any, counts: Counter[str], notes: list[str]
) -> None:
    kind, answer = outcome
    if kind == "answer":
        kind = "right" if same(answer, expected) else "wrong"
        unnoticeable = shapes(answer) == shapes(expected) or (target.endless and label.startswith("cut"))
        if kind == "wrong" and not target.sealed and unnoticeable:
            kind = "changed"
        answer = ""
    counts.update(["tried", kind])
    if kind in BAD:
        notes.append(f"{target.name}: {label}: {kind} {answer}".rstrip())


def _damaged(path: Path, folder: Path, amounts: dict[str, int], seed: int) -> Iterator[tuple[str, Path]]:
    """(what was done, path) of damaged copies, one at a time, each in its turn at the same place."""
    rng = random.Random(f"{seed} {path.name}")
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    files = [p for p in files if p.stat().st_size]
    plan = [DAMAGES[kind] for kind, count in amounts.items() for _ in range(count)]
    for number, damage in enumerate(plan):
        file = rng.choices(files, [p.stat().st_size + 50 for p in files])[0]
        if path.is_dir() or not folder.exists():  # reading a folder may change it
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(path.parent, folder)
        place = file.relative_to(path.parent)
        (folder / place).write_bytes(damage(file.read_bytes(), rng))
        yield f"{damage.__name__} {number} in {place}", folder / path.name


def shapes(answer: Any) -> Any:
    """The shapes of all arrays of an answer; the rest does not count."""
    if isinstance(answer, list | tuple):
        return [shapes(part) for part in answer] if any(isinstance(part, np.ndarray) for part in answer) else None
    if isinstance(answer, dict):
        return {key: shapes(part) for key, part in answer.items()}
    return answer.shape if isinstance(answer, np.ndarray) else None


def same(a: Any, b: Any) -> bool:
    """Whether two answers are equal, type and shape included."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and bool(a == b)
