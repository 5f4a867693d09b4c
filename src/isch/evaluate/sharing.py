"""What several runs of one split share, so that it is learned once: whole models, and dictionaries of ISCH."""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from isch.evaluate.runs import Run
from isch.features import Features
from isch.hashing.dictionary import Atoms
from isch.hashing.isch import ISCH

AFTER_DICTIONARY = {"n_bits", "tau", "eta", "spectrum", "block_size", "n_iter", "keep_dictionary"}  # parameters


@dataclass(frozen=True)
class LearnedDictionary:
    """A dictionary, notes about it, the state of the random generator after it, and the time it took."""

    key: str
    atoms: Atoms
    notes: dict[str, Any]
    state: Any
    seconds: dict[str, float]


@dataclass
class Shared:
    """Models that several runs of a split use, and the last dictionary that was learned."""

    models: dict[str, Any] = field(default_factory=dict)  # model_key: (method, seconds), or None if not trained yet
    dictionary: LearnedDictionary | None = None

    @classmethod
    def between(cls, runs: Iterable[Run]) -> "Shared":
        """A place for each model that more than one of these runs uses."""
        counts = Counter(map(model_key, runs))
        return cls({key: None for key, n in counts.items() if n > 1})


def model_key(run: Run) -> str:
    """The same for runs that differ only in how they rank."""
    parameters = {k: v for k, v in run.parameters.items() if k != "ranking"}
    return json.dumps([run.seed, run.method, run.bits, parameters], sort_keys=True)


class SharingISCH(ISCH):
    """ISCH that reuses the dictionary of the previous fit if it would learn the same one; codes do not change.

    A dictionary does not depend on the code length, and learning it takes most of the time. ``saved`` is the time
    saved.
    """

    shared: Shared
    saved: dict[str, float]

    def _learn_dictionary(self, sample: Features, rng: np.random.Generator) -> Atoms:
        key, last = self._key(sample, rng), self.shared.dictionary
        if last is not None and last.key == key:
            for name, value in last.notes.items():
                setattr(self, name, value)
            rng.bit_generator.state = last.state
            self.saved = last.seconds
            return last.atoms
        before, wall, cpu = set(vars(self)), time.perf_counter(), time.process_time()
        atoms = super()._learn_dictionary(sample, rng)
        notes = {name: value for name, value in vars(self).items() if name not in before}
        spent = {"training_seconds": time.perf_counter() - wall, "training_cpu_seconds": time.process_time() - cpu}
        self.shared.dictionary = LearnedDictionary(key, atoms, notes, rng.bit_generator.state, spent)
        self.saved = {}
        return atoms

    def _key(self, sample: Features, rng: np.random.Generator) -> str:
        chosen = {k: v for k, v in self.get_params(deep=False).items() if k not in AFTER_DICTIONARY}
        chosen["n_atoms"] = self.n_atoms or 2 * sample.shape[1]
        text = json.dumps([sample.shape, chosen, rng.bit_generator.state], sort_keys=True, default=str)
        return hashlib.sha256(self.mean_.tobytes() + text.encode()).hexdigest()


def sharing(hasher: ISCH, shared: Shared) -> SharingISCH:
    """A hasher with the same parameters, not fitted, that shares dictionaries."""
    made = SharingISCH(**hasher.get_params(deep=False))
    made.shared = shared
    return made
