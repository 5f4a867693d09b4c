"""Label mAP on CIFAR-10 GIST beside figures published for it, and precision@500 over code lengths.

python benchmarks/literature.py [METHOD ...]
"""

import sys

import numpy as np
import report

import isch
from isch.evaluate import datasets
from isch.evaluate.described import features_of
from isch.evaluate.metrics import measure
from isch.evaluate.prepare import DataSpec, cache_home, material
from isch.evaluate.rankers import CodeRanker
from isch.evaluate.ranking import score
from isch.evaluate.splits import SplitRule

BITS = (16, 32, 64)
PUBLISHED = {  # label mAP in per cent at these lengths
    "lsh": (12.6, 13.8, 15.1),
    "sh": (12.6, 12.4, 12.6),
    "pcah": (12.9, 12.6, 12.1),
    "sph": (14.0, 14.6, 15.4),
    "kmh": (13.6, 13.9, 14.5),
    "itq": (15.7, 16.2, 16.6),
}


def main(methods: list[str]) -> None:
    """Print and record the table."""
    dataset = datasets.load("cifar10")
    spec = DataSpec.of({"dataset": "cifar10", "descriptor": "gist"})
    features = features_of(dataset, spec, cache_home())
    ready = material(dataset, features, SplitRule(per_class=100), "none", 0, 0, cache_home())
    measures = [measure("map"), measure("precision@500")]
    rows: list[list[object]] = []
    for name in methods:
        for position, n_bits in enumerate(BITS):
            hasher = isch.hasher(name, n_bits=n_bits).fit(ready.database)
            ranker = CodeRanker(
                hasher.transform(np.asarray(ready.queries)), hasher.transform(ready.database), n_bits, hasher.distance
            )
            scores = score(ranker, ready.truth, measures)
            published = PUBLISHED[name][position] if name in PUBLISHED else "–"
            rows.append([name, n_bits, f"{100 * scores.mean('map'):.1f}", published, scores.mean("precision@500")])
            print(*rows[-1], flush=True)
    table = report.table(["method", "bits", "mAP, %", "published, %", "precision@500"], rows)
    text = (
        "## CIFAR-10 beside the literature\n\nGIST-512, 1,000 queries, 59,000 items that also train, one split, seed 0."
    )
    report.section("literature", f"{text}\n\n{table}")


if __name__ == "__main__":
    main(sys.argv[1:] or list(PUBLISHED))
