"""PostgreSQL with pgvector: a table (key, numbered, code bit(n), metadata jsonb), the mark in its comment.

``numbered`` says whether the key is an integer. Distances are pgvector's ``<~>``. "exact" scans the table; "hnsw" adds
an index with ``bit_hamming_ops``, which takes up to 64,000 bits.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from isch.codes import Codes
from isch.connect.base import BATCH_ROWS, opening, parsed
from isch.connect.candidates import Candidate, EngineStore
from isch.connect.mark import FORMAT, Mark
from isch.connect.pgserver import Server, from_bits, to_bits
from isch.errors import FormatError, InputError, ParameterError, unknown
from isch.search.catalog import Key
from isch.search.filters import Where
from isch.search.reading import Batch

KINDS = ("exact", "hnsw")
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
        if kind is not None and kind not in KINDS:
            raise unknown("kind", kind, KINDS)
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
        from isch.connect.jsonb import condition

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
            connection.execute(self._sql("COMMENT ON TABLE {table} IS {mark}", mark=str(self.mark)))

    def _existing(self) -> Mark | None:
        """The mark of the table, if there is one; refuses a table of another shape."""
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
        return Mark.parse(comment, self.where)

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
