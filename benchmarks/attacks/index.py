"""Indexes: every file of them, read and changed, of this version and of those before it.

The package is imported at use, so that a child which attacks something else starts quickly.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from attacks import crafted_index
from attacks.target import Target
from isch.errors import FormatError

ROWS = np.random.default_rng(0).standard_normal((60, 6)).astype(np.float32)
GOLDEN = Path(__file__).parents[2] / "tests" / "golden"


def make(folder: Path) -> Path:
    """Two segments with features, keys of both kinds, metadata, and deleted rows."""
    from isch import LSH, Index

    path = folder / "x.isch"
    with Index.create(path, LSH(n_bits=21).fit(ROWS), keep_features="float16") as index:
        index.add(ROWS[:40], [f"photos/{i}.jpg" for i in range(40)], [{"n": i, "album": "é"} for i in range(40)])
        index.add(ROWS[40:])
        index.delete(["photos/3.jpg", "photos/9.jpg", 45])
    return path


def make_factors(folder: Path) -> Path:
    """The same, with factors in the place of features."""
    shutil.copytree(GOLDEN / "index-v4.isch", folder / "x.isch")
    return folder / "x.isch"


def make_first_version(folder: Path) -> Path:
    shutil.copytree(GOLDEN / "index-v1.isch", folder / "x.isch")
    return folder / "x.isch"


def make_second_version(folder: Path) -> Path:
    shutil.copytree(GOLDEN / "index-v2.isch", folder / "x.isch")
    return folder / "x.isch"


def answers(index: Any) -> Any:
    """Everything that can be asked."""
    queries = np.random.default_rng(1).standard_normal((3, index.encoder.n_features)).astype(np.float32)
    kept = "factors" if index.info()["keep_features"] == "factors" else "exact"
    found = [index.search(queries, 70, rerank=rerank) for rerank in ("none", "asymmetric", kept)]
    there = set(index.fields())
    filters = ({"n": {"<": 20}}, {"group": 1}, {"album": ["é", "x"]})
    found += [index.search(queries, 5, where=where) for where in filters if there >= where.keys()]
    items = [item for key in list(index)[::7] if (item := index.get(key))]
    batches = [(batch.keys, batch.codes, batch.metadata, batch.features) for batch in index.batches()]
    alike = index.duplicates(3)
    return [
        [(results.keys, results.distances, results.metadata) for results in found],
        [(item.key, item.code, item.metadata, item.features) for item in items],
        [list(batch) for batch in batches],
        [(group.keys, group.diameter) for group in alike],
        [len(index), index.fields(), list(index)],
    ]


def read(path: Path) -> Any:
    """Ask everything, then verify: damage that changed an answer must be found by the one or the other."""
    from isch import Index

    with Index.open(path) as index:
        found = answers(index)
    verified(path)
    return found


def search(path: Path) -> Any:
    """Ask everything, without verify: damage that would change an answer must be found by the question itself."""
    from isch import Index

    with Index.open(path) as index:
        return answers(index)


def repair(path: Path) -> Any:
    """Repair, and compare what is left with what was there: the answer is what is wrong."""
    from isch import Index

    with tempfile.TemporaryDirectory() as folder:
        right = items(make(Path(folder)), deleted=True)
    Index.repair(path)
    verified(path)
    return [key for key, item in items(path).items() if right.get(key) != item]


def items(path: Path, deleted: bool = False) -> dict[Any, Any]:
    """All items by key, and also those that are deleted: a repair may bring them back, and says so."""
    from isch import Index

    with Index.open(path) as index:
        if deleted:
            index._now.live = [None] * len(index._now.segments)
        batches = list(index.batches())
    return {
        key: (code.tobytes(), metadata, features.tobytes())
        for batch in batches
        for key, code, metadata, features in zip(*batch, strict=True)
    }


def change(path: Path) -> Any:
    """Delete, add, replace and compact, then read."""
    from isch import Index

    with Index.open(path, wait=0) as index:
        first, second = list(index)[:2]
        index.delete([first])
        index.add(np.ones((2, index.encoder.n_features), np.float32), ["new", -7], {"n": 1})
        index.upsert(np.ones((1, index.encoder.n_features), np.float32), [second], {"album": "x"})
        index.compact()
    return read(path)


def verified(path: Path) -> None:
    """Refuse an index in which verify finds a problem."""
    from isch.search.verify import problems

    if found := problems(path):
        raise FormatError(found[0])


TARGETS = [
    Target("index read", make, read, sealed=True, crafted=crafted_index.crafted),
    Target("index search", make, search, sealed=True),
    Target("index repair", make, repair, sealed=True),
    Target("index change", make, change, sealed=True, crafted=crafted_index.crafted),
    Target("index factors read", make_factors, read, sealed=True, crafted=crafted_index.crafted_factors),
    Target("index factors change", make_factors, change, sealed=True, crafted=crafted_index.crafted_factors),
    Target("index version-2 read", make_second_version, read, sealed=True, crafted=crafted_index.crafted_second),
    Target("index version-2 change", make_second_version, change, sealed=True, crafted=crafted_index.crafted_second),
    Target("index version-1 read", make_first_version, read, sealed=True),
    Target("index version-1 change", make_first_version, change, sealed=True),
]
