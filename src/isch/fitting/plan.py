"""What learning will cost, and what cannot work, before it begins."""

import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from isch import compute, progress
from isch.compute import memory
from isch.errors import InputError
from isch.features import Features
from isch.fitting.costs import NOMINAL, Size, Speeds, Stage

PROGRAM = 100 * 10**6  # bytes of the program itself, with its kernels and the buffers of matrix products
LONG_SECONDS = 30  # a run that may take longer is measured first, where somebody watches


@dataclass(frozen=True)
class Plan:
    """What ``fit`` will do to some features.

    The sum of ``seconds(stage)`` over ``stages`` estimates its time; ``problems`` says what would make it fail.
    """

    stages: tuple[Stage, ...]
    encoding: Stage  # of the same rows, afterwards
    bound: int  # on memory, in bytes
    least: int  # memory that would do
    temporary: int  # bytes of files for what does not fit into memory
    model: int  # bytes of the model
    kept: int  # bytes of a checkpoint
    speeds: Speeds
    problems: tuple[str, ...]

    @property
    def passes(self) -> int:
        """How many times features, or a sample of them, are read."""
        return sum(stage.read > 0 for stage in self.stages)

    @property
    def flops(self) -> float:
        """Of products and decompositions."""
        return sum(stage.products + stage.solving for stage in self.stages)

    @property
    def read(self) -> float:
        """Bytes of features."""
        return sum(stage.read for stage in self.stages)

    @property
    def seconds(self) -> float:
        """About how long learning takes."""
        return sum(map(self.speeds.seconds, self.stages))

    def saved_to(self, path: Path) -> "Plan":
        """The same, if the model is to be written to a file."""
        return replace(self, problems=(*self.problems, *no_room(path.parent, self.model, "the model")))

    def refuse(self) -> None:
        """Raise an ``InputError`` if there are problems."""
        if self.problems:
            raise InputError("; ".join(self.problems))

    def weights(self) -> list[tuple[str, float]]:
        """(label, seconds) of each stage, for ``progress.planned``."""
        return [(stage.label, self.speeds.seconds(stage)) for stage in self.stages]

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
        totals = {"passes": self.passes, "flops": self.flops, "read": self.read, "seconds": self.seconds}
        stages = [asdict(stage) | {"seconds": self.speeds.seconds(stage)} for stage in self.stages]
        encoding = asdict(self.encoding) | {"seconds": self.speeds.seconds(self.encoding)}
        plain = ("bound", "least", "temporary", "model", "kept", "problems")
        numbers = {name: getattr(self, name) for name in plain} | {"program": PROGRAM}
        return {**totals, **numbers, "speeds": self.speeds._asdict(), "stages": stages, "encoding": encoding}


@dataclass(frozen=True)
class Work:
    """What a fit does, whatever the machine: ``what`` names it in messages, ``model`` is the bytes of its result."""

    what: str
    n_bits: int
    stages: tuple[Stage, ...]
    encoding: Stage
    model: int


def plan(
    work: Work,
    features: Features,
    *,
    given: bool,
    checkpoint: str | os.PathLike[str] | None = None,
    measured: bool = True,
) -> Plan:
    """Make the plan of learning from features within the bound on memory that holds now.

    Parameters
    ----------
    work, features
        What is done to what.
    given : bool
        Whether the bound was asked for; otherwise it only says where arrays lie.
    checkpoint : path, optional
        The folder of finished stages.
    measured : bool
        Whether to measure speeds; otherwise they are measured only if the run seems long and somebody listens.
    """
    least = max(least_memory(Size.of(features), work.stages), work.model)
    temporary = sum(int(stage.array) for stage in work.stages if not memory.fits(int(stage.array)))
    kept = sum(int(stage.kept) for stage in work.stages)
    problems = list(_problems(work.what, features, least, temporary, given))
    if checkpoint is not None:
        problems += no_room(Path(checkpoint), kept - _size(Path(checkpoint)), "the checkpoint")
    long = progress.listening() and sum(map(NOMINAL.seconds, work.stages)) > LONG_SECONDS
    speeds = _speeds(features, work.n_bits) if not problems and (measured or long) else NOMINAL
    return Plan(
        stages=work.stages,
        encoding=work.encoding,
        bound=memory.bound(),
        least=least,
        temporary=temporary,
        model=work.model,
        kept=kept,
        speeds=speeds,
        problems=tuple(problems),
    )


def least_memory(size: Size, stages: tuple[Stage, ...]) -> int:
    """About how many bytes learning takes, whatever lies in files: those of the stage that takes most.

    A pass holds two blocks in single precision per thread, and those that were read ahead.
    """
    threads = compute.n_threads()
    block = compute.block_rows(size.columns) * size.columns
    blocks = threads * 2 * 4 * block + (2 * threads + 1) * size.item * block
    return int(max((stage.memory + (blocks if stage.read else 0) for stage in stages), default=0))


def no_room(place: Path, needed: float, what: str) -> Iterator[str]:
    """A problem, if a folder (or the nearest one above it that exists) has less room than is needed."""
    folder = next((path for path in (place, *place.absolute().parents) if path.is_dir()), Path())
    free = shutil.disk_usage(folder).free
    if needed > free:
        yield (
            f"{place}: no room for {what}: needs {memory.readable(needed)}, and {memory.readable(free)} are free there"
        )


def _problems(what: str, features: Features, least: int, temporary: int, given: bool) -> Iterator[str]:
    bound = memory.bound()
    free = memory.free()
    if given and bound < least:
        yield (
            f"{features.where}: memory = {memory.readable(bound)} is too little for {what} and "
            f"{features.shape[1]} features; expected at least {readable_up(least)}"
        )
    elif least > free:
        yield (
            f"{features.where}: {what} and {features.shape[1]} features needs at "
            f"least {readable_up(least)} of memory, and {memory.readable(free)} are free"
        )
    if temporary:
        yield from no_room(Path(tempfile.gettempdir()), temporary, "temporary files (TMPDIR says where)")


def _size(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*.npy")) if folder.is_dir() else 0


def readable_up(size: int) -> str:
    """A size in words, rounded up."""
    step = 10 ** max(0, int(math.log10(max(size, 1))) - 2)
    return memory.readable(math.ceil(size / step) * step)


def _speeds(features: Features, n_bits: int) -> Speeds:
    from isch.fitting.speeds import measured

    return measured(features, n_bits)
