"""Peers with the same number of bits: how faiss, vector databases and embedding libraries encode the same features.

Bits count all memory per item, including factors. faiss methods need the faiss package.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch import codes as packed
from isch import compute
from isch.codes import Codes
from isch.errors import InputError, ParameterError, require
from isch.evaluate.prepare import Material
from isch.evaluate.rankers import TIMED_QUERIES, CodeRanker, EuclideanRanker, search_floats
from isch.evaluate.ranking import Ranker
from isch.features import Features, dense


class _Codes:
    """A peer whose codes are compared by Hamming distance."""

    model_bytes: int = 0
    n_bits: int

    def _encode(self, rows: NDArray[np.float32]) -> Codes:
        raise NotImplementedError

    def add(self, material: Material) -> None:
        self._stored = np.concatenate([self._encode(dense(b)) for _, b in material.database.batches(8192)])

    def ranker(self, material: Material) -> Ranker:
        self._ranker = CodeRanker(self._encode(dense(material.queries)), self._stored, self.n_bits)
        return self._ranker

    def search(self, k: int) -> int:
        return self._ranker.search(k)

    @property
    def item_bytes(self) -> float:
        return packed.width(self.n_bits)


class Sign(_Codes):
    """One bit per dimension: the sign after centring."""

    def fit(self, database: Features) -> None:
        self._mean = compute.mean(database).astype(np.float32)
        self.n_bits, self.model_bytes = database.shape[1], self._mean.nbytes

    def _encode(self, rows: NDArray[np.float32]) -> Codes:
        return packed.pack(rows - self._mean >= 0)


class Threshold(_Codes):
    """One bit per dimension: whether the value is positive, as vector databases and sentence-transformers quantise."""

    def fit(self, database: Features) -> None:
        self.n_bits = database.shape[1]

    def _encode(self, rows: NDArray[np.float32]) -> Codes:
        return packed.pack(rows > 0)


class FaissCodes(_Codes):
    """ITQ or LSH of faiss, as its index factory makes them."""

    def __init__(self, recipe: str, n_bits: int, seed: int) -> None:
        self._recipe, self.n_bits, self._seed = recipe, n_bits, seed

    def fit(self, database: Features) -> None:
        faiss = require("faiss", "faiss")
        d = database.shape[1]
        if self._recipe == "lsh":
            self._index = faiss.IndexLSH(d, self.n_bits, True, False)
        elif self.n_bits > d:
            raise InputError(f"faiss-itq: n_bits must be at most the dimension {d}; got {self.n_bits}")
        else:
            self._index = faiss.index_factory(d, f"ITQ{self.n_bits},LSH")
        self._index.train(dense(database.read(0, len(database))))
        self.model_bytes = 4 * d * (self.n_bits + 1)

    def _encode(self, rows: NDArray[np.float32]) -> Codes:
        return np.asarray(self._index.sa_encode(np.ascontiguousarray(rows)), np.uint8)


class PCAFloats:
    """The 2-norm, or the signs, of the first principal coordinates: what the paper's last two figures compare."""

    model_bytes: int = 0

    def __init__(self, n_dimensions: int) -> None:
        self._n = n_dimensions

    def fit(self, database: Features) -> None:
        from isch.hashing import hasher

        self._pca = hasher("pcah", n_bits=self._n).fit(database)
        self.model_bytes, self.item_bytes = 4 * database.shape[1] * (self._n + 1), 4.0 * self._n

    def add(self, material: Material) -> None:
        self._items = self._pca.project(material.database)

    def ranker(self, material: Material) -> Ranker:
        self._ranker = EuclideanRanker(self._pca.project(material.queries), self._items)
        return self._ranker

    def search(self, k: int) -> int:
        return search_floats(self._ranker, k)


