"""One dictionary for all code lengths of a split: it does not depend on the length, and is most of what ISCH learns."""

import hashlib
import json
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from isch.features import Features
from isch.hashing.dictionary import Atoms
from isch.hashing.isch import ISCH


@dataclass(frozen=True)
class _Learned:
    """A dictionary, what was noted about it, the state of the generator after it, and what it took."""

    key: str
    atoms: Atoms
    notes: dict[str, Any]
    state: Any
    seconds: dict[str, float]


class SharingISCH(ISCH):
    """ISCH that takes over the dictionary of the fit before it if it would learn the same; codes are the same.

    ``saved`` is the time that was not spent again.
    """

    saved: dict[str, float]
    _last: _Learned | None = None

    def _learn_dictionary(self, sample: Features, rng: np.random.Generator) -> Atoms:
        key, last = self._key(sample, rng), SharingISCH._last
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
        SharingISCH._last = _Learned(key, atoms, notes, rng.bit_generator.state, spent)
        self.saved = {}
        return atoms

    def _key(self, sample: Features, rng: np.random.Generator) -> str:
        chosen = {k: v for k, v in self.get_params(deep=False).items() if k not in _LATER}
        chosen["n_atoms"] = self.n_atoms or 2 * sample.shape[1]
        text = json.dumps([sample.shape, chosen, rng.bit_generator.state], sort_keys=True, default=str)
        return hashlib.sha256(self.mean_.tobytes() + text.encode()).hexdigest()


_LATER = {"n_bits", "tau", "eta", "spectrum", "block_size", "n_iter", "keep_dictionary"}  # used after the dictionary
