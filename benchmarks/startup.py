"""How soon a command answers: whole processes, as ratios to one that only imports NumPy and Numba.

python benchmarks/startup.py              nine rounds of each command, in turns
python benchmarks/startup.py --rounds 3   quicker
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from report import machine, section, table
from sklearn.datasets import load_digits

import isch

ITEMS, BITS = 1500, 48
PEER = "import numpy, numba"
MODULES = ("sklearn", "scipy", "numba", "pandas", "rich")  # what a quick command should not need


def commands(folder: Path) -> dict[str, list[str]]:
    """What is timed, by name; the peer first."""
    digits = load_digits().data.astype(np.float32)[:ITEMS]
    hasher = isch.DiffusionHash(BITS).fit(digits)
    hasher.save(folder / "model.safetensors")
    isch.Index.create(folder / "digits.isch", hasher, digits).close()
    np.save(folder / "query.npy", digits[0])
    program = [sys.executable, "-m", "isch"]
    return {
        f'python -c "{PEER}"': [sys.executable, "-c", PEER],
        f"isch search, {ITEMS:,} items": [*program, "search", "digits.isch", "query.npy"],
        "isch info, a model": [*program, "info", "model.safetensors"],
        "isch info, an index": [*program, "info", "digits.isch"],
        "isch --help": [*program, "--help"],
    }


def environment() -> dict[str, str]:
    """Compiled modules are kept, as in any installation."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def seconds(command: list[str], folder: Path) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment(), check=True, capture_output=True)
    return time.perf_counter() - start


def trace(command: list[str], folder: Path) -> list[tuple[int, str]]:
    """(microseconds by itself, module) of every import of a command."""
    traced = [command[0], "-X", "importtime", *command[1:]]
    lines = subprocess.run(traced, cwd=folder, env=environment(), check=True, capture_output=True, text=True).stderr
    cells = [line.removeprefix("import time:").split("|") for line in lines.splitlines() if line.count("|") == 2]
    return [(int(own), module.strip()) for own, _, module in cells if own.strip().isdigit()]


def heavy(imports: list[tuple[int, str]]) -> str:
    """Which of the heavy modules are among some imports."""
    names = {module for _, module in imports}
    return ", ".join(module for module in MODULES if module in names) or "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        timed = commands(folder)
        for command in timed.values():
            seconds(command, folder)  # compiles and caches what is compiled once
        taken: dict[str, list[float]] = {what: [] for what in timed}
        for _ in range(rounds):
            for what, command in timed.items():
                taken[what].append(seconds(command, folder))
        imports = {what: trace(command, folder) for what, command in timed.items()}
    best = {what: min(times) for what, times in taken.items()}
    peer = next(iter(best.values()))
    rows: list[list[object]] = [[what, best[what], best[what] / peer, heavy(imports[what])] for what in timed]
    text = f"""## Start-up

Whole processes, best of {rounds} rounds taken in turns. Here a smaller ratio is better. Heavy imports are those of
{", ".join(MODULES)}.

{table(["what", "seconds", f"ratio to `{PEER}`", "heavy imports"], rows)}

{machine("scipy", "typer")}"""
    print(text)
    search = list(imports.values())[1]
    print("\nslowest imports of isch search:", *sorted(search, reverse=True)[:12], sep="\n")
    section("startup", text)


if __name__ == "__main__":
    main()
