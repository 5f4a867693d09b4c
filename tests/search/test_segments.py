import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isch.errors import FileError, FormatError
from isch.scan.exact import CodeTable
from isch.search import sealed
from isch.search.catalog import Catalog, SegmentRow
from isch.search.items import Kept, Table, write
from isch.search.sealed import CODES, DEAD, FEATURES, SegmentFile, SegmentWriter
from isch.search.segments import Segment, read_dead, write_dead

NAME = "0123456789abcdef"


def catalog(n_bits: int, n_features: int | None = None, keep: str | None = None) -> Catalog:
    return Catalog("0" * 32, n_bits, n_features, keep, None)


def written(folder: Path, codes: np.ndarray, n_bits: int, cuts: list[int]) -> SegmentRow:
    for suffix in ("codes", "items"):
        (folder / f"{NAME}.{suffix}").unlink(missing_ok=True)
    with SegmentWriter(folder / f"{NAME}.codes", CODES, n_bits) as writer:
        for part in np.split(codes, cuts):
            writer.append_codes(part)
        digest = writer.finish()
    rows = np.arange(len(codes))
    table = Table(rows, range(len(codes)), None, len(codes))
    listed = write(folder / f"{NAME}.items", [Kept(table, rows)], len(codes))
    return SegmentRow(NAME, len(codes), digest, None, *listed)


def opened(folder: Path, row: SegmentRow, index: Catalog) -> Segment:
    return Segment(folder, row, index, folder)


