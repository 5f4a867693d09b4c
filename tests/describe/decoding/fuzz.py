"""Damage every picture of a folder in many ways and read it: each must give a picture or an error of ours.

    python tests/describe/decoding/fuzz.py FOLDER [ROUNDS [SEED]]

prints tried, read, refused and the slowest case. The file ``last`` in the folder holds the case under way, so that a
crash or a hang can be repeated; an exception that is not ours ends the run with its traceback.
"""

import json
import random
import resource
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from isch.describe import images
from isch.errors import FileError

MEMORY = 4 << 30  # of the whole process
EXTREMES = (b"\0", b"\x01", b"\x7f", b"\x80", b"\xff")


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The content with one kind of damage."""
    data = bytearray(content)
    kind = rng.randrange(5)
    if kind == 0:  # some bytes anywhere
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 1:  # some bits in the header
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(min(len(data), 256))] ^= 1 << rng.randrange(8)
    elif kind == 2:  # a number becomes extreme
        at, size = rng.randrange(len(data)), rng.choice((1, 2, 4, 8))
        data[at : at + size] = rng.choice(EXTREMES) * size
    elif kind == 3:  # the end is missing
        del data[rng.randrange(len(data)) :]
    else:  # a part is moved
        start, end = sorted(rng.sample(range(len(data) + 1), 2))
        data[start:start] = data[start:end]
    return bytes(data)


def cases(folder: Path, rounds: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """(name, content) of every damaged picture, the same for the same seed."""
    for path in sorted(path for path in folder.iterdir() if path.suffix):
        content, rng = path.read_bytes(), random.Random(f"{path.name} {seed}")
        for _ in range(rounds):
            yield path.name, damaged(content, rng)


def outcome(path: Path, side: int | None) -> bool:
    """Whether the picture was read; otherwise it was refused."""
    try:
        decoded = images.decode(path, side)
        images.facts(path)
    except FileError as error:
        message = str(error)
        assert message.startswith(f"{path}: "), message
        assert "\n" not in message, message
        return False
    assert decoded.dtype == np.uint8
    assert decoded.ndim == 3
    assert decoded.shape[2] == 3
    return True


def main(folder: Path, rounds: int = 100, seed: int = 0) -> None:
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    counts = {"tried": 0, "read": 0, "refused": 0}
    slowest = (0.0, "")
    for name, content in cases(folder, rounds, seed):
        path = folder / "last"
        path.write_bytes(content)
        target = path.rename(folder / f"last{Path(name).suffix}")
        start = time.perf_counter()
        counts["read" if outcome(target, 32 if counts["tried"] % 2 else None) else "refused"] += 1
        slowest = max(slowest, (time.perf_counter() - start, name))
        counts["tried"] += 1
        target.unlink()
    sys.stdout.write(json.dumps({**counts, "slowest": slowest}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
