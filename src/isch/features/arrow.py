"""What Parquet and Feather share: a column of vectors, or numeric columns, of an Arrow table as a matrix."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import FormatError, require
from isch.features.base import dense
from isch.features.content import Content
from isch.features.formats import choose

NAMES = "names"  # the column of strings that names the rows


class Columns:
    """The columns that make the matrix, chosen from the schema of a file."""

    def __init__(self, schema: Any, member: str | None, path: Path) -> None:
        types = require("pyarrow", "formats").types
        self.where = str(path)
        lists = {f.name: f.type.value_type for f in schema if _is_list(f.type) and _is_number(f.type.value_type)}
        numbers = {f.name: f.type for f in schema if _is_number(f.type)}
        if lists or member is not None:
            numbers = {name: lists[name] for name in [choose(member, list(lists), path)]}
        if not numbers:
            known = ", ".join(schema.names)
            raise FormatError(f"{path}: expected a column of vectors or numeric columns; it has {known}")
        if len(set(schema.names)) < len(schema.names):
            raise FormatError(f"{path}: two columns have the same name")
        self.chosen = list(numbers)
        self.vectors = bool(lists)
        self.dtype = np.result_type(*(kind.to_pandas_dtype() for kind in numbers.values()))
        named = NAMES in schema.names and NAMES not in numbers and _is_text(schema.field(NAMES).type, types)
        self.names = NAMES if named else None

    def width(self, first: Any) -> int:
        """How many columns the matrix has, by a ``valid`` batch that begins with the first row."""
        if not self.vectors:
            return len(self.chosen)
        self._refuse_nulls(first.column(0).slice(0, 1), 0, 1, "instead of a vector")
        return len(first.column(0)[0].values)

    def matrix(self, batch: Any, width: int, start: int) -> NDArray[Any]:
        """A ``valid`` batch, whose first row is number ``start`` of the file, as a matrix.

        Raises
        ------
        FormatError
            A row is missing, has a missing value, or is not ``width`` long; the first such row is named.
        """
        if self.vectors:
            return self._vectors(batch.column(0), width, start)
        for name, column in zip(self.chosen, batch.columns, strict=True):
            self._refuse_nulls(column, start, 1, f"in column {name!r}")
        out = np.empty((batch.num_rows, width), self.dtype)
        for number, column in enumerate(batch.columns):
            out[:, number] = column.to_numpy(zero_copy_only=False)
        return out

    def _vectors(self, column: Any, width: int, start: int) -> NDArray[Any]:
        self._refuse_nulls(column, start, 1, "instead of a vector")
        if hasattr(column, "offsets"):
            lengths = np.diff(column.offsets.to_numpy())
            if (lengths != width).any():
                row = int((lengths != width).argmax())
                raise FormatError(
                    f"{self.where}: the vector of row {start + row} has {lengths[row]} values; expected {width}, "
                    "as in the first row"
                )
        values = column.flatten()
        self._refuse_nulls(values, start, width, "in the vector")
        return np.asarray(values.to_numpy(zero_copy_only=False), self.dtype).reshape(len(column), width)

    def _refuse_nulls(self, column: Any, start: int, width: int, what: str) -> None:
        if column.null_count:
            row = start + int(column.is_null().to_numpy(zero_copy_only=False).argmax()) // width
            raise FormatError(f"{self.where}: row {row} has a null {what}; expected numbers everywhere")


def tables(content: Content) -> tuple[Any, Iterator[Any]]:
    """(schema, record batches) of a file with the columns ``names``, ``labels`` and ``features``."""
    arrow = require("pyarrow", "formats")
    vector = arrow.list_(arrow.from_numpy_dtype(content.dtype), content.shape[1])
    schema = arrow.schema([(NAMES, arrow.string()), ("labels", arrow.string()), ("features", vector)])

    def batches() -> Iterator[Any]:
        row = 0
        for block in content.blocks():
            end = row + block.shape[0]
            values = arrow.array(np.ascontiguousarray(dense(block, content.dtype)).ravel())
            columns = [content.names[row:end], content.labels[row:end]]
            vectors = arrow.FixedSizeListArray.from_arrays(values, content.shape[1])
            yield arrow.record_batch([*(arrow.array(c, arrow.string()) for c in columns), vectors], schema=schema)
            row = end

    return schema, batches()


def valid(batch: Any) -> Any:
    """A batch or column after checking its buffers and offsets; unchecked ones may make Arrow abort the process."""
    batch.validate(full=True)
    return batch


def texts(columns: Any, where: str) -> list[str]:
    """The strings of a column given in pieces."""
    found: list[str] = []
    for column in columns:
        if valid(column).null_count:
            row = len(found) + int(column.is_null().to_numpy(zero_copy_only=False).argmax())
            raise FormatError(f"{where}: row {row} has no name; expected a string")
        found.extend(column.to_pylist())
    return found


def _is_list(kind: Any) -> bool:
    types = require("pyarrow", "formats").types
    return bool(types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind))


def _is_number(kind: Any) -> bool:
    types = require("pyarrow", "formats").types
    return bool(types.is_floating(kind) or types.is_integer(kind))


def _is_text(kind: Any, types: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))
