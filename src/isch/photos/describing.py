"""From files to what a library keeps of them: each file is read and decoded once, on all cores."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from isch import compute, progress
from isch.describe import describer
from isch.describe.base import Describer, unit_rows
from isch.describe.images import Facts, decode, facts, groups
from isch.errors import FileError, InputError
from isch.files import printable, reading
from isch.photos import words
from isch.photos.catalog import Item, State
from isch.photos.fingerprint import fingerprint_of


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


def network() -> Describer:
    """The default describer of pictures: the one whose outputs have names."""
    return describer("cnn")


def described(jobs: Sequence[Job]) -> Iterator[list[Described | Unusable]]:
    """What is kept of each file, some at a time, in order."""
    raw = describer("cnn", normalise=False)

    def work(group: tuple[int, list[Job]]) -> list[Described | Unusable]:
        return _describe(raw, group[1])

    with progress.task("describing", len(jobs), "pictures") as advance:
        for results in compute.parallel(work, groups(jobs, raw.batch_size)):
            advance(len(results))
            yield results


def _describe(raw: Describer, jobs: list[Job]) -> list[Described | Unusable]:
    read = [_read(job, raw) for job in jobs]
    good = [entry for entry in read if not isinstance(entry, Unusable)]
    if not good:
        return [entry for entry in read if isinstance(entry, Unusable)]
    vectors = np.asarray(raw._describe([prepared for _, _, prepared in good]), np.float32)
    rows = iter(zip(good, unit_rows(vectors), words.best(vectors), strict=True))
    out: list[Described | Unusable] = []
    for entry in read:
        if isinstance(entry, Unusable):
            out.append(entry)
        else:
            (item, fingerprint, _), vector, labels = next(rows)
            out.append(Described(item, vector, fingerprint, labels))
    return out


def _read(job: Job, raw: Describer) -> tuple[Item, bytes, NDArray[np.uint8]] | Unusable:
    """(item, fingerprint, prepared picture) of a file, or why it cannot be used."""
    path = os.fsdecode(job.path)
    try:
        with reading(path) as file:
            content = file.read()
        image = decode(content, raw._side)
        known = facts(content)
        item = _item(job, path, hashlib.sha256(content).hexdigest(), known)
        return item, fingerprint_of(image).tobytes(), raw._prepare(image)
    except (FileError, InputError) as error:
        return Unusable(job, str(error).removeprefix(f"{printable(path)}: ").removeprefix("the picture: "))


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
    )
