"""PostgreSQL with pgvector: a table (key, numbered, code bit(n), metadata jsonb), the mark in its comment.

``numbered`` says whether the key is an integer. Distances are pgvector's ``<~>``. "exact" scans the table; "hnsw" adds
an index with ``bit_hamming_ops``, which takes up to 64,000 bits.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from isch.codes import Codes, pack
from isch.connect.base import BATCH_ROWS, opening, parsed
from isch.connect.candidates import Candidate, EngineStore
from isch.connect.mark import Mark
from isch.connect.retry import retried
from isch.errors import FileError, FormatError, InputError, ParameterError, require, unknown
from isch.search.catalog import Key
from isch.search.filters import Where
from isch.search.index import Batch

KINDS = ("exact", "hnsw")
HNSW_BITS = 64_000
CONNECT_SECONDS = 10
MAX_NAME = 63
_COLUMNS = {"key": "text", "numbered": "boolean", "code": "bit", "metadata": "jsonb"}


class Postgres(EngineStore):
    """Codes in a table of PostgreSQL.

    Parameters
    ----------
    url : str
        ``postgresql://user:password@host/database``. The password is never shown.
    table : str
        The table; made when there is none. Any name is possible.
    encoder, n_bits
        As in every store.
    kind : {"exact", "hnsw"}
        Whether an approximate index is built by ``finish`` and used.
    replace : bool
        Begin anew where the table exists.
    """

    filters = True

    def __init__(
        self,
        url: str,
        table: str,
        encoder: Any = None,
        *,
        n_bits: int | None = None,
        kind: str | None = None,
        replace: bool = False,
    ) -> None:
        if not table or len(table.encode()) > MAX_NAME or "\0" in table:
            raise ParameterError(f"table must be a name of 1 to {MAX_NAME} bytes; got {table!r}")
        if kind is not None and kind not in KINDS:
            raise unknown("kind", kind, KINDS)
        self._url, self.table, self.where = url, table, f"table {table!r}"
        self._psycopg = require("psycopg", "postgres")
        self._connection: Any = None
        self._connect()
        with opening(self):
            existing = None if replace else self._existing()
            super().__init__(encoder, n_bits, existing)
            if kind == "hnsw" and self.n_bits > HNSW_BITS:
                raise InputError(
                    f"{self.where}: pgvector's HNSW takes up to {HNSW_BITS} bits; got {self.n_bits}; use exact"
                )
            if existing is None:
                self._create(replace)
            self.kind = kind or ("hnsw" if self._has_index() else "exact")

    def finish(self) -> None:
        """Build the HNSW index, after the rows are in: that is several times as fast as before."""
        if self.kind == "hnsw" and not self._has_index():
            self._run(self._sql("CREATE INDEX ON {table} USING hnsw (code bit_hamming_ops)"))

    def __len__(self) -> int:
        return int(self._run(self._sql("SELECT count(*) FROM {table}"))[0][0])

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _upsert(self, keys: Sequence[Key], codes: Codes, metadata: Sequence[str | None]) -> None:
        rows = b"".join(_binary_rows(keys, codes, metadata, self.n_bits))
        retried(lambda: self._copy(rows), self._reconnect, self._lost)

    def _copy(self, rows: bytes) -> None:
        """Rows go into a temporary table by binary COPY, then in one statement into the table."""
        with self._translated(), self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute(self._sql("CREATE TEMP TABLE arriving (LIKE {table}) ON COMMIT DROP"))
            with cursor.copy("COPY arriving (key, numbered, code, metadata) FROM STDIN (FORMAT BINARY)") as copy:
                copy.write(_COPY_HEADER + rows + _COPY_END)
            cursor.execute(
                self._sql(
                    "INSERT INTO {table} AS t SELECT * FROM arriving ON CONFLICT (key, numbered) DO UPDATE "
                    "SET code = EXCLUDED.code, metadata = EXCLUDED.metadata "
                    "WHERE (t.code, t.metadata) IS DISTINCT FROM (EXCLUDED.code, EXCLUDED.metadata)"
                )
            )

    def _delete(self, keys: Sequence[Key]) -> None:
        for numbered in (False, True):
            some = [str(key) for key in keys if isinstance(key, int) == numbered]
            if some:
                self._run(self._sql("DELETE FROM {table} WHERE numbered = %s AND key = ANY(%s)"), [numbered, some])

    def batches(self) -> Iterator[Batch]:
        """All items, some thousands at a time, as they are at one moment."""
        query = self._sql("SELECT key, numbered, code::text, metadata::text FROM {table}")
        with self._translated(), self._connection.transaction(), self._connection.cursor("reading") as cursor:
            cursor.execute(query)
            while rows := cursor.fetchmany(BATCH_ROWS):
                yield Batch(
                    [_key(key, numbered) for key, numbered, *_ in rows],
                    np.stack([_from_text(text) for _, _, text, _ in rows]),
                    [parsed(note, self.where) for *_, note in rows],
                    None,
                )

    def _nearest(self, codes: Codes, k: int, where: Where | None) -> list[list[Candidate]]:
        from isch.connect.jsonb import condition

        sql, values = ("true", []) if where is None else condition(where)
        order = "code <~> %s::bit({bits})" if self.kind == "hnsw" else "code <~> %s::bit({bits}), key, numbered"
        query = self._sql(
            f"SELECT key, numbered, code::text, metadata::text, code <~> %s::bit({{bits}}) FROM {{table}} "
            f"WHERE {sql} ORDER BY {order} LIMIT %s"
        )
        texts = [_to_text(code, self.n_bits) for code in codes]
        found = self._searched(query, [[text, *values, text, k] for text in texts], k)
        return [[self._candidate(row) for row in rows] for rows in found]

    def _candidate(self, row: Any) -> Candidate:
        key, numbered, text, metadata, distance = row
        return Candidate(_key(key, numbered), _from_text(text), int(distance), parsed(metadata, self.where))

    def _searched(self, query: Any, values: list[list[Any]], k: int) -> list[list[Any]]:
        """Rows of one search for each list of values, with settings that hold for these alone."""

        def search() -> list[list[Any]]:
            with self._translated(), self._connection.transaction():
                if self.kind == "hnsw":
                    self._connection.execute(f"SET LOCAL hnsw.ef_search = {min(1000, max(100, 2 * k))}")
                    self._connection.execute("SET LOCAL hnsw.iterative_scan = strict_order")
                else:
                    self._connection.execute("SET LOCAL enable_indexscan = off")
                return [list(self._connection.execute(query, some).fetchall()) for some in values]

        return retried(search, self._reconnect, self._lost)

    def _create(self, replace: bool) -> None:
        if self.n_bits < 1:
            raise ParameterError(f"n_bits must be at least 1; got {self.n_bits}")
        self._run("CREATE EXTENSION IF NOT EXISTS vector")
        with self._translated(), self._connection.transaction():
            if replace:
                self._connection.execute(self._sql("DROP TABLE IF EXISTS {table}"))
            self._connection.execute(
                self._sql(
                    "CREATE TABLE {table} (key text, numbered boolean, code bit({bits}) NOT NULL, metadata jsonb, "
                    "PRIMARY KEY (key, numbered))"
                )
            )
            literal = self._psycopg.sql.Literal(str(self.mark))
            self._connection.execute(self._sql("COMMENT ON TABLE {table} IS {mark}", mark=literal))

    def _existing(self) -> Mark | None:
        """The mark of the table, if there is one; refuses a table of another shape."""
        columns = dict(
            self._run(
                "SELECT a.attname, t.typname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
                "WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped",
                [self._quoted()],
            )
        )
        if not columns:
            return None
        wanted = {name: {"boolean": "bool"}.get(kind, kind) for name, kind in _COLUMNS.items()}
        if columns != wanted:
            raise FormatError(
                f"{self.where} exists with another shape: expected columns {_listed(wanted)}; got {_listed(columns)}; "
                "replace=True or --replace overwrites it"
            )
        comment = self._run("SELECT obj_description(to_regclass(%s), 'pg_class')", [self._quoted()])[0][0]
        return Mark.parse(comment, self.where)

    def _has_index(self) -> bool:
        sql = "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam "
        return bool(
            self._run(f"{sql} WHERE i.indrelid = to_regclass(%s) AND a.amname = 'hnsw'", [self._quoted()])[0][0]
        )

    def _quoted(self) -> str:
        return str(self._psycopg.sql.Identifier(self.table).as_string(self._connection))

    def _sql(self, text: str, **more: Any) -> Any:
        """A statement with the table's name and the number of bits put in safely."""
        sql = self._psycopg.sql
        bits = sql.Literal(getattr(self, "mark", Mark(1)).n_bits)
        return sql.SQL(text).format(table=sql.Identifier(self.table), bits=bits, **more)

    def _run(self, statement: Any, values: Sequence[Any] = ()) -> list[Any]:
        def run() -> list[Any]:
            with self._translated():
                cursor = self._connection.execute(statement, values)
                return list(cursor.fetchall()) if cursor.description else []

        return retried(run, self._reconnect, self._lost)

    def _connect(self) -> None:
        try:
            self._connection = self._psycopg.connect(self._url, autocommit=True, connect_timeout=CONNECT_SECONDS)
        except self._psycopg.Error as error:
            raise FileError(f"PostgreSQL cannot be reached: {self._worded(error)}") from None
        except (ValueError, TypeError):
            raise ParameterError(
                "the URL of PostgreSQL is not valid; expected postgresql://user@host/database"
            ) from None

    def _reconnect(self) -> None:
        self._connection.close()
        self._connect()

    def _lost(self, error: BaseException) -> bool:
        """Whether an error means that the connection was lost, so that trying again can help."""
        return isinstance(error, FileError) and bool(self._connection.closed or self._connection.broken)

    def _worded(self, error: BaseException) -> str:
        """PostgreSQL's words without the password."""
        text = " ".join(str(error).split())
        try:
            password = self._psycopg.conninfo.conninfo_to_dict(self._url).get("password")
        except self._psycopg.Error:
            return "the URL is not valid; expected postgresql://user@host/database"
        return text.replace(str(password), "***") if password else text

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._psycopg.Error as error:
            raise FileError(f"{self.where}: {self._worded(error)}") from None


_COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack("!II", 0, 0)
_COPY_END = struct.pack("!h", -1)
_FIELDS = struct.pack("!h", len(_COLUMNS))
_NULL = struct.pack("!i", -1)


def _binary_rows(keys: Sequence[Key], codes: Codes, metadata: Sequence[str | None], n_bits: int) -> Iterator[bytes]:
    """Rows as PostgreSQL's binary COPY takes them."""
    bits = struct.pack("!ii", 4 + codes.shape[1], n_bits)
    for key, code, note in zip(keys, codes, metadata, strict=True):
        text = str(key).encode()
        numbered = struct.pack("!i?", 1, isinstance(key, int))
        json = _NULL if note is None else struct.pack("!iB", 1 + len(note.encode()), 1) + note.encode()
        yield b"".join((_FIELDS, struct.pack("!i", len(text)), text, numbered, bits, code.tobytes(), json))


def _key(text: str, numbered: bool) -> Key:
    return int(text) if numbered else text


def _to_text(code: Codes, n_bits: int) -> str:
    return bytes(np.unpackbits(code, count=n_bits) + ord("0")).decode()


def _from_text(bits: str) -> Codes:
    return pack(np.frombuffer(bits.encode(), np.uint8)[None] == ord("1")).ravel()


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in sorted(columns.items()))
