"""Writes index-v4.isch and index-v4.json. Run once for each version of the format; never again for an old one.

Version 4 is that of indexes with factors; all others are of version 3.
"""

import json
from pathlib import Path

import numpy as np

from isch import DistanceHash, Index

HERE = Path(__file__).parent


def make() -> None:
    data = np.random.default_rng(7).normal(size=(60, 5)).astype(np.float32).round(3)
    queries = data[:3] + np.float32(0.25)
    model = DistanceHash(n_bits=21).fit(data)
    with Index.create(HERE / "index-v4.isch", model, keep_features="factors") as index:
        index.add(data[:40], keys=[f"ключ {i}" for i in range(40)], metadata=[{"group": i % 3} for i in range(40)])
        index.delete(["ключ 3", "ключ 17"])
        index.compact()
        index.add(data[40:])
        index.upsert(data[:1], keys=["ключ 5"], metadata={"group": 1, "note": "replaced"})
        expected = {"queries": queries.tolist(), "keys": list(index)}
        for rerank in ("none", "asymmetric", "factors"):
            results = index.search(queries, k=5, rerank=rerank)
            expected[rerank] = {"keys": results.keys, "distances": results.distances.tolist()}
        expected["where"] = index.search(queries, k=3, where={"group": 1}).metadata
    for name in ("lock", "lock.holder"):
        (HERE / "index-v4.isch" / name).unlink()
    (HERE / "index-v4.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    make()
