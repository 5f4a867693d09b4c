"""Several index folders searched as one: ``Index.open(["a.isch", "b.isch"])``.

The answers are those of one index that holds the items of all folders, one folder after the other, ties included.
"""

import os
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from isch.errors import InputError
from isch.search.catalog import Key, kept_by_all
from isch.search.filters import Test, Where
from isch.search.first_use import FIRST_USE
from isch.search.items import Metadata
from isch.search.reading import Reader
from isch.search.results import Hit, Results
from isch.search.snapshot import Allowed, Rows, Snapshot


class Place(NamedTuple):
    """Where an item is: the folder of its index, as it was given, and its key there."""

    folder: str
    key: Key

    def __str__(self) -> str:
        return f"{self.folder}::{self.key}"


class Indexes:
    """Several indexes with the same model, searched as one. They are not changed through it.

    Parameters
    ----------
    paths : iterable of path
        The folders.
    client : distributed.Client, optional
        As in ``Index.open``.
    verify : {"first use", "before", "never"}
        As in ``Index.open``.

    Raises
    ------
    InputError
        There are none, one is given twice, or they differ in their model or in the length of their codes.
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]], client: Any = None, verify: str = FIRST_USE) -> None:
        self.names = [os.fspath(path) for path in paths]
        _check_names(self.names)
        self._parts = [Reader(name, verify=verify) for name in self.names]
        self._client = client
        self._joint = _Joint(self.names, self._parts, client)

    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        where: Where | None = None,
        among: Any = None,
        rerank: str | None = "auto",
        oversample: float | None = None,
        recall: float | None = None,
    ) -> Results:
        """The k nearest items of each query in all indexes, nearest first; ties by the order of the indexes, then rows.

        Parameters
        ----------
        queries, k, where, among, rerank, oversample, recall
            As in ``Index.search``; ``among`` means these keys in any of the indexes.

        Returns
        -------
        Results
            As ``Index.search`` gives them; a key is a ``Place``, the name of the index and the key in it.
        """
        return self._joint.search(
            queries, k, where=where, among=among, rerank=rerank, oversample=oversample, recall=recall
        )

    def search_codes(self, codes: Any, k: int = 10, *, where: Where | None = None) -> Results:
        """Find the k items of all indexes nearest to codes that their hasher made elsewhere.

        Parameters
        ----------
        codes, k, where
            As in ``Index.search_codes``.

        Returns
        -------
        Results
        """
        return self._joint.search_codes(codes, k, where=where)

    def within(self, queries: Any, radius: int, *, where: Where | None = None) -> list[list[Hit]]:
        """Find every item of all indexes whose code differs from that of a query in at most ``radius`` bits.

        Parameters
        ----------
        queries, radius, where
            As in ``Index.within``.

        Returns
        -------
        list of list of Hit
            As ``Index.within`` gives them; a key is a ``Place``.
        """
        return self._joint.within(queries, radius, where=where)

    def explain(self, queries: Any, k: int = 10, *, radius: int | None = None) -> list[str]:
        """Say how a search would be done, and why.

        Parameters
        ----------
        queries, k, radius
            As in ``Index.explain``.

        Returns
        -------
        list of str
            A sentence per segment.
        """
        return self._joint.explain(queries, k, radius=radius)

    def accelerate(self, radius: int | None) -> None:
        """Build tables of multi-index hashing for a radius, as ``Index.accelerate``; None drops them."""
        self._joint.accelerate(radius)

    def fields(self) -> list[str]:
        """The names of all fields that the metadata of any item has."""
        return self._joint.fields()

    def info(self) -> dict[str, Any]:
        """What the indexes are and how large: numbers of all of them together."""
        found = [part.info() for part in self._parts]
        summed = {name: sum(one[name] for one in found) for name in ("items", "deleted", "segments", "bytes")}
        kept = kept_by_all([one["keep_features"] for one in found])
        return found[0] | summed | {"path": self.names, "keep_features": kept}

    def refresh(self) -> bool:
        """Show the latest state of all indexes; returns whether one changed."""
        changed = [part.refresh() for part in self._parts]
        if any(changed):
            self._joint = _Joint(self.names, self._parts, self._client)
        return any(changed)

    def close(self) -> None:
        """Close the files. Searches that run in other threads still finish."""
        self._joint.close()
        for part in self._parts:
            part.close()

    def __len__(self) -> int:
        return len(self._joint)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return type(self), (self.names,)

    def __repr__(self) -> str:
        return f"<isch.search.indexes.Indexes {self.names!r}>"


class _Joint(Reader):
    """A reader of the joint snapshot of several indexes; the model is that of the first."""

    def __init__(self, names: list[str], parts: list[Reader], client: Any) -> None:
        snapshots = [part._now for part in parts]
        _check_alike(names, snapshots)
        self._read(Path(names[0]).absolute(), Union(names, snapshots), client)


class Union(Snapshot):
    """Moments of several indexes as one: their segments one after the other."""

    def __init__(self, names: list[str], parts: list[Snapshot]) -> None:
        kept = kept_by_all([part.catalog.keep_features for part in parts])
        rows = tuple(row for part in parts for row in part.catalog.segments)
        first = replace(parts[0].catalog, segments=rows, keep_features=kept)
        self._names, self._parts = names, parts
        self._starts = np.cumsum([0, *(int(part.offsets[-1]) for part in parts)])
        super().__init__(parts[0].folder, replace(first, segments=()), parts[0].folder, verify=parts[0].verify)
        self.catalog = first
        self.segments = [segment for part in parts for segment in part.segments]
        self.live = [live for part in parts for live in part.live]
        self.offsets = np.cumsum([0, *map(len, self.segments)])

    def _allowed(self, wanted: list[Test] | None, among: list[Key] | None) -> Allowed | None:
        if wanted is None and among is None:
            return None
        return list(chain.from_iterable(part._allowed(wanted, among) or [] for part in self._parts))

    def items(self, rows: Rows) -> dict[int, tuple[Any, Metadata]]:
        """(place, metadata) of rows."""
        starts = self._starts
        owner = {row: int(np.searchsorted(starts, row, side="right")) - 1 for row in rows.ravel().tolist()}
        return {
            row: (Place(self._names[owner[row]], key), metadata) for row, (key, metadata) in super().items(rows).items()
        }


def _check_names(names: list[str]) -> None:
    if not names:
        raise InputError("expected at least one index; got none")
    folders = [Path(name).resolve() for name in names]
    for number, name in enumerate(names):
        if folders[number] in folders[:number]:
            raise InputError(f"{name}: the same index is given twice; expected different ones")


def _check_alike(names: list[str], parts: Iterable[Snapshot]) -> None:
    first, *others = (part.catalog for part in parts)
    for name, other in zip(names[1:], others, strict=True):
        if other.n_bits != first.n_bits:
            raise InputError(f"{name}: codes of {other.n_bits} bits; expected {first.n_bits}, as {names[0]} has")
        if other.model != first.model:
            raise InputError(f"{name}: was made with another model than {names[0]}; expected the same one")
