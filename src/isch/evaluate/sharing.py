"""What several runs of one split share, so that it is learned once: whole models, and steps such as dictionaries."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from isch.evaluate.runs import Run
from isch.fitting import Known


@dataclass
class Shared:
    """Models that several runs of a split use, and steps that a fit may take from the fit before it."""

    models: dict[str, Any] = field(default_factory=dict)  # model_key: (method, seconds), or None if not trained yet
    steps: Known = field(default_factory=Known)

    @classmethod
    def between(cls, runs: Iterable[Run]) -> "Shared":
        """A place for each model that more than one of these runs uses."""
        counts = Counter(map(model_key, runs))
        return cls({key: None for key, n in counts.items() if n > 1})


def model_key(run: Run) -> str:
    """The same for runs that differ only in how they rank."""
    parameters = {k: v for k, v in run.parameters.items() if k != "ranking"}
    return json.dumps([run.seed, run.method, run.bits, parameters], sort_keys=True)
