"""Where results are stored: each new run in a file in the user's cache, then in the table of its experiment.

    CACHE/runs/FOLDER/EXPERIMENT/KEY-XXXX.json   written when a run ends, whole or not at all
    RESULTS/EXPERIMENT.csv, .safetensors     what was collected (table.py, values.py)

Readers see both. Collecting adds the files to the table, then removes them. So a process that is killed at any moment
loses nothing, and several processes may run the same experiment at once.
"""

import base64
import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from secrets import token_hex

import numpy as np

from isch.errors import FileError, FormatError
from isch.evaluate import table
from isch.evaluate.runs import Result, checked_curves, checked_numbers, checked_run, from_steps, to_steps
from isch.files import check_writable, replacing
from isch.locks import locked

VERSION = 2
FILES = "[!.]*.json"  # half-written files of a killed run are hidden
LOCK_SECONDS = 60.0  # how long another process may take to collect


class Store:
    """The results of experiments.

    Parameters
    ----------
    folder : Path
        The folder of tables.
    cache : Path
        The user's cache, where each run is kept until it is collected.
    """

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        place = folder.absolute()
        digest = hashlib.sha256(str(place).encode("utf-8", "surrogateescape")).hexdigest()[:8]
        self.waiting = cache / "runs" / f"{place.name}-{digest}"

    def path(self, experiment: str) -> Path:
        """The table of an experiment."""
        return self.folder / f"{experiment}.csv"

    def revisions(self, experiment: str) -> dict[str, str]:
        """The revision by which each run was made last, by its key."""
        waiting = {result.run.key: result.revision for result in _latest(self._waiting(experiment).values())}
        return table.revisions(self.path(experiment)) | waiting

    def all(self, experiment: str) -> list[Result]:
        """Every result of an experiment, the latest last."""
        waiting = self._waiting(experiment).values()  # first: what is collected meanwhile is then in the table
        return _latest([*table.read(self.path(experiment)), *waiting])

    def put(self, experiment: str, result: Result) -> Path:
        """Keep a result until it is collected."""
        path = self.waiting / experiment / f"{result.run.key}-{token_hex(4)}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, result)
        return path

    def check_writable(self, experiment: str) -> None:
        """Refuse a folder that cannot be written, before any run."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot make the folder {self.folder}: {error.strerror or error}") from error
        check_writable(self.path(experiment))

    def uncollected(self) -> list[str]:
        """The experiments with runs that are not in their table yet."""
        return sorted({path.parent.name for path in self.waiting.glob(f"*/{FILES}")})

    def collect(self, experiment: str) -> int:
        """Move the runs of an experiment from the cache to its table; gives their number."""
        if experiment not in self.uncollected():
            return 0
        self.check_writable(experiment)
        with locked(self.folder / ".lock", LOCK_SECONDS, "is collecting results"):
            waiting = self._waiting(experiment)
            table.write(self.path(experiment), _latest([*table.read(self.path(experiment)), *waiting.values()]))
        for path in waiting:
            path.unlink(missing_ok=True)
        return len(waiting)

    def _waiting(self, experiment: str) -> dict[Path, Result]:
        """The files of runs in progress; one that another process collects meanwhile is left out."""
        found = {}
        for path in sorted((self.waiting / experiment).glob(FILES)):
            with suppress(FileNotFoundError):
                found[path] = _parsed(path, path.read_bytes())
        return found


def _latest(results: Iterable[Result]) -> list[Result]:
    """One result per run, the latest, in the order of their dates."""
    ordered = sorted(results, key=lambda result: result.date)
    return sorted({result.run.key: result for result in ordered}.values(), key=lambda result: result.date)


def _write(path: Path, result: Result) -> None:
    content = {
        "version": VERSION,
        "run": asdict(result.run),
        "means": result.means,
        "curves": {name: [round(v, 6) for v in line] for name, line in result.curves.items()},
        "costs": result.costs,
        "per_query": base64.b64encode(to_steps(result.per_query).tobytes()).decode(),
        "learned": result.learned,
        "revision": result.revision,
        "context": result.context,
    }
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, sort_keys=True) + "\n", "utf-8")


def _parsed(path: Path, raw: bytes) -> Result:
    """What ``_write`` wrote."""
    try:
        content = json.loads(raw)
        if content["version"] != VERSION:
            raise ValueError(f"it is of version {content['version']!r}; this ISCH reads version {VERSION}")
        steps = np.frombuffer(base64.b64decode(content["per_query"], validate=True), "<u2")
        return Result(
            checked_run(content["run"]),
            {str(name): checked_numbers(by_ties, "means") for name, by_ties in content["means"].items()},
            checked_curves(content["curves"]),
            checked_numbers(content["costs"], "costs"),
            from_steps(steps),
            checked_numbers(content["learned"], "learned"),
            str(content["revision"]),
            dict(content["context"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path}: not a result, or damaged ({error}); remove it to run it again") from error
