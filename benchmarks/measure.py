"""Measuring rankings: the measures of one query against scikit-learn's average precision."""

import time
from collections.abc import Callable

import numpy as np
import report
from sklearn.metrics import average_precision_score

from isch.evaluate.metrics import TIES, FloatRanking, measure

SIZES = (68_000, 1_200_000)  # items ranked: MNIST's, the paper's largest
MEASURES = [measure(name) for name in ("precision@500", "map", "precision@100")]
ROUNDS = 20


def best(function: Callable[[], object]) -> float:
    """The shortest time in milliseconds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def measured(distances: np.ndarray, relevant: np.ndarray) -> list[float]:
    """Every measure of one query, expected and both bounds."""
    profile = FloatRanking(distances).profile(relevant)
    return [m.of(profile, ties) for m in MEASURES for ties in TIES]


def main() -> None:
    """Print and record the table."""
    rows: list[list[object]] = []
    rng = np.random.default_rng(0)
    for n in SIZES:
        distances, relevant = rng.random(n, dtype=np.float32), rng.random(n) < 0.1
        sort = best(lambda d=distances: np.sort(d))
        peer = best(lambda d=distances, r=relevant: average_precision_score(r, -d))
        own = best(lambda d=distances, r=relevant: measured(d, r))
        rows += [[f"{n:,}", "one sort by numpy (the limit)", sort, own, sort / own]]
        rows += [[f"{n:,}", "scikit-learn, mAP only", peer, own, peer / own]]
        print(rows[-2:], flush=True)
    header = ["items ranked", "peer", "peer, ms", "ours, ms", "ratio"]
    text = (
        "## Measuring rankings by real distances\n\nOne thread. Ours gives precision at 100 and 500 and mAP, each "
        "expected under ties and with both bounds.\n\n"
    )
    report.section("measure", f"{text}{report.table(header, rows)}\n\n{report.machine('scikit-learn')}")


if __name__ == "__main__":
    main()