class ProductQuantiser:
    """Product quantisation of faiss: bytes of 256 centres each, real-valued queries (asymmetric distances)."""

    model_bytes: int = 0

    def __init__(self, n_bits: int, seed: int) -> None:
        if n_bits % 8:
            raise ParameterError(f"faiss-pq: n_bits must be a multiple of 8; got {n_bits}")
        self.item_bytes, self._parts, self._seed = n_bits / 8, n_bits // 8, seed

    def fit(self, database: Features) -> None:
        faiss = require("faiss", "faiss")
        self._padding = -database.shape[1] % self._parts  # zero dimensions that make all parts equally long
        width = database.shape[1] + self._padding
        self._pq = faiss.ProductQuantizer(width, self._parts, 8)
        self._pq.cp.seed = 1234 + self._seed
        rows = compute.sample(database, 65_536, np.random.default_rng(self._seed))
        self._pq.train(self._padded(dense(database.take(rows))))
        self.model_bytes = 4 * 256 * width

    def _padded(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.ascontiguousarray(np.pad(rows, ((0, 0), (0, self._padding))))

    def add(self, material: Material) -> None:
        self._stored = np.concatenate(
            [self._pq.compute_codes(self._padded(dense(b))) for _, b in material.database.batches(8192)]
        )

    def ranker(self, material: Material) -> Ranker:
        """A query's distance to a code is its distance to the vector the code stands for."""
        self._ranker = EuclideanRanker(self._padded(dense(material.queries)), self._pq.decode(self._stored))
        self._queries = self._padded(dense(material.queries[:TIMED_QUERIES]))
        return self._ranker

    def search(self, k: int) -> int:
        faiss = require("faiss", "faiss")
        index = faiss.IndexPQ(self._pq.d, self._parts, 8)
        index.pq, index.is_trained = self._pq, True
        faiss.copy_array_to_vector(self._stored.ravel(), index.codes)
        index.ntotal = len(self._stored)
        index.search(self._queries, k)
        return len(self._queries)


class RaBitQ:
    """RaBitQ of faiss after PCA: one bit per dimension and 8 bytes of factors per item, real-valued queries."""

    FACTOR_BITS = 64
    n_groups = None

    def __init__(self, n_bits: int) -> None:
        if n_bits <= self.FACTOR_BITS:
            raise ParameterError(f"faiss-rabitq: an item takes 64 bits of factors; n_bits must exceed 64; got {n_bits}")
        self.item_bytes, self._n = n_bits / 8, n_bits - self.FACTOR_BITS

    def fit(self, database: Features) -> None:
        faiss = require("faiss", "faiss")
        d = database.shape[1]
        if self._n > d:
            raise InputError(f"faiss-rabitq: n_bits must be at most the dimension {d} + 64; got {self._n + 64}")
        self._index = faiss.index_factory(d, f"PCAR{self._n},RaBitQ")
        rows = compute.sample(database, 65_536, np.random.default_rng(0))
        self._index.train(dense(database.take(rows)))
        self.model_bytes = 4 * d * (self._n + 1)

    def add(self, material: Material) -> None:
        for _, block in material.database.batches(8192):
            self._index.add(dense(block))

    def ranker(self, material: Material) -> Ranker:
        self._queries = np.ascontiguousarray(dense(material.queries))
        self.n_queries, self.n_items = len(self._queries), self._index.ntotal
        return self

    def distances(self, start: int, stop: int) -> NDArray[np.float32]:
        """The estimates of faiss. It returns those of all items only as the result of a range search."""
        _, found, rows = self._index.range_search(self._queries[start:stop], np.inf)
        out = np.empty((stop - start, self.n_items), np.float32)
        np.put_along_axis(out, rows.reshape(out.shape), found.reshape(out.shape), axis=1)
        return out

    def search(self, k: int) -> int:
        some = self._queries[:TIMED_QUERIES]
        self._index.search(some, k)
        return len(some)


@dataclass(frozen=True)
class Peer:
    """How a peer is made from (bits, seed), and its revision: raised when a change here changes its results.

    The version of the library behind it is noted with each result.
    """

    make: Callable[[int, int], Any]
    revision: int = 1


PEERS = {
    "sign": Peer(lambda bits, seed: Sign()),
    "threshold": Peer(lambda bits, seed: Threshold()),
    "faiss-itq": Peer(lambda bits, seed: FaissCodes("itq", bits, seed)),
    "faiss-lsh": Peer(lambda bits, seed: FaissCodes("lsh", bits, seed)),
    "faiss-pq": Peer(lambda bits, seed: ProductQuantiser(bits, seed)),
    "faiss-rabitq": Peer(lambda bits, seed: RaBitQ(bits)),
    "pca-2-norm": Peer(lambda bits, seed: PCAFloats(bits)),
}
