"""An index of ours behind the contract of a store, so that a program can change engines without changing itself."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from isch.codes import Codes
from isch.connect.source import ModelTag
from isch.connect.store import Store
from isch.distances import Distance
from isch.encoder import Encoder
from isch.search import rerank as reranking
from isch.search.catalog import FILE as CATALOG
from isch.search.catalog import Key
from isch.search.filters import Where
from isch.search.folder import remove
from isch.search.index import Index
from isch.search.reading import Batch
from isch.search.results import Results


class Local(Store):
    """Codes in an index of ours.

    Parameters
    ----------
    path : path
        The folder of the index.
    encoder, n_bits
        As in every store. An index that has a model keeps it; without an encoder here, codes are added and searched.
    create : bool
        Make the index where there is none.
    replace : bool
        Make the index, in the place of one that exists. A folder that is not an index is never replaced.
    """

    only_hamming = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        encoder: Any = None,
        *,
        n_bits: int | None = None,
        create: bool = False,
        replace: bool = False,
    ) -> None:
        self.where = str(path)
        self._path = Path(path).absolute()
        self.name = self._path.name
        existing = None
        if os.path.lexists(path):
            with Index.open(path) as found:
                existing = tag_of(found)
        super().__init__(encoder, n_bits, None if replace else existing, create or replace)
        if replace and existing is not None:
            remove(Path(path))
        if replace or existing is None:
            Index.create(path, self.encoder, n_bits=None if self.encoder else self.n_bits).close()
        self.index = Index.open(path)

    @property
    def model(self) -> Encoder | None:
        """The encoder that the index keeps, whether or not this store was opened with one."""
        return self.index.encoder if self.index.has_model else None

    @property
    def distance(self) -> Distance:
        return self.index.distance

    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        where: Where | None = None,
        rerank: str | None = "auto",
        oversample: float | None = None,
    ) -> Results:
        """As ``isch.Index.search``; without an encoder the queries are codes, which are not re-ranked."""
        if self.encoder is None:
            reranking.stage(rerank, oversample, None, None)
            return self.index.search_codes(queries, k, where=where)
        return self.index.search(queries, k, where=where, rerank=rerank, oversample=oversample)

    def batches(self) -> Iterator[Batch]:
        """All items in the order they were added, some thousands at a time."""
        return self.index.batches()

    def __len__(self) -> int:
        return len(self.index)

    def close(self) -> None:
        self.index.close()

    def _others(self) -> list[str]:
        return [path.parent.name for path in self._path.parent.glob(f"*/{CATALOG}")]

    def _upsert(self, keys: Sequence[Key], codes: Codes, metadata: Sequence[str | None]) -> None:
        notes = [None if text is None else json.loads(text) for text in metadata]
        self.index.add_codes(codes, keys, notes, replace=True)

    def _delete(self, keys: Sequence[Key]) -> None:
        self.index.delete(keys, missing_ok=True)


def tag_of(index: Index) -> ModelTag:
    """Which model made the codes of an index."""
    return ModelTag.of(index.encoder if index.has_model else None, index.n_bits)
