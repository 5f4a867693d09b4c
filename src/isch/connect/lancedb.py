"""LanceDB: a table (key, numbered, code of uint8, metadata as JSON), the model tag in its schema. Search is exact.

LanceDB's Hamming distance works on whole bytes; padding bits are zero. Filters on metadata are applied here. When
the connection to a remote database is lost, requests are made again, by LanceDB's client or here.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from isch.codes import Codes, width
from isch.connect import ENGINES
from isch.connect.remote import masked, retried
from isch.connect.source import BATCH_ROWS, ModelTag, check_width, parsed
from isch.connect.store import Candidate, EngineStore
from isch.errors import FileError, FormatError, IschError, require
from isch.search.catalog import Key
from isch.search.filters import Where
from isch.search.reading import Batch

CONNECT_SECONDS = 10
CALL_SECONDS = 60
TRIES = 4
T = TypeVar("T")

_COLUMNS = ["key", "numbered", "code", "metadata"]


class LanceDB(EngineStore):
    """Codes in a table of LanceDB.

    Parameters
    ----------
    uri : str or path
        The folder of the database, or the address of a remote one, ``db://name``; the key of the remote one is in the
        environment variable ``LANCEDB_API_KEY``, and its server, if it is your own, in ``LANCEDB_HOST``.
    table : str
        The table.
    encoder, n_bits, create, replace
        As in every store.
    """

    facts = ENGINES["lancedb"]

    def __init__(
        self,
        uri: str | os.PathLike[str],
        table: str,
        encoder: Any = None,
        *,
        n_bits: int | None = None,
        create: bool = False,
        replace: bool = False,
    ) -> None:
        require("lancedb", "lancedb")
        self._arrow = require("pyarrow", "lancedb")
        self._uri = os.fspath(uri)
        self.name = table
        self.where = f"table {table!r} of {masked(self._uri)}"
        if not (create or replace) and "://" not in self._uri and not os.path.isdir(self._uri):
            raise FileError(f"{masked(self._uri)}: no such folder; expected a database of LanceDB")
        with self._translated():
            self._database = _connected(self._uri)
        exists = table in self._others()
        self._opened: Any = self._call(lambda: self._database.open_table(table)) if exists and not replace else None
        existing = None if self._opened is None else self._existing()
        super().__init__(encoder, n_bits, existing, create or replace)
        if existing is None:
            mode = "overwrite" if replace else "create"
            self._opened = self._call(lambda: self._database.create_table(table, schema=self._schema(), mode=mode))

    def __len__(self) -> int:
        return int(self._call(lambda: self._opened.count_rows()))

    def _upsert(self, keys: Sequence[Key], codes: Codes, metadata: Sequence[str | None]) -> None:
        arrow = self._arrow
        schema = self._schema()
        columns = [
            arrow.array([str(key) for key in keys], arrow.string()),
            arrow.array([isinstance(key, int) for key in keys], arrow.bool_()),
            arrow.FixedSizeListArray.from_arrays(arrow.array(codes.ravel()), codes.shape[1]),
            arrow.array(list(metadata), arrow.string()),
        ]
        rows = arrow.Table.from_arrays(columns, schema=schema)
        self._call(
            lambda: (
                self._opened.merge_insert(["key", "numbered"])
                .when_matched_update_all()
                .when_not_matched_insert_all()
                .execute(rows)
            )
        )

    def _delete(self, keys: Sequence[Key]) -> None:
        for numbered in (False, True):
            some = [_literal(str(key)) for key in keys if isinstance(key, int) == numbered]
            if some:
                condition = f"numbered = {str(numbered).lower()} AND key IN ({', '.join(some)})"
                self._call(partial(self._opened.delete, condition))

    def batches(self) -> Iterator[Batch]:
        """All items, some thousands at a time."""
        with self._translated():
            for batch in self._opened.search().select(_COLUMNS).to_batches(BATCH_ROWS):
                keys, numbered, codes, notes = (batch.column(name) for name in _COLUMNS)
                yield Batch(
                    [_key(*one) for one in zip(keys.to_pylist(), numbered.to_pylist(), strict=True)],
                    codes.flatten().to_numpy().reshape(len(codes), width(self.n_bits)),
                    [parsed(note, self.where) for note in notes.to_pylist()],
                    None,
                )

    def _nearest(self, codes: Codes, k: int, where: Where | None) -> list[list[Candidate]]:
        """One query at a time: LanceDB answers several at once no faster, and needs much more memory for it."""
        return [self._nearest_of(code, k) for code in codes]

    def _nearest_of(self, code: Codes, k: int) -> list[Candidate]:
        search = self._opened.search(code, vector_column_name="code").distance_type("hamming")
        found = self._call(lambda: search.limit(k).select([*_COLUMNS, "_distance"]).to_arrow())
        rows = zip(*(found[name].to_pylist() for name in (*_COLUMNS, "_distance")), strict=True)
        return [
            Candidate(
                _key(key, numbered),
                check_width(bytes(bits), self.n_bits, self.where),
                int(distance),
                parsed(note, self.where),
            )
            for key, numbered, bits, note, distance in rows
        ]

    def _schema(self) -> Any:
        arrow = self._arrow
        fields = [
            arrow.field("key", arrow.string()),
            arrow.field("numbered", arrow.bool_()),
            arrow.field("code", arrow.list_(arrow.uint8(), width(self.n_bits))),
            arrow.field("metadata", arrow.string()),
        ]
        return arrow.schema(fields, metadata={b"isch": str(self.tag).encode()})

    def _existing(self) -> ModelTag:
        schema = self._opened.schema
        if not set(_COLUMNS) <= set(schema.names):
            raise FormatError(
                f"{self.where} exists with another shape: expected columns code, key, metadata, numbered; "
                f"got {', '.join(sorted(schema.names))}; replace=True or --replace overwrites it"
            )
        return ModelTag.parse((schema.metadata or {}).get(b"isch", b"").decode("utf-8", "replace"), self.where)

    def _others(self) -> list[str]:
        return self._call(self._names)

    def _names(self) -> list[str]:
        page = self._database.list_tables()
        names = list(page.tables)
        while page.page_token:
            page = self._database.list_tables(page_token=page.page_token)
            names += page.tables
        return names

    def _call(self, work: Callable[[], T]) -> T:
        """``work()``, in our words, and again where the connection was lost; all that is asked may be asked twice."""

        def worded() -> T:
            with self._translated():
                return work()

        return retried(worded, lambda: None, _lost)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except IschError:
            raise
        except (RuntimeError, ValueError, OSError) as error:
            raise FileError(f"{self.where}: {_worded(error, self._uri)}") from None


def _connected(uri: str) -> Any:
    """The database; a remote one must answer soon, and is asked again later when the connection is lost."""
    lancedb = require("lancedb", "lancedb")
    if not uri.startswith("db://"):
        return lancedb.connect(uri)
    host = {"host_override": os.environ["LANCEDB_HOST"]} if "LANCEDB_HOST" in os.environ else {}
    options = {"api_key": os.environ.get("LANCEDB_API_KEY", ""), **host}
    try:
        lancedb.connect(uri, client_config=_patience(0, CONNECT_SECONDS), **options).list_tables(limit=1)
    except (RuntimeError, ValueError, OSError) as error:
        raise FileError(f"LanceDB cannot be reached at {masked(uri)}: {_worded(error, uri)}") from None
    return lancedb.connect(uri, client_config=_patience(TRIES, CALL_SECONDS), **options)


def _lost(error: BaseException) -> bool:
    """Whether a connection was lost: what LanceDB's own client does not try again."""
    return "error sending request" in str(error)


def _patience(tries: int, seconds: int) -> Any:
    """How often a request is made again, and how long each may take."""
    remote = require("lancedb.remote", "lancedb")
    limit = timedelta(seconds=seconds)
    timeouts = remote.TimeoutConfig(timeout=limit, connect_timeout=limit, read_timeout=limit)
    retries = remote.RetryConfig(retries=tries, connect_retries=tries, read_retries=tries, backoff_factor=0.5)
    return remote.ClientConfig(timeout_config=timeouts, retry_config=retries)


def _worded(error: BaseException, uri: str) -> str:
    """The words of LanceDB on one line; of an answer that repeats the key, the status alone."""
    text = " ".join(str(error).split()).replace(uri, masked(uri))
    status = getattr(error, "status_code", None)  # of a server's answer, whose text can be anything
    if status and os.environ.get("LANCEDB_API_KEY", "") in text:
        return f"status {status}; the words of the answer are not shown, because the key is among them"
    return text[:300]


def _key(text: str, numbered: bool) -> Key:
    return int(text) if numbered else text


def _literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"
