"""What new code did to the stored results, for every method whose revision was raised and that was run again.

    python benchmarks/changed_results.py REVISION    # of Git: its results/ against the present ones

Before and after are means of the headline measure over the seeds that both have.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from isch.evaluate import experiment, names, table
from isch.evaluate.markdown import table as markdown
from isch.evaluate.runs import Result

RESULTS = Path("results")

Pairs = dict[tuple[str, int], list[tuple[Result, Result]]]  # (label, bits): before and after, by seed


def before(revision: str, name: str) -> list[Result]:
    """The results of an experiment as a revision of the repository has them."""
    with tempfile.TemporaryDirectory() as folder:
        for file in (f"{name}.csv", f"{name}.safetensors"):
            shown = subprocess.run(["git", "show", f"{revision}:{RESULTS / file}"], capture_output=True, check=False)
            if shown.returncode:
                return []
            (Path(folder) / file).write_bytes(shown.stdout)
        return table.read(Path(folder) / f"{name}.csv")


def pairs(old: list[Result], new: list[Result]) -> Pairs:
    """Runs that another revision has made again."""
    earlier, found = {result.run.plan: result for result in old}, Pairs()
    for result in new:
        twin = earlier.get(result.run.plan)
        if twin is not None and twin.revision != result.revision:
            found.setdefault((result.run.label, result.run.bits or 0), []).append((twin, result))
    return found


def rows(found: Pairs) -> list[list[str]]:
    """One line per method."""
    lengths, out = sorted({bits for _, bits in found}), []
    for label in sorted({label for label, _ in found}):
        cells = [found.get((label, bits), []) for bits in lengths]
        n = {len(cell) for cell in cells if cell}
        seeds = str(min(n)) if len(n) == 1 else f"{min(n)}–{max(n)}"
        out.append([names.of_method(label), seeds, *map(_cell, cells)])
    return out


def _cell(both: list[tuple[Result, Result]]) -> str:
    if not both:
        return "–"
    was, now = (names.number(_headline([pair[i] for pair in both])) for i in (0, 1))
    return was if was == now else f"{was} → {now}"


def _headline(results: list[Result]) -> float:
    return float(np.mean([result.means[result.run.measures[0]]["expected"] for result in results]))


def main() -> None:
    for name in experiment.names():
        found = pairs(before(sys.argv[1], name), table.read(RESULTS / f"{name}.csv"))
        if found:
            first, spec = next(iter(found.values()))[0][1].run, experiment.read(name)
            if spec.stand_in is not None and first.data["dataset"] == spec.stand_in.data["dataset"]:
                spec = spec.stand_in
            head = ["method", "seeds", *(f"{bits:,}" for bits in sorted({bits for _, bits in found}))]
            print(f"\n{spec.title}, {names.of_measure(spec.measures[0])}:\n\n{markdown(head, rows(found))}")


if __name__ == "__main__":
    main()
