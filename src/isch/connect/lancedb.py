"""LanceDB: a table (key, numbered, code of uint8, metadata as JSON), the mark in its schema. Search is exact.

LanceDB's Hamming distance works on whole bytes; padding bits are zero. Filters on metadata are applied here.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from isch.codes import Codes, width
from isch.connect.base import Candidate, Store, parsed
from isch.connect.mark import Mark
from isch.errors import FileError, FormatError, IschError, require
from isch.search.catalog import Key
from isch.search.filters import Where


class LanceDB(Store):
    """Codes in a table of LanceDB.

    Parameters
    ----------
    uri : str or path
        The folder of the database, or the address of a remote one.
    table : str
        The table; made when there is none.
    encoder, n_bits, replace
        As in every store.
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        table: str,
        encoder: Any = None,
        *,
        n_bits: int | None = None,
        replace: bool = False,
    ) -> None:
        lancedb = require("lancedb", "lancedb")
        self._arrow = require("pyarrow", "lancedb")
        self.table, self.where = table, f"table {table!r} of {uri}"
        with self._translated():
            self._database = lancedb.connect(os.fspath(uri))
            exists = table in self._names()
            self._opened: Any = self._database.open_table(table) if exists and not replace else None
        existing = None if self._opened is None else self._existing()
        super().__init__(encoder, n_bits, existing if encoder is None and n_bits is None else None)
        if existing is not None:
            existing.check(self.mark, self.where)
        else:
            with self._translated():
                mode = "overwrite" if replace else "create"
                self._opened = self._database.create_table(table, schema=self._schema(), mode=mode)

    def __len__(self) -> int:
        with self._translated():
            return int(self._opened.count_rows())

    def _upsert(self, keys: Sequence[Key], codes: Codes, metadata: Sequence[str | None]) -> None:
        arrow, schema = self._arrow, self._schema()
        columns = [
            arrow.array([str(key) for key in keys], arrow.string()),
            arrow.array([isinstance(key, int) for key in keys], arrow.bool_()),
            arrow.FixedSizeListArray.from_arrays(arrow.array(codes.ravel()), codes.shape[1]),
            arrow.array(list(metadata), arrow.string()),
        ]
        rows = arrow.Table.from_arrays(columns, schema=schema)
        with self._translated():
            merge = self._opened.merge_insert(["key", "numbered"])
            merge.when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def _delete(self, keys: Sequence[Key]) -> None:
        for numbered in (False, True):
            some = [_literal(str(key)) for key in keys if isinstance(key, int) == numbered]
            if some:
                with self._translated():
                    self._opened.delete(f"numbered = {str(numbered).lower()} AND key IN ({', '.join(some)})")

    def _nearest(self, code: Codes, k: int, where: Where | None) -> list[Candidate]:
        with self._translated():
            found = self._opened.search(code, vector_column_name="code").distance_type("hamming").limit(k).to_arrow()
        rows = [found[name].to_pylist() for name in ("key", "numbered", "code", "metadata", "_distance")]
        return [
            Candidate(int(key) if numbered else key, np.array(bits, np.uint8), int(distance), parsed(note, self.where))
            for key, numbered, bits, note, distance in zip(*rows, strict=True)
        ]

    def _schema(self) -> Any:
        arrow = self._arrow
        fields = [
            arrow.field("key", arrow.string()),
            arrow.field("numbered", arrow.bool_()),
            arrow.field("code", arrow.list_(arrow.uint8(), width(self.n_bits))),
            arrow.field("metadata", arrow.string()),
        ]
        return arrow.schema(fields, metadata={b"isch": str(self.mark).encode()})

    def _existing(self) -> Mark:
        schema = self._opened.schema
        if not {"key", "numbered", "code", "metadata"} <= set(schema.names):
            raise FormatError(
                f"{self.where} exists with another shape: expected columns code, key, metadata, numbered; "
                f"got {', '.join(sorted(schema.names))}; replace=True or --replace overwrites it"
            )
        return Mark.parse((schema.metadata or {}).get(b"isch", b"").decode("utf-8", "replace"), self.where)

    def _names(self) -> list[str]:
        return list(self._database.list_tables().tables)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except IschError:
            raise
        except (RuntimeError, ValueError, OSError) as error:
            raise FileError(f"{self.where}: {' '.join(str(error).split())[:300]}") from error


def _literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"
