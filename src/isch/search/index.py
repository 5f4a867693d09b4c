"""The index on disk: a folder with a catalog, a model, and segments of codes.

    index = Index.create("photos.isch", hasher)
    index.add(features, keys=paths, metadata=[{"album": "2019"}, ...])
    index.search(queries, k=20, where={"album": "2019"})[0][0].key

A change that has returned is on disk; a change that was interrupted never happened. An ``Index`` shows the state when
it was opened, or last wrote or refreshed. Many threads may use it, and other processes may open the same index.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

from isch.encoder import Encoder
from isch.errors import InputError, NotDurable
from isch.forks import Lock
from isch.lazy import Lazy
from isch.search import intake
from isch.search import keys as key_rules
from isch.search.first_use import FIRST_USE
from isch.search.folder import building, write_empty
from isch.search.reading import Reader
from isch.search.writer import Rows, Writer, writing

if TYPE_CHECKING:
    from isch.search import calibration
    from isch.search import duplicates as near_duplicates
    from isch.search import repair as repairing
    from isch.search.indexes import Indexes
    from isch.search.repair import Repaired
else:
    calibration = Lazy("isch.search.calibration")
    near_duplicates = Lazy("isch.search.duplicates")
    repairing = Lazy("isch.search.repair")

WAIT_SECONDS = 5.0


class Index(Reader):
    """An index on disk.

    Parameters
    ----------
    path : path-like
        The folder of the index. ``Index.create`` makes one.
    wait : float
        Seconds that a change waits for another process that is writing.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        wait: float = WAIT_SECONDS,
        client: Any = None,
        verify: str = FIRST_USE,
    ) -> None:
        super().__init__(path, client, verify)
        self._wait = wait
        self._writing = Lock()

    @overload
    @classmethod
    def open(cls, path: str | os.PathLike[str], *, wait: float = ..., client: Any = ..., verify: str = ...) -> Self: ...
    @overload
    @classmethod
    def open(cls, path: list[Any] | tuple[Any, ...], *, client: Any = ..., verify: str = ...) -> "Indexes": ...
    @classmethod
    def open(
        cls, path: Any, *, wait: float = WAIT_SECONDS, client: Any = None, verify: str = FIRST_USE
    ) -> "Self | Indexes":
        """Open an index, or several to be searched as one.

        Parameters
        ----------
        path : path, or list of paths
            The folder. Several folders with the same model are searched as if they were one index, and not changed.
        wait : float
            How many seconds a change waits for another process that is writing.
        client : distributed.Client, optional
            A Dask cluster whose workers see the folder under the same path: they search it. The answers are the same.
        verify : {"first use", "before", "never"}
            When files are compared with their checksums: each once, in the background of the first searches; or before
            the first search that reads them, which then waits; or only by ``verify``. A search never gives results from
            a file that was found damaged. With "first use", a few megabytes are compared before they are searched, and
            of larger files a search that is made before the end of the comparison may give wrong results.

        Returns
        -------
        Index, or Indexes
        """
        if isinstance(path, str | os.PathLike):
            return cls(path, wait=wait, client=client, verify=verify)
        from isch.search.indexes import Indexes

        return Indexes(path, client, verify)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        encoder: Any = None,
        rows: Any = None,
        *,
        keys: Any = None,
        metadata: Any = None,
        n_bits: int | None = None,
        keep_features: str | None = None,
    ) -> Self:
        """Make an index, whole or not at all.

        Parameters
        ----------
        path : path
            The folder to make.
        encoder : Encoder, Hasher or path of a model file, optional
            What turns features, or pictures, into codes. Without it, codes are added directly.
        rows, keys, metadata : optional
            The first items, as in ``add``.
        n_bits : int, optional
            Without an encoder: the length of the codes.
        keep_features : {"float16", "float32", "factors"}, optional
            Keep the features too, for exact re-ranking; or two numbers per item with which codes estimate 2-norms, if
            the hasher of the encoder is a ``DistanceHash``.
        """
        with building(path) as folder:
            write_empty(folder, None if encoder is None else Encoder.of(encoder), n_bits, keep_features)
            if rows is not None:
                with cls(folder) as index:
                    index.add(rows, keys, metadata)
        return cls(path)

    @classmethod
    def repair(cls, path: str | os.PathLike[str], *, wait: float = WAIT_SECONDS) -> "Repaired":
        """Keep every undamaged segment of a damaged index, and move what is damaged aside.

        Parameters
        ----------
        path : path
            The folder. A catalog that is damaged or missing is made anew from the segments.
        wait : float
            How many seconds to wait for another process that is writing.

        Returns
        -------
        Repaired
            How many ``items`` there are now, a sentence for each problem ``found``, and the folder ``aside`` with what
            was damaged: None if nothing was.
        """
        return repairing.repair(Path(path), wait)

    def add(self, rows: Any, keys: Any = None, metadata: Any = None) -> None:
        """Add items, all or none.

        Parameters
        ----------
        rows : feature source, pictures, or codes
            Anything ``isch.features.open`` takes; pictures, if the index knows how they are described; codes, if it has
            no model.
        keys : sequence of str or int, optional
            One key per row, each new. By default the names of the rows if they have any, otherwise the next integers.
        metadata : list of dict, or dict, optional
            One dictionary per row, or one for all.
        """
        self._add(self._rows(rows), keys, metadata, replace=False)

    def add_codes(self, codes: Any, keys: Any = None, metadata: Any = None, *, replace: bool = False) -> None:
        """Add codes that this index's hasher made elsewhere, all or none.

        Parameters
        ----------
        codes : array of uint8 (rows, bytes)
            Packed codes.
        keys, metadata : optional
            As in ``add``.
        replace : bool
            Whether to replace items whose keys exist; otherwise they are an error.
        """
        if self._keeps:
            raise InputError(f"{self.path}: the index keeps features or factors; codes alone cannot be added")
        self._add(intake.code_rows(codes, self.n_bits), keys, metadata, replace)

    def upsert(self, rows: Any, keys: Any = None, metadata: Any = None) -> None:
        """Add items and replace those whose keys exist, all or none.

        Parameters
        ----------
        rows, keys, metadata
            As in ``add``; keys are needed, or rows with names.
        """
        source = self._rows(rows)
        if keys is None and source.names is None:
            raise InputError("replacing items needs their keys, and the rows have no names; give keys")
        self._add(source, keys, metadata, replace=True)

    def delete(self, keys: Any, *, missing_ok: bool = False) -> int:
        """Delete items.

        Parameters
        ----------
        keys : key or sequence of keys
            The items to delete.
        missing_ok : bool
            Whether to skip keys that are not in the index; otherwise they are an error.

        Returns
        -------
        int
            How many items were deleted.
        """
        chosen = key_rules.many(keys)
        with self._changing() as writer:
            return writer.delete(chosen, missing_ok)

    def compact(self) -> None:
        """Merge all segments and drop deleted rows; readers may continue meanwhile."""
        with self._changing() as writer:
            writer.compact()

    @property
    def _keeps(self) -> bool:
        return self._now.catalog.keep_features is not None

    @contextmanager
    def _changing(self) -> Iterator[Writer]:
        known = self._now.segments
        try:
            with self._writing, writing(self.path, self._wait, known, self._verify) as writer:
                yield writer
        except NotDurable:
            self.refresh()  # the change is there
            raise
        self.refresh()

    def _add(self, rows: Rows, keys: Any, metadata: Any, replace: bool) -> None:
        with self._changing() as writer:
            writer.add(rows, keys, metadata, replace)

    def _rows(self, source: Any) -> Rows:
        if not self.has_model:
            return intake.code_rows(source, self.n_bits)
        return intake.feature_rows(source, self.encoder, self._now.catalog.keep_features)
