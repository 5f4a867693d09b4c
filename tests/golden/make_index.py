"""Writes index-v3.isch and index-v3.json. Run once for each version of the format; never again for an old one."""

import json
from pathlib import Path

import numpy as np

from isch import LSH, Index

HERE = Path(__file__).parent


def make() -> None:
    data = np.random.default_rng(7).normal(size=(60, 5)).astype(np.float32).round(3)
    queries = data[:3] + np.float32(0.25)
    with Index.create(HERE / "index-v3.isch", LSH(n_bits=21).fit(data), keep_features="float16") as index:
        index.add(data[:40], keys=[f"ключ {i}" for i in range(40)], metadata=[{"group": i % 3} for i in range(40)])
        index.delete(["ключ 3", "ключ 17"])
        index.compact()
        index.add(data[40:])
        index.upsert(data[:1], keys=["ключ 5"], metadata={"group": 1, "note": "replaced"})
        expected = {"queries": queries.tolist(), "keys": list(index)}
        for rerank in ("none", "asymmetric", "exact"):
            results = index.search(queries, k=5, rerank=rerank)
            expected[rerank] = {"keys": results.keys, "distances": results.distances.tolist()}
        expected["where"] = index.search(queries, k=3, where={"group": 1}).metadata
    for name in ("lock", "lock.holder"):
        (HERE / "index-v3.isch" / name).unlink()
    (HERE / "index-v3.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    make()
