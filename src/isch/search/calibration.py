"""How many candidates a search of an index needs to find a share of the true neighbours.

It is measured on the index itself: some of its items are queries, and their true neighbours among all items are found
by the features kept. The measurement holds for as long as the index does not change.
"""

import numpy as np

from isch import compute
from isch.distances import Distance, Hamming
from isch.errors import ParameterError
from isch.features import Block, Features
from isch.quality import ground_truth, rank_model
from isch.quality.ground_truth import Rows
from isch.quality.rank_model import Competition, Ranks
from isch.search.rerank import Stage
from isch.search.snapshot import Snapshot

QUERIES, NEAR = 256, 50
SAMPLE_ROWS = 50_000  # that stand for all items
BUDGET = 5e11  # products of numbers spent on true neighbours: some ten seconds


def stage(
    snapshot: Snapshot, distance: Distance | None, rerank: str | None, oversample: float | None, k: int, share: float
) -> Stage:
    """The second stage that finds this share of the k true neighbours: exact, with as many candidates as it takes."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise ParameterError(f"recall must be above 0 and at most 1; got {share!r:.40}")
    if oversample is not None or rerank not in ("auto", "exact"):
        raise ParameterError("recall chooses oversample and exact re-ranking itself; expected neither of them given")
    if not snapshot.catalog.keeps_vectors or not isinstance(distance, Hamming):
        raise ParameterError(
            "recall needs an index made with keep_features='float16' or 'float32', "
            "and a method whose codes are compared by Hamming distance"
        )
    return Stage("exact", candidates(snapshot, k, share) / k)


def candidates(snapshot: Snapshot, k: int, share: float) -> int:
    """The fewest candidates among which this share of the k true neighbours is found, on average."""
    n = len(snapshot)
    if n <= k + 1:
        return max(k, n)
    if k not in snapshot.ranks:
        snapshot.ranks[k] = measured(snapshot, k)
    return snapshot.ranks[k].candidates_for(share, k, n)


def measured(snapshot: Snapshot, k: int) -> Ranks:
    """Where the codes put the true neighbours of some items."""
    rows = np.concatenate(list(snapshot.live_rows(SAMPLE_ROWS)))
    rng, items = np.random.default_rng(0), Items(snapshot, rows)
    near = ground_truth.find(items, QUERIES, max(NEAR, k), BUDGET, rng)
    sample = compute.sample(items, SAMPLE_ROWS, rng)
    queries, around, others = (snapshot.codes(rows[some.ravel()]) for some in (near.queries, near.near, sample))
    met = Competition(queries, around.reshape(*near.near.shape, -1), others, sample, len(rows))
    return rank_model.ranks(near, met, rank_model.far(near, met), k)


class Items(Features):
    """The features that an index keeps, of some of its rows."""

    def __init__(self, snapshot: Snapshot, rows: Rows) -> None:
        self.shape = (len(rows), snapshot.catalog.n_features or 0)
        self.dtype = np.dtype(np.float32)
        self.where = str(snapshot.folder)
        self._snapshot, self._rows = snapshot, rows

    def read(self, start: int, stop: int) -> Block:
        return self._snapshot.features(self._rows[start:stop])

    def take(self, rows: Rows) -> Block:
        return self._snapshot.features(self._rows[rows])
