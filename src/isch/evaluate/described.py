"""The features of a dataset: its own, or those of a descriptor, computed once and kept."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from isch import describe
from isch import features as sources
from isch.describe.files import kept
from isch.errors import InputError
from isch.evaluate import digest, revisions
from isch.evaluate.datasets import Dataset
from isch.evaluate.local import local_vlad
from isch.evaluate.prepare import DataSpec
from isch.features import Block, Features
from isch.features.write import Writer
from isch.lazy import issparse


def features_of(dataset: Dataset, spec: DataSpec, cache: Path) -> Features:
    """The features, from ``cache`` if the present revision of the descriptor has made them before.

    They are written batch by batch, so they may be larger than memory. Interrupted work resumes.
    """
    if spec.descriptor is None:
        if dataset.features is None:
            raise InputError(f"{dataset.name}: holds images and no features; the experiment must name a descriptor")
        return dataset.features
    made_of = [digest.of_data(dataset, cache), revisions.of_descriptor(spec.descriptor)]
    recipe = {"made of": made_of, "descriptor": spec.descriptor, "options": spec.descriptor_options}
    if spec.precision != "single":
        recipe["precision"] = spec.precision
    key = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]
    stem = f"{dataset.name}-{spec.descriptor}-{key}"
    for path in (cache / f"{stem}.npy", cache / f"{stem}.npz"):
        if path.exists():
            return sources.open(path)
    cache.mkdir(parents=True, exist_ok=True)
    return sources.open(_describe(dataset, spec, cache, stem))


def _describe(dataset: Dataset, spec: DataSpec, cache: Path, stem: str) -> Path:
    """Describe the items that are not described yet; gives the file."""
    learned = cache / f"{stem}.describer"
    maker, items = _maker(dataset, spec, learned)
    first = next(maker(items[:1]))
    path = cache / f"{stem}{'.npz' if issparse(first) else '.npy'}"
    with Writer(path, {"stem": stem}) as writer:
        rest = items[len(writer.names) :]
        for block in maker(rest) if len(rest) else ():
            done, n = len(writer.names), block.shape[0]
            writer.add(block, [str(row) for row in range(done, done + n)], [""] * n)
        writer.finish()
    learned.unlink(missing_ok=True)
    return path


def _maker(dataset: Dataset, spec: DataSpec, learned: Path) -> tuple[Callable[[Any], Iterator[Block]], Any]:
    """(a function from items to blocks of vectors, the items); what it learns survives an interruption."""
    if dataset.local is not None and spec.descriptor == "vlad":
        return local_vlad(dataset.local, spec.descriptor_options).blocks, dataset.local
    if dataset.images is None:
        raise InputError(f"{dataset.name}: holds no images for the descriptor {spec.descriptor!r}")
    images, new = dataset.images, describe.describer(str(spec.descriptor), **spec.descriptor_options)
    extractor = kept(learned, lambda: new.fit(images))

    def blocks(some: Any) -> Iterator[Block]:
        for batch in extractor.batches(some, strict=True):
            if batch.vectors is not None:
                yield _rounded(batch.vectors, spec.precision)

    return blocks, images


def _rounded(vectors: Block, precision: str) -> Block:
    """Dense vectors in half precision if that is wanted: half the file."""
    return vectors.astype(np.float16) if precision == "half" and not issparse(vectors) else vectors
