"""One writer or one reader of an index under load, for test_reliability: ``index_stress.py role folder seconds seed``.

The role "look" is a reader who may not write to the folder, because it is another user.

Before each change the writer stores what the index must then hold, under the number of the generation to come; a
reader compares its answers with what was stored for the generation it sees. The writer goes on for the time given and
until every reader has seen enough generations, however slow the machine; then the readers end.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.files import replacing
from isch.search.index import Index

N_BYTES = 8
READERS = 4
ENOUGH = 6  # generations a reader must have seen
State = dict[str, NDArray[Any]]


def empty() -> State:
    return {"keys": np.empty(0, np.int64), "groups": np.empty(0, np.int64), "codes": np.empty((0, N_BYTES), np.uint8)}


def without(state: State, keys: NDArray[np.int64]) -> State:
    stay = ~np.isin(state["keys"], keys)
    return {name: column[stay] for name, column in state.items()}


def with_more(state: State, more: State) -> State:
    return {name: np.concatenate([state[name], more[name]]) for name in state}


def invent(rng: np.random.Generator, count: int, keys: NDArray[np.int64]) -> State:
    codes = rng.integers(0, 256, (count, N_BYTES), dtype=np.uint8)
    return {"keys": keys, "groups": rng.integers(0, 5, count), "codes": codes}


def store(folder: Path, generation: int, state: State) -> None:
    with replacing(folder.with_suffix(".states") / f"{generation}.npz") as temporary:
        np.savez(temporary, keys=state["keys"], groups=state["groups"], codes=state["codes"])


def write(folder: Path, seconds: float, seed: int) -> None:
    rng, state, free, end = np.random.default_rng(seed), empty(), 0, time.monotonic() + seconds
    with Index.open(folder) as index:
        while time.monotonic() < end or len(list(folder.with_suffix(".states").glob("enough-*"))) < READERS:
            generation = index.info()["generation"] + 1
            kind = rng.choice(["add", "upsert", "delete", "compact"], p=[0.4, 0.25, 0.25, 0.1])
            count = int(rng.choice([1, 20, 500]))
            some = rng.choice(state["keys"], min(count, len(state["keys"]) // 3), replace=False)
            if kind == "add":
                more, free = invent(rng, count, np.arange(free, free + count)), free + count
                state = with_more(state, more)
                store(folder, generation, state)
                index.add(more["codes"], more["keys"], [{"group": int(g)} for g in more["groups"]])
            elif kind == "upsert" and len(some):
                more = invent(rng, len(some), some)
                state = with_more(without(state, some), more)
                store(folder, generation, state)
                index.upsert(more["codes"], more["keys"], [{"group": int(g)} for g in more["groups"]])
            elif kind == "delete" and len(some):
                state = without(state, some)
                store(folder, generation, state)
                index.delete(some)
            else:
                store(folder, generation, state)
                index.compact()
    (folder.with_suffix(".states") / "finished").touch()


def expected(state: State, query: NDArray[np.uint8], k: int, group: int | None) -> list[tuple[int, int]]:
    allowed = np.ones(len(state["keys"]), bool) if group is None else state["groups"] == group
    distances = np.bitwise_count(state["codes"][allowed] ^ query).sum(axis=1)
    order = np.argsort(distances, kind="stable")[:k]
    return list(zip(state["keys"][allowed][order].tolist(), distances[order].tolist(), strict=True))


def become_nobody() -> None:
    """Be a user who may write nowhere; what is needed is imported before, as only root may be able to read it."""
    with tempfile.TemporaryDirectory() as place, Index.create(Path(place) / "x.isch", n_bits=8 * N_BYTES) as index:
        index.add(np.zeros((20, N_BYTES), np.uint8), metadata={"group": 0})
        index.search(np.zeros(N_BYTES, np.uint8), where={"group": 0})
        index.verify()
        np.savez(Path(place) / "x.npz", x=np.zeros(3))
        dict(np.load(Path(place) / "x.npz"))
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def look(folder: Path, seconds: float, seed: int) -> None:
    """Read as another user, who also verifies now and then."""
    become_nobody()
    if os.access(folder, os.W_OK) or os.access(folder / "segments", os.W_OK):
        raise SystemExit("nobody may write")
    read(folder, seconds, seed, verifying=True)


def read(folder: Path, _: float, seed: int, verifying: bool = False) -> None:
    rng, seen = np.random.default_rng(seed), set()
    notes = folder.with_suffix(".states")
    index = Index.open(folder)
    while not (notes / "finished").exists():
        if rng.random() < 0.5:
            index.refresh()
        elif rng.random() < 0.1:
            index = Index.open(folder)
        elif verifying and rng.random() < 0.1 and (found := index.verify()):
            raise SystemExit(f"false alarm: {found}")
        generation = index.info()["generation"]
        if generation == 0:
            continue
        with np.load(folder.with_suffix(".states") / f"{generation}.npz") as stored:
            state = dict(stored)
        query = rng.integers(0, 256, N_BYTES, dtype=np.uint8)
        k, group = int(rng.integers(1, 30)), [None, 0, 3][int(rng.integers(3))]
        hits = index.search(query, k, where=None if group is None else {"group": group})[0]
        found = [(int(hit.key), int(hit.distance)) for hit in hits]
        if found != expected(state, query, k, group) or len(index) != len(state["keys"]):
            raise SystemExit(f"wrong answer at generation {generation}: {found}")
        seen.add(generation)
        if len(seen) == ENOUGH:
            (notes / f"enough-{seed}").touch()
    sys.stdout.write(f"{len(seen)}\n")


if __name__ == "__main__":
    role, folder, seconds, seed = sys.argv[1:]
    {"read": read, "look": look, "write": write}[role](Path(folder), float(seconds), int(seed))
