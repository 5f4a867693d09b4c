"""PostgreSQL with pgvector: a table (key, numbered, code bit(n), metadata jsonb), the model tag in its comment.

``numbered`` says whether the key is an integer. Distances are pgvector's ``<~>``. "exact" scans the table; "hnsw" adds
an index with ``bit_hamming_ops``, which takes up to 64,000 bits.

A table of somebody else needs a column of ``bit(n)`` or ``bytea``; what is beside it becomes keys and metadata.
"""

import json
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from isch.codes import Codes
from isch.connect import ENGINES
from isch.connect.pgserver import Server, from_bits, to_bits
from isch.connect.source import BATCH_ROWS, FORMAT, ModelTag, ReadOptions, Source, check_width, parsed
from isch.connect.store import Candidate, EngineStore, opening
from isch.errors import FileError, FormatError, InputError, ParameterError, unknown
from isch.search.catalog import Key
from isch.search.filters import Where, tests
from isch.search.reading import Batch

HNSW_BITS = 64_000
MAX_NAME = 63
BUILD_MEMORY = "1GB"  # for building an HNSW index, which is far slower where the graph does not fit; one connection
_COLUMNS = {"key": "text", "numbered": "boolean", "code": "bit", "metadata": "jsonb"}


class Postgres(EngineStore):
    """Codes in a table of PostgreSQL.

    Parameters
    ----------
    url : str
        ``postgresql://user:password@host/database``. The password is never shown.
    table : str
        The table. Any name is possible.
    encoder, n_bits
        As in every store.
    kind : {"exact", "hnsw"}
        Whether an approximate index is built by ``finish`` and used.
    create : bool
        Make the table where there is none.
    replace : bool
        Make the table, in the place of one that exists.
    """

    facts = ENGINES["postgres"]
    filters = True

    def __init__(
        self,
        url: str,
        table: str,
        encoder: Any = None,
        *,
        n_bits: int | None = None,
        kind: str | None = None,
        create: bool = False,
        replace: bool = False,
    ) -> None:
        if not table or len(table.encode()) > MAX_NAME or "\0" in table:
            raise ParameterError(f"table must be a name of 1 to {MAX_NAME} bytes; got {table!r}")
        self._check_kind(kind)
        self.name = table
        self.where = f"table {table!r}"
        self._server = Server(url, self.where)
        with opening(self):
            existing = None if replace else self._existing()
            super().__init__(encoder, n_bits, existing, create or replace)
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
            self._run(f"SET maintenance_work_mem = '{BUILD_MEMORY}'")
            self._run(self._sql("CREATE INDEX ON {table} USING hnsw (code bit_hamming_ops)"))

    def __len__(self) -> int:
        return int(self._run(self._sql("SELECT count(*) FROM {table}"))[0][0])

    def close(self) -> None:
        self._server.close()

    def _upsert(self, keys: Sequence[Key], codes: Codes, metadata: Sequence[str | None]) -> None:
        rows = b"".join(_binary_rows(keys, codes, metadata, self.n_bits))
        self._server.retried(lambda: self._copy(rows))

    def _copy(self, rows: bytes) -> None:
        """Rows go into a temporary table by binary COPY, then in one statement into the table."""
        connection = self._server.connection
        with connection.transaction(), connection.cursor() as cursor:
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
        for rows in self._server.stream(query, BATCH_ROWS):
            keys, numbered, texts, notes = zip(*rows, strict=True)
            yield Batch(
                [int(key) if number else key for key, number in zip(keys, numbered, strict=True)],
                from_bits(texts, self.n_bits, self.where),
                [parsed(note, self.where) for note in notes],
                None,
            )

    def _nearest(self, codes: Codes, k: int, where: Where | None) -> list[list[Candidate]]:
        sql, values = ("true", []) if where is None else condition(where)
        order = "code <~> %s::bit({bits})" if self.kind == "hnsw" else "code <~> %s::bit({bits}), key, numbered"
        query = self._sql(
            f"SELECT key, numbered, code::text, metadata::text, code <~> %s::bit({{bits}}) FROM {{table}} "
            f"WHERE {sql} ORDER BY {order} LIMIT %s"
        )
        texts = [to_bits(code, self.n_bits) for code in codes]
        found = self._searched(query, [[text, *values, text, k] for text in texts], k)
        return [[self._candidate(row) for row in rows] for rows in found]

    def _candidate(self, row: Any) -> Candidate:
        key, numbered, text, metadata, distance = row
        code = from_bits([text], self.n_bits, self.where)[0]
        return Candidate(int(key) if numbered else key, code, int(distance), parsed(metadata, self.where))

    def _searched(self, query: Any, values: list[list[Any]], k: int) -> list[list[Any]]:
        """Rows of one search for each list of values, with settings that hold for these alone."""

        def search() -> list[list[Any]]:
            connection = self._server.connection
            with connection.transaction():
                if self.kind == "hnsw":
                    connection.execute(f"SET LOCAL hnsw.ef_search = {min(1000, max(100, 2 * k))}")
                    connection.execute("SET LOCAL hnsw.iterative_scan = strict_order")
                else:
                    connection.execute("SET LOCAL enable_indexscan = off")
                return [list(connection.execute(query, some).fetchall()) for some in values]

        return self._server.retried(search)

    def _create(self, replace: bool) -> None:
        if self.n_bits < 1:
            raise ParameterError(f"n_bits must be at least 1; got {self.n_bits}")
        self._run("CREATE EXTENSION IF NOT EXISTS vector")
        connection = self._server.connection
        with self._server.translated(), connection.transaction():
            if replace:
                connection.execute(self._sql("DROP TABLE IF EXISTS {table}"))
            connection.execute(
                self._sql(
                    "CREATE TABLE {table} (key text, numbered boolean, code bit({bits}) NOT NULL, metadata jsonb, "
                    "PRIMARY KEY (key, numbered))"
                )
            )
            connection.execute(self._sql("COMMENT ON TABLE {table} IS {tag}", tag=str(self.tag)))

    def _existing(self) -> ModelTag | None:
        """The tag of the table, if there is one; refuses a table of another shape."""
        columns = {name: kind.partition("(")[0] for name, kind in self._server.columns(self.name).items()}
        if not columns:
            return None
        if columns != _COLUMNS:
            raise FormatError(
                f"{self.where} exists with another shape: expected columns {_listed(_COLUMNS)}; "
                f"got {_listed(columns)}; replace=True or --replace overwrites it"
            )
        quoted = self._server.quoted(self.name)
        comment = self._run("SELECT obj_description(to_regclass(%s), 'pg_class')", [quoted])[0][0]
        return ModelTag.parse(comment, self.where)

    def _others(self) -> list[str]:
        found = self._run(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND pg_table_is_visible(oid) "
            "AND obj_description(oid, 'pg_class') LIKE %s",
            [f"%{FORMAT}%"],
        )
        return [name for (name,) in found]

    def _has_index(self) -> bool:
        sql = "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam "
        quoted = self._server.quoted(self.name)
        return bool(self._run(f"{sql} WHERE i.indrelid = to_regclass(%s) AND a.amname = 'hnsw'", [quoted])[0][0])

    def _sql(self, text: str, **values: Any) -> Any:
        """A statement with the table's name, the number of bits and other values put in safely."""
        literals = {name: self._server.literal(value) for name, value in (values | {"bits": self.n_bits}).items()}
        return self._server.sql(text, self.name, **literals)

    def _run(self, statement: Any, values: Sequence[Any] = ()) -> list[Any]:
        return self._server.run(statement, values)


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


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in sorted(columns.items()))


