"""Targets that behave badly in every way, to see that the attack notices; run by test_attack.py."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from attacks import engine
from attacks.engine import Child, attack
from attacks.target import Target

from isch.errors import FormatError

GOOD = bytes(100)


def make(folder: Path) -> Path:
    (folder / "x").write_bytes(GOOD)
    return folder / "x"


def crafted(folder: Path) -> Iterator[Path]:
    (folder / "crafted").write_bytes(b"crafted")
    yield folder / "crafted"


def damaged(path: Path) -> bool:
    return path.read_bytes() != GOOD


def right(path: Path) -> Any:
    return np.zeros(3)


def refused(path: Path) -> Any:
    if damaged(path):
        raise FormatError("no")
    return 1


def two_lines(path: Path) -> Any:
    if damaged(path):
        raise FormatError("one\ntwo")
    return 1


def foreign(path: Path) -> Any:
    return 1 // (not damaged(path))


def ended(path: Path) -> Any:
    if damaged(path):
        sys.exit(0)
    return 1


def crashed(path: Path) -> Any:
    if damaged(path):
        os.abort()
    return 1


def hung(path: Path) -> Any:
    if damaged(path):
        time.sleep(60)
    return 1


def changed(path: Path) -> Any:
    return np.full(3, damaged(path))


def reshaped(path: Path) -> Any:
    return np.zeros(3 + damaged(path))


def executed(path: Path) -> Any:
    if damaged(path):
        (path.parents[1] / "executed").touch()
    return refused(path)


ATTEMPTS = (right, refused, two_lines, foreign, ended, crashed, hung, changed, reshaped, executed)
TARGETS = {f.__name__: Target(f.__name__, make, f, sealed=f is not changed) for f in ATTEMPTS}
TARGETS["sealed"] = Target("sealed", make, changed, sealed=True)
TARGETS["crafted"] = Target("crafted", make, right, sealed=True, crafted=crafted)


def main() -> None:
    import tempfile

    engine.SECONDS = 3.0
    child, results = Child(TARGETS), {}
    with tempfile.TemporaryDirectory() as folder:
        for name, target in TARGETS.items():
            flips = 1 if name in ("crashed", "hung") else 2
            amounts = {"flips": flips, "cuts": 1 if name != "hung" else 0}
            counts, notes = attack(child, target, Path(folder) / name, amounts)
            results[name] = {**counts, "notes": len(notes)}
    child.stop()
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    main()