@given(st.integers(1, 70), st.integers(1, 200), st.lists(st.integers(0, 70), max_size=4), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_what_is_written_in_any_blocks_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, n: int, n_bits: int, cuts: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    codes = np.packbits(rng.random((n, n_bits)) < 0.5, axis=1)
    folder = tmp_path_factory.mktemp("s")
    segment = opened(folder, written(folder, codes, n_bits, sorted(min(cut, n) for cut in cuts)), catalog(n_bits))
    assert len(segment) == n
    np.testing.assert_array_equal(segment.tiles, CodeTable(codes).tiles)
    some = rng.integers(0, n, 20)
    np.testing.assert_array_equal(segment.codes(some), codes[some])
    segment.files[0].check()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_features_lie_beside_the_codes(tmp_path: Path, dtype: str) -> None:
    row = written(tmp_path, np.zeros((5, 1), np.uint8), 8, [])
    rows = np.arange(15, dtype=dtype).reshape(5, 3)
    with SegmentWriter(tmp_path / f"{NAME}.features", FEATURES, 3, dtype) as writer:
        writer.append_rows(rows[:2])
        writer.append_rows(rows[2:])
        row = replace(row, features=writer.finish())
    segment = opened(tmp_path, row, catalog(8, 3, dtype))
    assert segment.features is not None
    assert segment.features.dtype == dtype
    np.testing.assert_array_equal(segment.features, rows)
    assert segment.n_file_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    other = "float32" if dtype == "float16" else "float16"
    with pytest.raises(FormatError, match=f"{NAME}.features: expected"):
        opened(tmp_path, row, catalog(8, 3, other))


@pytest.mark.parametrize("shape", [(4, 3), (5, 4), (15, 1)])
def test_features_of_another_shape_are_refused(tmp_path: Path, shape: tuple[int, int]) -> None:
    row = written(tmp_path, np.zeros((5, 1), np.uint8), 8, [])
    with SegmentWriter(tmp_path / f"{NAME}.features", FEATURES, shape[1], "float32") as writer:
        writer.append_rows(np.zeros(shape))
        row = replace(row, features=writer.finish())
    with pytest.raises(FormatError, match=f"{NAME}.features: expected features of 5 × 3; got features of "):
        opened(tmp_path, row, catalog(8, 3, "float32"))


def test_codes_of_another_length_or_number_are_refused(tmp_path: Path) -> None:
    row = written(tmp_path, np.zeros((5, 1), np.uint8), 8, [])
    with pytest.raises(FormatError, match="expected codes of 5 × 7; got codes of 5 × 8"):
        opened(tmp_path, row, catalog(7))
    with pytest.raises(FormatError, match="expected codes of 6 × 8; got codes of 5 × 8"):
        opened(tmp_path, replace(row, n_rows=6), catalog(8))


@given(st.integers(1, 200), st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_deleted_rows_are_read_back(tmp_path_factory: pytest.TempPathFactory, n: int, seed: int) -> None:
    folder = tmp_path_factory.mktemp("s")
    marks = np.random.default_rng(seed).random(n) < 0.3
    row = SegmentRow(NAME, n, "0" * 64, None, "0" * 64, 1, write_dead(folder, NAME, marks))
    np.testing.assert_array_equal(read_dead(folder, row), ~marks)
    assert row.n_live == np.count_nonzero(~marks)
    assert read_dead(folder, replace(row, dead=None)) is None


def test_damage_in_the_marks_of_deleted_rows_is_refused_at_opening(tmp_path: Path) -> None:
    dead = write_dead(tmp_path, NAME, np.arange(40) % 3 == 0)
    row = SegmentRow(NAME, 40, "0" * 64, None, "0" * 64, 1, dead)
    path = tmp_path / f"{NAME}.dead"
    whole = path.read_bytes()
    for place in (0, 100, 4095, 4096, len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(FormatError, match=path.name):
            read_dead(tmp_path, row)
    path.write_bytes(whole)
    with pytest.raises(FormatError, match="expected 13 deleted rows; got 14"):
        read_dead(tmp_path, replace(row, dead=replace(dead, count=13)))


def test_nothing_is_left_of_a_writer_that_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), SegmentWriter(tmp_path / "s.codes", CODES, 8) as writer:
        writer.append_codes(np.zeros((9, 1), np.uint8))
        raise RuntimeError
    with pytest.raises(FileError, match="No space"), SegmentWriter(tmp_path / "s.codes", CODES, 8):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_a_newer_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed, "VERSION", 3)
    row = written(tmp_path, np.zeros((5, 1), np.uint8), 8, [])
    monkeypatch.setattr(sealed, "VERSION", 2)
    with pytest.raises(FormatError, match="format version 3; this ISCH reads up to version 2"):
        opened(tmp_path, row, catalog(8))


HUGE = 2**61
CRAFTED: dict[str, Callable[[sealed.Header], sealed.Header]] = {
    "no rows": lambda header: replace(header, n_rows=0),
    "endless rows": lambda header: replace(header, n_rows=HUGE),
    "no bits": lambda header: replace(header, n_columns=0),
    "endless bits": lambda header: replace(header, n_columns=2**32 - 1),
    "endless body": lambda header: replace(header, body_bytes=HUGE),
    "endless ids": lambda header: replace(header, ids_bytes=HUGE),
    "body that wraps around": lambda header: replace(header, body_bytes=2**64 - 8, ids_bytes=16),
    "other values": lambda header: replace(header, item_bytes=4),
    "other kind": lambda header: replace(header, kind=DEAD),
    "unknown kind": lambda header: replace(header, kind=77),
}


@pytest.mark.parametrize("case", CRAFTED)
def test_a_crafted_header_is_refused(tmp_path: Path, case: str) -> None:
    row = written(tmp_path, np.zeros((5, 1), np.uint8), 8, [])
    path = tmp_path / f"{NAME}.codes"
    header, _ = sealed.read_header(path)
    page = CRAFTED[case](header).encode()
    path.write_bytes(page + path.read_bytes()[4096:])
    with pytest.raises(FormatError, match=path.name):
        opened(tmp_path, replace(row, codes=page[-32:].hex()), catalog(8))


def put(kind: str, path: Path, aside: Path) -> None:
    if kind == "link":
        path.symlink_to(aside)
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_only_regular_files_are_opened(tmp_path: Path, kind: str) -> None:
    row = written(tmp_path, np.zeros((5, 1), np.uint8), 8, [])
    for suffix in ("codes", "items"):
        path, aside = tmp_path / f"{NAME}.{suffix}", tmp_path / "aside"
        path.rename(aside)
        put(kind, path, aside)
        with pytest.raises(FileError, match=f"{path.name}: is a {kind}, not a regular file"):
            opened(tmp_path, row, catalog(8))
        path.rmdir() if kind == "folder" else path.unlink()
        aside.rename(path)
    opened(tmp_path, row, catalog(8))


def test_opening_reads_only_the_header(tmp_path: Path) -> None:
    """A hole of a gigabyte in place of the tiles opens at once and takes no memory."""
    import resource

    rows = 1 << 25
    header = sealed.Header(CODES, rows, 256, 8, 0, rows * 32, 0, bytes(32))
    page = header.encode()
    with (tmp_path / "s.codes").open("wb") as file:
        file.write(page)
        file.truncate(header.file_bytes)
    before = resource.getrusage(resource.RUSAGE_SELF)
    tiles = SegmentFile(tmp_path / "s.codes", CODES, (rows, 256), page[-32:].hex()).array("<u8", (rows // 8, 4, 8))
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert len(tiles) == rows // 8
    assert after.ru_maxrss - before.ru_maxrss < 50_000
    assert after.ru_majflt - before.ru_majflt < 100
