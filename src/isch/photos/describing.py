"""From files to what a library keeps of them: each file is read and decoded once, on all cores."""

import hashlib
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch import compute, progress
from isch.describe import describer
from isch.describe.base import Describer, unit_rows
from isch.describe.images import Facts, groups, with_facts
from isch.errors import FileError, FormatError, InputError
from isch.files import printable, reading
from isch.photos import words
from isch.photos.catalog import Item, State
from isch.photos.fingerprint import from_squares, square

GROUP = 32  # pictures that a thread reads in a row: each kind of work finds its code and tables still in the cache
AHEAD = 4  # groups per core that are described while results are written
WHOLE = 64 << 20  # bytes of a file that is read once; a larger one is looked at before all of it is read


@dataclass(frozen=True)
class Job:
    """A file to describe, as it was when the folder was looked at."""

    id: int
    path: bytes
    state: State
    folder: str


@dataclass(frozen=True)
class Described:
    """What is kept of a picture."""

    item: Item
    vector: NDArray[np.float32]
    fingerprint: bytes
    labels: list[tuple[int, float]]


@dataclass(frozen=True)
class Unusable:
    """A file that could not be used, and why."""

    job: Job
    reason: str
    read: bool  # whether it was read: then it is tried again only when it changes


def network() -> Describer:
    """The default describer of pictures: the one whose outputs have names."""
    return describer("cnn")


def described(jobs: Sequence[Job]) -> Iterator[list[Described | Unusable]]:
    """What is kept of each file, some at a time, in order."""
    raw = describer("cnn", normalise=False)

    def work(group: tuple[int, list[Job]]) -> list[Described | Unusable]:
        return _describe(raw, group[1])

    with progress.task("describing", len(jobs), "pictures") as advance:
        for results in compute.parallel(work, groups(jobs, GROUP), ahead=AHEAD):
            advance(len(results))
            yield results


class Look(NamedTuple):
    """What is made of one file before all of a batch go through the network together."""

    item: Item
    square: NDArray[np.uint8]  # for the fingerprint
    prepared: NDArray[np.uint8]  # for the network


def _describe(raw: Describer, jobs: list[Job]) -> list[Described | Unusable]:
    looks = [_look(job, raw) for job in jobs]
    good = [look for look in looks if isinstance(look, Look)]
    rows = iter(_kept(raw, good) if good else [])
    return [next(rows) if isinstance(look, Look) else look for look in looks]


def _kept(raw: Describer, looks: list[Look]) -> list[Described]:
    batches = (looks[start : start + raw.batch_size] for start in range(0, len(looks), raw.batch_size))
    vectors = np.concatenate([raw._describe([look.prepared for look in batch]) for batch in batches])
    prints = from_squares(
        np.stack([look.square for look in looks]), [(look.item.width, look.item.height) for look in looks]
    )
    columns = zip(looks, unit_rows(vectors), prints, words.best(vectors), strict=True)
    return [Described(look.item, vector, known.tobytes(), labels) for look, vector, known, labels in columns]


def _look(job: Job, raw: Describer) -> Look | Unusable:
    """What is made of a file, or why it cannot be used."""
    path = os.fsdecode(job.path)
    try:
        with reading(path) as opened:
            large = os.fstat(opened.fileno()).st_size > WHOLE
            file: Any = opened if large else io.BytesIO(opened.read(WHOLE))
            image, known = with_facts(file, path, raw._side)
            file.seek(0)
            item = _item(job, path, hashlib.file_digest(file, "sha256").hexdigest(), known)
        return Look(item, square(image), raw._prepare(image))
    except (FileError, InputError) as error:
        read = isinstance(error, FormatError | InputError)
        return Unusable(job, str(error).removeprefix(f"{printable(path)}: "), read)


def _item(job: Job, path: str, digest: str, known: Facts) -> Item:
    taken = known.taken or datetime.fromtimestamp(job.state.changed / 1e9)
    return Item(
        job.id,
        path,
        *job.state,
        digest,
        known.width,
        known.height,
        known.format,
        taken.isoformat(timespec="seconds")[:19],
        known.model or known.make,
        job.folder,
        int(known.traits),
        known.quality,
    )
