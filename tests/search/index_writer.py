"""A program that changes an index until it is killed, for test_reliability.

It imports once and then forks a writer for each line "folder log seed" on its input, answering with the writer's pid.
A writer logs each operation before it begins and after it is acknowledged.
"""

import json
import os
import sys
from typing import Any

import filelock  # noqa: F401  so that it is imported once
import numpy as np

from isch.search.index import Index

N_BITS = 60
KEYS = 300
Operation = dict[str, Any]


def code(version: int) -> list[int]:
    """The code that an operation with this number gives its first item."""
    bits = np.random.default_rng(version).integers(0, 256, 8, dtype=np.uint8)
    bits[-1] &= 0xF0
    return [int(byte) for byte in bits]


def codes(operation: Operation) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.array([code(operation["version"] + i) for i in range(len(operation["keys"]))], np.uint8)


def metadata(operation: Operation) -> list[dict[str, int]]:
    return [{"version": operation["version"] + i} for i in range(len(operation["keys"]))]


def invent(rng: np.random.Generator, present: set[str]) -> Operation:
    """A random operation that is possible while these keys are present."""
    kind = str(rng.choice(["add", "add", "upsert", "delete", "compact"]))
    absent = sorted({f"k{i}" for i in range(KEYS)} - present)
    choices = {"add": absent, "upsert": sorted(present) + absent, "delete": sorted(present), "compact": []}[kind]
    count = min(len(choices), int(rng.choice([1, 3, 40])))
    if count == 0:
        return {"kind": "compact", "keys": [], "version": 0}
    keys = [str(key) for key in rng.choice(choices, count, replace=False)]
    return {"kind": kind, "keys": keys, "version": int(rng.integers(2**40))}


def apply(index: Index, operation: Operation) -> None:
    """Do an operation on the index."""
    keys = operation["keys"]
    if operation["kind"] == "add":
        index.add(codes(operation), keys, metadata(operation))
    elif operation["kind"] == "upsert":
        index.upsert(codes(operation), keys, metadata(operation))
    elif operation["kind"] == "delete":
        index.delete(keys)
    else:
        index.compact()


def expect(state: dict[str, int], operation: Operation) -> dict[str, int]:
    """The versions by key that an operation leaves."""
    state = {key: version for key, version in state.items() if key not in operation["keys"]}
    if operation["kind"] in ("add", "upsert"):
        state |= {key: operation["version"] + i for i, key in enumerate(operation["keys"])}
    return state


def write_for_ever(folder: str, log: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    index = Index.open(folder)
    present = {str(key) for key in index}
    while True:
        operation = invent(rng, present)
        os.write(handle, f"begin {json.dumps(operation)}\n".encode())
        apply(index, operation)
        os.write(handle, b"done\n")
        present = set(expect(dict.fromkeys(present, 0), operation))


def serve() -> None:
    """Fork a writer for each line of input."""
    for line in sys.stdin:
        folder, log, seed = line.split()
        pid = os.fork()
        if pid == 0:
            write_for_ever(folder, log, int(seed))
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        os.waitpid(pid, 0)
        sys.stdout.write("gone\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
