"""One interface to everything that is compared: hashers of this package, the 2-norm, and peers.

A method learns from the database, stores it, and ranks it for queries.
"""

from typing import Any, Protocol

import numpy as np

from isch import codes as packed
from isch import fitting, hashing
from isch.codes import Codes
from isch.distances import HAMMING
from isch.errors import ParameterError, unknown
from isch.evaluate import peers
from isch.evaluate.prepare import Material
from isch.evaluate.rankers import AngleRanker, AsymmetricRanker, CodeRanker, search_floats
from isch.evaluate.ranking import Ranker
from isch.evaluate.sharing import Shared
from isch.features import Features

RANKINGS = ("own", "hamming", "asymmetric", "real")  # codes by the hasher's own distance, by Hamming, by real-valued
# queries; or no codes at all: the real values whose signs they are, by angle


class Method(Protocol):
    """What is compared."""

    def fit(self, database: Features) -> None:
        """Learn."""

    def add(self, material: Material) -> None:
        """Encode and store the database."""

    def ranker(self, material: Material) -> Ranker:
        """Distances from the queries to the stored items."""

    def search(self, k: int) -> int:
        """Find the k nearest items of some queries as a user would; returns the number of queries."""

    @property
    def model_bytes(self) -> int:
        """Memory of what was learned."""

    @property
    def item_bytes(self) -> float:
        """Memory of one stored item."""


class HasherMethod:
    """A hasher of this package, ranked in one of several ways."""

    def __init__(self, name: str, parameters: dict[str, Any], n_bits: int, seed: int, shared: Shared) -> None:
        given = dict(parameters)
        self._ranking = given.pop("ranking", "own")
        if "random_state" in hashing.method(name)._get_param_names():
            given["random_state"] = seed
        self._hasher = hashing.hasher(name, n_bits=n_bits, **given)
        self._shared = shared
        self.saved: dict[str, float] = {}  # seconds of training that sharing saved, by name
        self._codes: Codes = np.empty((0, packed.width(n_bits)), np.uint8)

    def adopt(self, other: "Method") -> None:
        """Use the model and the codes of another method with the same parameters."""
        if isinstance(other, HasherMethod):
            self._hasher, self._codes = other._hasher, other._codes

    def fit(self, database: Features) -> None:
        steps = self._shared.steps
        wall = steps.saved_wall
        cpu = steps.saved_cpu
        with fitting.sharing(steps):
            self._hasher.fit(database)
        self.saved = {
            "training_seconds": steps.saved_wall - wall,
            "training_cpu_seconds": steps.saved_cpu - cpu,
        }

    def add(self, material: Material) -> None:
        self._codes = self._hasher.transform(material.database)

    def ranker(self, material: Material) -> Ranker:
        self._ranker: CodeRanker | AsymmetricRanker | AngleRanker
        if self._ranking == "real":
            self._ranker = AngleRanker(*map(self._hasher.project, (material.queries, material.database)))
        elif self._ranking == "asymmetric":
            self._ranker = AsymmetricRanker(self._hasher.project(material.queries), self._codes)
        else:
            distance = HAMMING if self._ranking == "hamming" else self._hasher.distance
            queries = self._hasher.transform(material.queries)
            self._ranker = CodeRanker(queries, self._codes, self._hasher.n_bits, distance)
        return self._ranker

    def search(self, k: int) -> int:
        return self._ranker.search(k)

    @property
    def learned(self) -> dict[str, float]:
        """The numbers that the hasher has learned, such as λ*."""
        numbers = {name: value for name, value in vars(self._hasher).items() if name.endswith("_")}
        return {name.rstrip("_"): float(v) for name, v in numbers.items() if isinstance(v, int | float)}

    @property
    def model_bytes(self) -> int:
        return learned_bytes(self._hasher)

    @property
    def item_bytes(self) -> float:
        return 4 * self._hasher.n_bits if self._ranking == "real" else packed.width(self._hasher.n_bits)


def learned_bytes(hasher: Any) -> int:
    """Bytes of the arrays that ``save`` would write."""
    learned = hasher._learned() if hasattr(hasher, "_learned") else vars(hasher)
    total = 0
    for name, value in learned.items():
        if name.endswith("_") and hasattr(value, "indptr"):
            total += value.data.nbytes + value.indices.nbytes + value.indptr.nbytes
        elif name.endswith("_") and isinstance(value, np.ndarray):
            total += value.nbytes
    return total


class Euclidean:
    """The 2-norm in the space the hashers receive: the dashed line of every figure."""

    model_bytes = 0
    revision = 1

    def fit(self, database: Features) -> None:
        self.item_bytes = float(database.shape[1] * 4)

    def add(self, material: Material) -> None:
        pass

    def ranker(self, material: Material) -> Ranker:
        self._ranker = material.euclidean()
        return self._ranker

    def search(self, k: int) -> int:
        return search_floats(self._ranker, k)


def make(name: str, parameters: dict[str, Any], bits: int | None, seed: int, shared: Shared) -> Method:
    """A method by name, with a code length if it has one."""
    check_parameters(name, parameters)
    if name == "2-norm":
        return Euclidean()
    if name in peers.PEERS:
        peer: Method = peers.PEERS[name].make(bits or 0, seed)
        return peer
    if bits is None:
        raise ParameterError(f"method {name} needs a code length")
    return HasherMethod(name, parameters, bits, seed, shared)


def check_parameters(name: str, parameters: dict[str, Any]) -> None:
    """Refuse an unknown method, and parameters that it would refuse later."""
    if name in hashing.METHODS:
        ranking = parameters.get("ranking", "own")
        if ranking not in RANKINGS:
            raise unknown("ranking", ranking, RANKINGS)
        hashing.hasher(name, **{k: v for k, v in parameters.items() if k != "ranking"})._check_parameters()
    elif name not in known():
        raise unknown("method", name, known())
    elif parameters:
        raise ParameterError(f"method {name} takes no parameters; got {', '.join(parameters)}")


def revision(name: str) -> int:
    """The revision of a method; it is raised when codes or distances change beyond rounding."""
    if name in hashing.METHODS:
        return hashing.method(name).revision
    return Euclidean.revision if name == "2-norm" else peers.PEERS[name].revision


def known() -> list[str]:
    """The names of all methods."""
    return ["2-norm", *hashing.METHODS, *peers.PEERS]


def fixed_length(name: str) -> bool:
    """Whether a method has no code length to choose: it keeps every dimension."""
    return name in ("2-norm", "sign", "threshold")