_INTEGERS = ("smallint", "integer", "bigint")


class Table(Source):
    """The codes of a table; the other columns are metadata."""

    def __init__(self, url: str, table: str, options: ReadOptions) -> None:
        self.where = f"table {table!r}"
        self._table = table
        self._server = Server(url, self.where)
        try:
            columns = self._server.columns(table)
            if not columns:
                raise FileError(f"{self.where} does not exist")
            codes = [name for name, kind in columns.items() if kind.partition("(")[0] in ("bit", "bytea")]
            self._code = _column(options.code, "code", codes, self.where)
            self._bytes = columns[self._code] == "bytea"
            self._key = _key(options.key, columns, self._code, self.where)
            self._integers = columns.get(self._key or "") in _INTEGERS
            self.tag = ModelTag(self._length(columns[self._code], options))
        except BaseException:
            self._server.close()
            raise

    def __len__(self) -> int:
        return int(self._server.run(self._sql("SELECT count(*) FROM {table}"))[0][0])

    def batches(self) -> Iterator[Batch]:
        """All items, some thousands at a time, as they are at one moment."""
        code = "encode({code}, 'hex')" if self._bytes else "{code}::text"
        key = "NULL" if self._key is None else "{key}" if self._integers else "{key}::text"
        query = self._sql(f"SELECT {key}, {code}, (to_jsonb(t) - {{names}}::text[])::text FROM {{table}} t")
        start = 0
        for rows in self._server.stream(query, BATCH_ROWS):
            keys, texts, notes = zip(*rows, strict=True)
            self._refuse_nulls(keys, texts, start)
            named: list[Key] = [*range(start, start + len(rows))] if self._key is None else [*keys]
            yield Batch(named, self._codes(texts), [parsed(note, self.where) or None for note in notes], None)
            start += len(rows)

    def close(self) -> None:
        """End the connection."""
        self._server.close()

    def _codes(self, texts: Any) -> Codes:
        if not self._bytes:
            return from_bits(texts, self.tag.n_bits, self.where)
        return np.stack([check_width(bytes.fromhex(text), self.tag.n_bits, self.where) for text in texts])

    def _refuse_nulls(self, keys: Any, texts: Any, start: int) -> None:
        if None in texts:
            raise FormatError(f"{self.where}: row {start + texts.index(None)} has no code")
        if self._key is not None and None in keys:
            raise FormatError(f"{self.where}: row {start + keys.index(None)} has no key")

    def _length(self, kind: str, options: ReadOptions) -> int:
        if not self._bytes:
            n_bits = int(kind.partition("(")[2].rstrip(")") or 1)
            if options.n_bits not in (None, n_bits):
                raise InputError(f"{self.where}: its codes have {n_bits} bits; got {options.n_bits}")
            return n_bits
        first = self._server.run(self._sql("SELECT length({code}) FROM {table} LIMIT 1"))
        if not first or not first[0][0]:
            raise FormatError(f"{self.where}: the first row has no code")
        return options.length(int(first[0][0]), self.where)

    def _sql(self, text: str) -> Any:
        key = self._key or self._code
        names = self._server.literal([self._code, key])
        return self._server.sql(text, self._table, code=self._code, key=key, names=names)


