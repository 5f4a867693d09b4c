"""Parquet and Feather."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from isch import features
from isch.errors import FormatError, InputError

ROWS = np.arange(400, dtype=np.float32).reshape(100, 4).tolist()
FIXED = pa.list_(pa.float32(), 4)


def write_parquet(table: Any, folder: Path) -> Path:
    pq.write_table(table, folder / "x.parquet", row_group_size=30)
    return folder / "x.parquet"


def write_feather(table: Any, folder: Path) -> Path:
    pyarrow.feather.write_feather(table, folder / "x.feather", chunksize=30)
    return folder / "x.feather"


Write = Callable[[Any, Path], Path]


@pytest.fixture(params=[write_parquet, write_feather])
def write(request: pytest.FixtureRequest) -> Write:
    chosen: Write = request.param
    return chosen


def read_all(path: Path) -> None:
    source = features.open(path)
    for _ in source.batches(7):
        pass


def changed(row: int, value: Any) -> list[Any]:
    return [*ROWS[:row], value, *ROWS[row + 1 :]]


@pytest.mark.parametrize("row", [0, 1, 29, 30, 31, 77, 99])
def test_the_first_row_of_another_length_is_named(tmp_path: Path, write: Write, row: int) -> None:
    path = write(pa.table({"v": changed(row, [1.0, 2.0])}), tmp_path)
    with pytest.raises(FormatError, match=rf"the vector of row {row or 1} has {2 if row else 4} values; expected"):
        read_all(path)


def test_lengths_that_happen_to_add_up_are_refused(tmp_path: Path, write: Write) -> None:
    path = write(pa.table({"v": [[1.0] * 4, [1.0] * 3, [1.0] * 5, [1.0] * 4]}), tmp_path)
    with pytest.raises(FormatError, match="the vector of row 1 has 3 values; expected 4, as in the first row"):
        read_all(path)


@pytest.mark.parametrize("kind", [FIXED, pa.list_(pa.float32()), pa.large_list(pa.float64())], ids=str)
@pytest.mark.parametrize("row", [0, 45, 99])
@pytest.mark.parametrize("value", [None, [1.0, None, 2.0, 3.0]], ids=["row", "value"])
def test_nulls_are_refused_with_their_row(tmp_path: Path, write: Write, kind: Any, row: int, value: Any) -> None:
    path = write(pa.table({"v": pa.array(changed(row, value), kind)}), tmp_path)
    with pytest.raises(FormatError, match=rf"row {row} has a null (instead of a|in the) vector; expected numbers"):
        read_all(path)


@pytest.mark.parametrize("kind", [pa.float32(), pa.int64()], ids=str)
def test_nulls_in_numeric_columns(tmp_path: Path, write: Write, kind: Any) -> None:
    values = [*range(60), None, *range(39)]
    path = write(pa.table({"a": range(100), "b": pa.array(values, kind)}), tmp_path)
    with pytest.raises(FormatError, match="row 60 has a null in column 'b'"):
        read_all(path)


def test_a_bad_row_does_not_hide_the_others(tmp_path: Path) -> None:
    path = write_parquet(pa.table({"v": changed(77, None)}), tmp_path)
    source = features.open(path)
    np.testing.assert_array_equal(source.read(0, 60), ROWS[:60])
    np.testing.assert_array_equal(source.read(80, 100), ROWS[80:])
    with pytest.raises(FormatError, match="row 77 has a null"):
        source.take(np.array([5, 77]))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"a": ["x", "y"]}), "expected a column of vectors or numeric columns; it has a"),
        (pa.table({"a": [["x"], ["y"]]}), "expected a column of vectors"),
        (pa.table({"a": [[[1.0]]]}), "expected a column of vectors"),
        (pa.table({"v": pa.array([], FIXED)}), "at least one row and one column"),
        (pa.table({"v": pa.array([[], []], pa.list_(pa.float32()))}), "at least one row and one column"),
        (pa.table([[1.0], [2.0]], names=["a", "a"]), "two columns have the same name"),
    ],
)
def test_tables_without_a_matrix(tmp_path: Path, write: Write, table: Any, message: str) -> None:
    if message.startswith("two") and write is write_feather:
        pytest.skip("pyarrow writes no such Feather file")
    with pytest.raises((FormatError, InputError), match=message):
        features.open(write(table, tmp_path))


def test_a_vector_column_is_chosen_by_name(tmp_path: Path, write: Write) -> None:
    path = write(pa.table({"a": ROWS, "b": pa.array(ROWS, FIXED), "id": range(100)}), tmp_path)
    np.testing.assert_array_equal(features.open(f"{path}::b").read(98, 100), ROWS[98:])
    with pytest.raises(FormatError, match="it holds a, b"):
        features.open(path)


def test_names_of_rows(tmp_path: Path, write: Write) -> None:
    names = [f"item {i} é" for i in range(100)]
    assert features.open(write(pa.table({"v": ROWS, "names": names}), tmp_path)).names == names
    broken = features.open(write(pa.table({"v": ROWS, "names": [*names[:70], None, *names[71:]]}), tmp_path))
    with pytest.raises(FormatError, match="row 70 has no name"):
        _ = broken.names


def test_a_page_with_a_checksum_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": np.arange(1000.0)}), path, write_page_checksum=True, compression="none")
    content = bytearray(path.read_bytes())
    content[content.index(np.float64(500).tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"x\.parquet: not a readable Parquet file, or a damaged one"):
        read_all(path)


def test_one_enormous_row_group_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from isch.features import parquet

    pq.write_table(pa.table({"v": pa.array(ROWS, FIXED)}), tmp_path / "x.parquet")
    monkeypatch.setattr(parquet, "BATCH", 8)
    source = features.open(tmp_path / "x.parquet")
    np.testing.assert_array_equal(source.read(13, 62), ROWS[13:62])
    assert [block.shape[0] for _, block in source.batches(30)] == [30, 30, 30, 10]
