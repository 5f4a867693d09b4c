"""Attacks everything ISCH reads from disk, with random damage and with crafted files, and prints what happened.

    python benchmarks/attack.py                          10,000 byte flips, 1,000 truncations, 2,000 smears of bytes
    python benchmarks/attack.py --flips 500 --only features
    python benchmarks/attack.py --list

What must hold: no crash, no hang, no exception that is not from ``isch.errors``, no wrong answer. An answer counts as
``changed`` where the format has no checksums, so that no reader can notice that a value is another one.
The exit code is 1 if anything of that kind happened; each case is then printed with its seed.

To add a target, write a ``Target`` (see ``attacks/target.py``) with ``make(folder)``, which writes a good file, and
``attempt(path)``, which reads it as a user would and returns the answer, into the list ``TARGETS`` of a module in
``attacks/``, and name the module in ``attacks/__init__.py``. Both functions must stand at the top level of a module,
because a child process imports them.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from attacks import TARGETS
from attacks.engine import BAD, DAMAGES, OUTCOMES, Child, attack
from report import table


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--flips", type=int, default=10_000, help="byte flips, over all targets together")
    parser.add_argument("--cuts", type=int, default=1_000, help="truncations, over all targets together")
    parser.add_argument("--smears", type=int, default=2_000, help="runs of changed bytes, over all targets together")
    parser.add_argument("--each", action="store_true", help="these numbers count per target")
    parser.add_argument("--only", help="the targets whose names begin so")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--list", action="store_true", help="print the names of the targets")
    return parser.parse_args()


def main() -> int:
    """Attack, print, and say by the exit code whether all held."""
    chosen = options()
    targets = [t for t in TARGETS.values() if t.name.startswith(chosen.only or "")]
    if chosen.list:
        print("\n".join(t.name for t in targets))
        return 0
    share = 1 if chosen.each else max(1, len(targets))
    amounts = {kind: -(-getattr(chosen, kind) // share) for kind in DAMAGES}
    results: dict[str, Counter[str]] = {}
    notes: list[str] = []
    child = Child(TARGETS)
    with tempfile.TemporaryDirectory() as folder:
        for target in targets:
            place = Path(folder) / target.name.replace(" ", "-")
            counts, found = attack(child, target, place, amounts, chosen.seed)
            results[target.name] = counts
            notes += found
    child.stop()
    print(json.dumps({"results": results, "notes": notes}) if chosen.json else text(results, notes))
    return int(any(counts[bad] for counts in results.values() for bad in BAD))


def text(results: dict[str, Counter[str]], notes: list[str]) -> str:
    """The table, and the cases that went wrong."""
    everything = sum(results.values(), Counter[str]())
    rows = [[name, *(counts[o] for o in OUTCOMES)] for name, counts in [*results.items(), ("all", everything)]]
    return "\n".join([table(["target", *OUTCOMES], rows), *([""] if notes else []), *notes])


if __name__ == "__main__":
    sys.exit(main())