def _column(asked: str | None, usual: str, candidates: list[str], where: str) -> str:
    if asked is not None and asked not in candidates:
        raise unknown(f"column of codes in {where}:", asked, candidates)
    if asked is None and usual not in candidates and len(candidates) != 1:
        raise FormatError(
            f"{where}: expected one column of codes (bit or bytea), or --code to choose; "
            f"it has {', '.join(candidates) or 'none'}"
        )
    return asked or (usual if usual in candidates else candidates[0])


def _key(asked: str | None, columns: dict[str, str], code: str, where: str) -> str | None:
    candidates = [name for name in columns if name != code]
    if asked is not None and asked not in candidates:
        raise unknown(f"column of keys in {where}:", asked, candidates)
    return asked or next((name for name in ("key", "id") if name in candidates), None)


Condition = tuple[str, list[Any]]


def condition(where: Where) -> Condition:
    """(SQL with placeholders, values) of a ``where``."""
    parts = [_one(field, operator, value) for field, operator, value in tests(where)]
    return " AND ".join(sql for sql, _ in parts) or "true", [value for _, values in parts for value in values]


def _one(field: str, operator: str, value: Any) -> Condition:
    if "\0" in field:
        raise InputError(f"a where field must not contain NUL; got {field!r}")
    if operator == "in":
        options = [_equal(field, one) for one in value]
        return "(" + (" OR ".join(sql for sql, _ in options) or "false") + ")", [v for _, vs in options for v in vs]
    if operator == "!=":
        sql, values = _equal(field, value)
        return f"(jsonb_exists(metadata, %s) AND NOT {sql})", [field, *values]
    if isinstance(value, str):
        sql = f"(jsonb_typeof(metadata->%s) = 'string' AND (metadata->>%s) COLLATE \"C\" {operator} %s)"
        return sql, [field, field, value]
    number = "(CASE WHEN jsonb_typeof(metadata->%s) = 'number' THEN (metadata->>%s)::numeric END)"
    return f"({number} {operator} %s) IS TRUE", [field, field, value]


def _equal(field: str, value: Any) -> Condition:
    return "coalesce(metadata->%s = %s::jsonb, false)", [field, json.dumps(value)]
