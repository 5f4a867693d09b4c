"""The contract of a store: codes under keys, with metadata, in an engine of ours or of somebody else.

A store gives ``_upsert``, ``_delete``, ``search``, ``batches``, ``_others`` and ``__len__``; encoding, the check of the
model and what is said of a store that is not there are written here once. Opening never creates. Results are those of
``isch.Index``. A store is also a source: what it holds can be put elsewhere.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import numpy as np

from isch.codes import Codes, width
from isch.connect.mark import Mark
from isch.distances import HAMMING, Distance, Hamming
from isch.encoder import Encoder
from isch.errors import FileError, FormatError, InputError
from isch.search import intake
from isch.search import keys as key_rules
from isch.search.catalog import Key
from isch.search.filters import Where
from isch.search.items import Metadata
from isch.search.reading import Batch
from isch.search.results import Results

BATCH_ROWS = 16_384
LISTED = 10  # stores that a message names


class Source(ABC):
    """Codes with keys and metadata that can be read from beginning to end, any number of times."""

    where: str  # how messages call it
    mark: Mark  # which model made the codes

    @abstractmethod
    def __len__(self) -> int:
        """How many items there are."""

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """All items, some thousands at a time."""

    def close(self) -> None:  # noqa: B027  # a source without anything to close need not say so
        """Let go of files and connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


class Store(Source):
    """Codes in an engine.

    Parameters
    ----------
    encoder : Encoder, Hasher, path, Mark or None
        What turns features or pictures into codes. Without it the store takes codes: of ``n_bits`` bits, or of the
        model that a ``Mark`` names.
    n_bits : int, optional
        Without an encoder: the length of the codes.
    existing : Mark, optional
        What the store says of its codes, if it is there already and stays.
    create : bool
        Whether a store that does not exist is to be made. Otherwise it is an error: a mistyped name must not become
        an empty store.
    """

    where: str  # how messages call the store
    name: str  # what it is called among the stores of the same place
    only_hamming = True  # whether the engine knows no other distance

    def __init__(self, encoder: Any, n_bits: int | None, existing: Mark | None, create: bool) -> None:
        if existing is None and not create:
            raise self._missing(could_be_made=encoder is not None or n_bits is not None)
        given = encoder if isinstance(encoder, Mark) else None
        self.encoder = None if encoder is None or given else Encoder.of(encoder)
        if self.encoder is not None and self.only_hamming and not isinstance(self.encoder.distance, Hamming):
            raise InputError(f"engines compare codes by Hamming distance; {self.encoder.hasher.name} has its own")
        if existing is None and encoder is None and n_bits is None:
            raise InputError(f"{self.where} does not exist; making it needs n_bits, or an encoder")
        known = existing if encoder is None and n_bits is None else given
        self.mark = known or Mark.of(self.encoder, n_bits)
        if existing is not None:
            existing.check(self.mark, self.where)

    @property
    def n_bits(self) -> int:
        """Bits per code."""
        return self.mark.n_bits

    @property
    def distance(self) -> Distance:
        """How codes are compared."""
        return HAMMING

    def add(self, keys: Any, rows: Any, metadata: Any = None) -> None:
        """Add items, replacing those whose keys exist.

        Parameters
        ----------
        keys : sequence of str or int
            One key per row.
        rows : feature source, pictures, or codes
            Features or pictures where the store has an encoder, else codes.
        metadata : list of dict, or dict, optional
            One dictionary per row, or one for all.
        """
        source = (
            intake.code_rows(rows, self.n_bits)
            if self.encoder is None
            else intake.feature_rows(rows, self.encoder, None)
        )
        chosen = _distinct(key_rules.for_rows(keys, source.names, source.count, 0))
        notes = list(key_rules.metadata_rows(metadata, source.count))
        start = 0
        for codes, _ in source.parts:
            stop = start + len(codes)
            self._upsert(chosen[start:stop], codes, notes[start:stop])
            start = stop

    def add_codes(self, keys: Any, codes: Any, metadata: Any = None) -> None:
        """Add codes that this store's encoder made elsewhere, replacing those whose keys exist."""
        rows = intake.check_codes(codes, self.n_bits, "the codes")
        chosen = _distinct(key_rules.for_rows(keys, None, len(rows), 0))
        self._upsert(chosen, rows, list(key_rules.metadata_rows(metadata, len(rows))))

    def delete(self, keys: Any) -> None:
        """Delete items; keys that are not there are passed over."""
        chosen = key_rules.many(keys)
        if chosen:
            self._delete(chosen)

    @abstractmethod
    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        where: Where | None = None,
        rerank: str | None = "auto",
        oversample: float | None = None,
    ) -> Results:
        """The k nearest items of each query, nearest first, as ``isch.Index.search`` gives them."""

    def finish(self) -> None:  # most engines have everything in place
        """Build what is quicker to build when all items are there; to be called after many were added."""

    def _missing(self, could_be_made: bool) -> FileError:
        """Describe a store that does not exist by the stores that do."""
        there = f"{self.where} does not exist; {_listed(self._others(), self.name)}"
        return FileError(f"{there}; create=True makes it" if could_be_made else there)

    @abstractmethod
    def _others(self) -> list[str]:
        """List the names of the stores that exist in the same place."""

    @abstractmethod
    def _upsert(self, keys: Sequence[Key], codes: Codes, metadata: Sequence[str | None]) -> None:
        """Add items, replacing those whose keys exist; metadata as JSON."""

    @abstractmethod
    def _delete(self, keys: Sequence[Key]) -> None:
        """Delete those of the items that exist."""


def _distinct(keys: Sequence[Key]) -> Sequence[Key]:
    if repeated := key_rules.repeated(keys):
        raise InputError(repeated)
    return keys


def _listed(names: Sequence[str], asked: str) -> str:
    """List names in words; of many, those that are most like the one that was asked for."""
    if not names:
        return "no stores are there"
    from difflib import get_close_matches

    nearest = get_close_matches(asked, names, LISTED, cutoff=0)
    more = f" and {len(names) - len(nearest)} more" if len(names) > len(nearest) else ""
    return f"stores there: {', '.join(nearest)}{more}"


@contextmanager
def opening(store: Store) -> Iterator[None]:
    """Let go of the engine again if the store cannot be opened."""
    try:
        yield
    except BaseException:
        store.close()
        raise


def check_width(code: bytes, n_bits: int, where: str) -> Codes:
    """A code as an engine gives it back."""
    if len(code) != width(n_bits):
        raise FormatError(f"{where}: expected codes of {width(n_bits)} bytes; got {len(code)}")
    return np.frombuffer(code, np.uint8)


def parsed(text: str | None, where: str) -> Metadata:
    """Metadata from the JSON that an engine gives back."""
    try:
        found = None if text is None else json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise FormatError(f"{where}: the metadata of an item are damaged ({error})") from error
    if not (found is None or isinstance(found, dict)):
        raise FormatError(f"{where}: the metadata of an item are damaged (expected a JSON object)")
    return found
