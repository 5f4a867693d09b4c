"""How long ``isch search`` takes from the shell, as a ratio to ``python -c "import numpy, numba"``: start-up is nearly
all of it. Prints seconds, the ratio, and the slowest imports.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from isch import LSH, Index

ROUNDS = 9


def index(folder: Path) -> list[str]:
    """The command that searches an index of 1,500 items, made in ``folder``."""
    X = np.random.default_rng(0).standard_normal((1500, 64), dtype=np.float32)
    np.save(folder / "query.npy", X[:1])
    with Index.create(folder / "items.isch", LSH(64).fit(X)) as items:
        items.add(X)
    return ["-m", "isch", "search", str(folder / "items.isch"), str(folder / "query.npy"), "-k", "5"]


def best(*commands: list[str]) -> list[float]:
    """The shortest time of each command, taken in turns so that all meet the same machine."""
    times = [[float("inf")] for _ in commands]
    for _ in range(ROUNDS):
        for command, seconds in zip(commands, times, strict=True):
            start = time.perf_counter()
            subprocess.run([sys.executable, *command], check=True, capture_output=True)
            seconds.append(time.perf_counter() - start)
    return [min(t) for t in times]


def slowest(command: list[str], n: int = 12) -> list[str]:
    """The imports of a command that take longest by themselves."""
    done = subprocess.run([sys.executable, "-X", "importtime", *command], check=True, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:") and "[us]" not in line]
    return sorted(lines, key=lambda line: -int(line.split(":")[1].split("|")[0]))[:n]


def main() -> None:
    """Print the comparison."""
    with tempfile.TemporaryDirectory() as folder:
        search = index(Path(folder))
        ours, theirs = best(search, ["-c", "import numpy, numba"])
        print(f"isch search {ours:.2f} s; import numpy, numba {theirs:.2f} s; ratio {ours / theirs:.2f}")
        print("\n".join(slowest(search)))


if __name__ == "__main__":
    main()
