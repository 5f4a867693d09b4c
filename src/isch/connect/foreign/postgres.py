"""Codes in a table of PostgreSQL that somebody made: a column of ``bit(n)`` or ``bytea``, and whatever is beside it."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from isch.codes import Codes
from isch.connect.base import BATCH_ROWS, Source, check_width, parsed
from isch.connect.mark import Mark
from isch.connect.pgserver import Server, from_bits
from isch.connect.wanted import Wanted
from isch.errors import FileError, FormatError, InputError, unknown
from isch.search.catalog import Key
from isch.search.reading import Batch

_INTEGERS = ("smallint", "integer", "bigint")


class Table(Source):
    """The codes of a table; the other columns are metadata."""

    def __init__(self, url: str, table: str, wanted: Wanted) -> None:
        self.where, self._table = f"table {table!r}", table
        self._server = Server(url, self.where)
        try:
            columns = self._server.columns(table)
            if not columns:
                raise FileError(f"{self.where} does not exist")
            codes = [name for name, kind in columns.items() if kind.partition("(")[0] in ("bit", "bytea")]
            self._code = _column(wanted.code, "code", codes, self.where)
            self._bytes = columns[self._code] == "bytea"
            self._key = _key(wanted.key, columns, self._code, self.where)
            self._integers = columns.get(self._key or "") in _INTEGERS
            self.mark = Mark(self._length(columns[self._code], wanted))
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
            return from_bits(texts, self.mark.n_bits, self.where)
        return np.stack([check_width(bytes.fromhex(text), self.mark.n_bits, self.where) for text in texts])

    def _refuse_nulls(self, keys: Any, texts: Any, start: int) -> None:
        if None in texts:
            raise FormatError(f"{self.where}: row {start + texts.index(None)} has no code")
        if self._key is not None and None in keys:
            raise FormatError(f"{self.where}: row {start + keys.index(None)} has no key")

    def _length(self, kind: str, wanted: Wanted) -> int:
        if not self._bytes:
            n_bits = int(kind.partition("(")[2].rstrip(")") or 1)
            if wanted.n_bits not in (None, n_bits):
                raise InputError(f"{self.where}: its codes have {n_bits} bits; got {wanted.n_bits}")
            return n_bits
        first = self._server.run(self._sql("SELECT length({code}) FROM {table} LIMIT 1"))
        if not first or not first[0][0]:
            raise FormatError(f"{self.where}: the first row has no code")
        return wanted.length(int(first[0][0]), self.where)

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
