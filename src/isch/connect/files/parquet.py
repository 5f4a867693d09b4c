"""Codes as a Parquet file: columns ``key``, ``numbered``, ``code`` and ``metadata``, the model tag in its schema.

A file of somebody else needs a column of codes, as bytes or as lists of uint8; one column may hold the keys, and the
columns of texts, numbers and truth values beside them become metadata.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from isch.codes import Codes, width
from isch.connect.source import BATCH_ROWS, ReadOptions, Source, parsed
from isch.errors import FormatError, require, unknown
from isch.features.arrow import valid
from isch.features.file import in_our_words
from isch.files import printable, regular, replacing
from isch.search.catalog import Key
from isch.search.items import Metadata
from isch.search.reading import Batch

KIND = "Parquet file"
OURS = ["key", "numbered", "code", "metadata"]


class ParquetCodes(Source):
    """The codes of a Parquet file."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.where = printable(path)
        with in_our_words(self.where, KIND):
            self._path = regular(path)
            file = self._file()
            schema = file.schema_arrow
            self._rows = file.metadata.num_rows
            text = (schema.metadata or {}).get(b"isch")
            self._ours = text is not None and set(OURS) <= set(schema.names) and options.code is options.key is None
            self._code = _chosen(options.code, "code", [f.name for f in schema if _is_code(f.type)], self.where)
            self._key = _key_column(options.key, [f.name for f in schema if _is_key(f.type)], self.where)
            others = [f.name for f in schema if _is_value(f.type) and f.name not in (self._code, self._key)]
            self._columns = OURS if self._ours else [self._code, *([self._key] if self._key else []), *others]
            self._width = self._first_width(schema.field(self._code).type)
            self.tag = options.tag(
                text.decode("utf-8", "replace") if text and self._ours else None, self._width, self.where
            )

    def __len__(self) -> int:
        return int(self._rows)

    def batches(self) -> Iterator[Batch]:
        """All items, some thousands at a time; everything is checked when it is read."""
        start = 0
        with in_our_words(self.where, KIND), self._file() as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=self._columns):
                valid(batch)
                yield Batch(self._keys(batch, start), self._codes(batch, start), self._notes(batch), None)
                start += batch.num_rows
        if start != self._rows:
            raise FormatError(f"{self.where}: has {start} rows; expected {self._rows}")

    def _keys(self, batch: Any, start: int) -> list[Key]:
        if self._key is None and not self._ours:
            return list(range(start, start + batch.num_rows))
        keys = batch.column("key" if self._ours else self._key).to_pylist()
        if None in keys:
            raise FormatError(f"{self.where}: row {start + keys.index(None)} has no key")
        if not self._ours:
            return list(keys)
        numbers = batch.column("numbered").to_pylist()
        return [int(key) if numbered else key for key, numbered in zip(keys, numbers, strict=True)]

    def _codes(self, batch: Any, start: int) -> Codes:
        column = batch.column(self._code)
        if column.null_count:
            raise FormatError(f"{self.where}: row {start + column.to_pylist().index(None)} has no code")
        values = column.to_pylist()
        wrong = next((row for row, value in enumerate(values) if len(value) != self._width), None)
        if wrong is not None:
            raise FormatError(
                f"{self.where}: the code of row {start + wrong} has {len(values[wrong])} bytes; expected {self._width}"
            )
        return np.frombuffer(b"".join(map(bytes, values)), np.uint8).reshape(-1, self._width)

    def _notes(self, batch: Any) -> list[Metadata]:
        if self._ours:
            return [parsed(text, self.where) for text in batch.column("metadata").to_pylist()]
        names = [name for name in self._columns if name not in (self._code, self._key)]
        columns = [batch.column(name).to_pylist() for name in names]
        if not names:
            return [None] * batch.num_rows
        return [_note(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]

    def _first_width(self, kind: Any) -> int:
        """Bytes per code, by the type or by the first row."""
        types = require("pyarrow", "formats").types
        if types.is_fixed_size_binary(kind):
            return int(kind.byte_width)
        if types.is_fixed_size_list(kind):
            return int(kind.list_size)
        with self._file() as file:
            first = next(file.iter_batches(1, columns=[self._code]), None)
        if first is None or not first.num_rows or valid(first).column(0).null_count:
            raise FormatError(f"{self.where}: the first row has no code")
        return len(first.column(0)[0].as_py())

    def _file(self) -> Any:
        return require("pyarrow.parquet", "formats").ParquetFile(self._path, page_checksum_verification=True)


def read(path: Path, options: ReadOptions) -> Source:
    """A Parquet file of codes."""
    require("pyarrow", "formats")
    return ParquetCodes(path, options)


def write(path: Path, source: Source) -> None:
    """The four columns, with a checksum for each page."""
    arrow = require("pyarrow", "formats")
    pq = require("pyarrow.parquet", "formats")
    types = (arrow.string(), arrow.bool_(), arrow.list_(arrow.uint8(), width(source.tag.n_bits)), arrow.string())
    fields = [arrow.field(name, kind) for name, kind in zip(OURS, types, strict=True)]
    schema = arrow.schema(fields, metadata={b"isch": str(source.tag).encode()})
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema, write_page_checksum=True) as file:
        for batch in source.batches():
            notes = [None if note is None else json.dumps(note, ensure_ascii=False) for note in batch.metadata]
            columns = [
                arrow.array([str(key) for key in batch.keys], arrow.string()),
                arrow.array([isinstance(key, int) for key in batch.keys], arrow.bool_()),
                arrow.FixedSizeListArray.from_arrays(arrow.array(batch.codes.ravel()), batch.codes.shape[1]),
                arrow.array(notes, arrow.string()),
            ]
            file.write_batch(arrow.record_batch(columns, schema=schema))


def _chosen(asked: str | None, usual: str, candidates: list[str], where: str) -> str:
    if asked is not None:
        if asked not in candidates:
            raise unknown(f"column of codes in {where}:", asked, candidates)
        return asked
    if usual in candidates or len(candidates) == 1:
        return usual if usual in candidates else candidates[0]
    raise FormatError(
        f"{where}: expected one column of codes (bytes, or lists of uint8), or --code to choose; "
        f"it has {', '.join(candidates) or 'none'}"
    )


def _key_column(asked: str | None, candidates: list[str], where: str) -> str | None:
    if asked is not None and asked not in candidates:
        raise unknown(f"column of keys in {where}:", asked, candidates)
    return asked or ("key" if "key" in candidates else None)


def _is_code(kind: Any) -> bool:
    types = require("pyarrow", "formats").types
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    whole = types.is_fixed_size_binary(kind) or types.is_binary(kind) or types.is_large_binary(kind)
    return bool(whole or (lists and types.is_uint8(kind.value_type)))


def _is_key(kind: Any) -> bool:
    types = require("pyarrow", "formats").types
    return bool(types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind))


def _is_value(kind: Any) -> bool:
    types = require("pyarrow", "formats").types
    return _is_key(kind) or bool(types.is_floating(kind) or types.is_boolean(kind))


def _note(row: dict[str, Any]) -> Metadata:
    """JSON has no infinities, and knows what is missing."""
    return {name: None if isinstance(v, float) and not math.isfinite(v) else v for name, v in row.items()}
