from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isch.errors import FileError, FormatError
from isch.search import segments
from isch.search.exact import CodeTable
from isch.search.segments import CODES, FEATURES, Segment, SegmentWriter


def written(folder: Path, codes: np.ndarray, ids: np.ndarray, n_bits: int, cuts: list[int]) -> Segment:
    path = segments.codes_path(folder, "s")
    path.unlink(missing_ok=True)
    with SegmentWriter(path, CODES, n_bits) as writer:
        for part in np.split(codes, cuts):
            writer.append_codes(part)
        digest = writer.finish(ids)
    segment = Segment(folder, "s")
    assert segment.digest == digest
    segments.check_body(path)
    return segment


@given(st.integers(1, 70), st.integers(1, 200), st.lists(st.integers(0, 70), max_size=4), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_what_is_written_in_any_blocks_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, n: int, n_bits: int, cuts: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    codes = np.packbits(rng.random((n, n_bits)) < 0.5, axis=1)
    ids = np.sort(rng.choice(3 * n, n, replace=False)).astype(np.int64)
    segment = written(tmp_path_factory.mktemp("s"), codes, ids, n_bits, sorted(min(cut, n) for cut in cuts))
    assert (len(segment), segment.n_bits) == (n, n_bits)
    np.testing.assert_array_equal(segment.tiles, CodeTable(codes).tiles)
    np.testing.assert_array_equal(segment.ids(), ids)
    assert (segment.first_id, segment.last_id) == (ids[0], ids[-1])
    some = rng.integers(0, n, 20)
    np.testing.assert_array_equal(segment.codes(some), codes[some])
    np.testing.assert_array_equal(segment.ids(some), ids[some])
    wanted = np.sort(rng.choice(4 * n, n, replace=False)).astype(np.int64)
    np.testing.assert_array_equal(segment.rows(wanted), np.flatnonzero(np.isin(ids, wanted)))


def test_consecutive_ids_take_no_room(tmp_path: Path) -> None:
    codes = np.zeros((16, 8), np.uint8)
    segment = written(tmp_path, codes, np.arange(5, 21), 64, [])
    assert segment.path.stat().st_size == segments.HEADER_BYTES + codes.nbytes
    np.testing.assert_array_equal(segment.ids(slice(2, 5)), [7, 8, 9])
    np.testing.assert_array_equal(segment.rows(np.array([1, 5, 20, 21])), [0, 15])


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_features_lie_beside_the_codes(tmp_path: Path, dtype: str) -> None:
    written(tmp_path, np.zeros((5, 1), np.uint8), np.arange(5), 8, [])
    rows = np.arange(15, dtype=dtype).reshape(5, 3)
    with SegmentWriter(segments.features_path(tmp_path, "s"), FEATURES, 3, dtype) as writer:
        writer.append_rows(rows[:2])
        writer.append_rows(rows[2:])
        digest = writer.finish(np.arange(5))
    segment = Segment(tmp_path, "s", with_features=True)
    assert segment.features is not None
    assert segment.features.dtype == dtype
    assert segment.features_digest == digest
    np.testing.assert_array_equal(segment.features, rows)


def test_features_of_other_items_are_refused(tmp_path: Path) -> None:
    written(tmp_path, np.zeros((5, 1), np.uint8), np.arange(5), 8, [])
    with SegmentWriter(segments.features_path(tmp_path, "s"), FEATURES, 3, "float32") as writer:
        writer.append_rows(np.zeros((4, 3)))
        writer.finish(np.arange(4))
    with pytest.raises(FormatError, match="expected the features of the 5 items"):
        Segment(tmp_path, "s", with_features=True)


def test_nothing_is_left_of_a_writer_that_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), SegmentWriter(tmp_path / "s.codes", CODES, 8) as writer:
        writer.append_codes(np.zeros((9, 1), np.uint8))
        raise RuntimeError
    with pytest.raises(FileError, match="No space"), SegmentWriter(tmp_path / "s.codes", CODES, 8):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_a_newer_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "VERSION", 2)
    written(tmp_path, np.zeros((5, 1), np.uint8), np.arange(5), 8, [])
    monkeypatch.setattr(segments, "VERSION", 1)
    with pytest.raises(FormatError, match="format version 2; this ISCH reads up to version 1"):
        Segment(tmp_path, "s")


def test_opening_reads_only_the_header(tmp_path: Path) -> None:
    """A hole of a gigabyte in place of the tiles opens at once and takes no memory."""
    import resource

    rows = 1 << 25
    header = segments.Header(CODES, rows, 256, 8, 0, rows * 32, 0, bytes(32))
    with segments.codes_path(tmp_path, "s").open("wb") as file:
        file.write(header.encode())
        file.truncate(header.file_bytes)
    before = resource.getrusage(resource.RUSAGE_SELF)
    segment = Segment(tmp_path, "s")
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert len(segment) == rows
    assert after.ru_maxrss - before.ru_maxrss < 50_000
    assert after.ru_majflt - before.ru_majflt < 100
