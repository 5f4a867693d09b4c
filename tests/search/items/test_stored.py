"""Items files: what is written is read, filters against plain Python, and files that harm was done to."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isch.errors import FileError, FormatError, InputError, IschError
from isch.search.filters import Test as Condition
from isch.search.filters import fits
from isch.search.filters import tests as parsed
from isch.search.items import Kept, StoredItems, Table, body, keys, opened, write
from isch.search.items.contents import Metadata
from isch.search.sealed import HEADER_BYTES, ITEMS, SegmentWriter

KEYS = [1, "1", -(2**63), 2**63 - 1, "x\0y", "é", "", "../x", "'; DROP TABLE items; --"]
N_SECTIONS = 11


def stored(path: Path, keys: Any, metadata: Any = None, n_rows: int | None = None, rows: Any = None) -> StoredItems:
    """Items written to a file and opened."""
    n_rows = len(keys) if n_rows is None else n_rows
    table = Table(np.arange(n_rows) if rows is None else np.array(rows), keys, metadata, n_rows)
    path.unlink(missing_ok=True)
    digest, n_bytes = write(path, [Kept(table, np.arange(n_rows))], n_rows)
    items = opened(path, n_rows, n_bytes, digest)
    assert isinstance(items, StoredItems)
    items.check()
    return items


@pytest.fixture
def items(tmp_path: Path) -> StoredItems:
    return stored(tmp_path / "x.items", KEYS, [{"n": i, "even": i % 2 == 0} for i in range(9)])


def everything(items: StoredItems) -> dict[Any, Metadata]:
    """All items, in the order of rows."""
    rows = [row for row, _ in items.by_row()]
    return dict(items.named(rows)[row] for row in rows)


def test_what_is_written_is_read(items: StoredItems) -> None:
    assert items.named([3, 0]) == {0: (1, {"n": 0, "even": True}), 3: (2**63 - 1, {"n": 3, "even": False})}
    assert items.find([*KEYS, "2", 2]) == {key: i for i, key in enumerate(KEYS)}
    assert items.find(["1", "2"]) == {"1": 1}
    assert list(items.by_row()) == list(enumerate(KEYS))
    assert items.matching(parsed({"n": {">": 6}})).tolist() == [7, 8]
    assert items.matching(parsed({"n": {">": 6}, "even": True})).tolist() == [8]
    assert items.matching(parsed({"other": 6})).tolist() == []
    assert items.matching([]).tolist() == list(range(9))
    assert items.fields(None) == {"n", "even"}
    assert items.largest_integer_key() == 2**63 - 1


def test_metadata_come_back_as_they_were(tmp_path: Path) -> None:
    some: list[Metadata] = [
        None,
        {},
        {"b": 1, "a": 2},
        {"a": 1.0, "b": True},
        {"a": -0.0},
        {"a": 0.0},
        {"a": [1, {"x": None}], "": ""},
        {"a": {"b": []}, 'q"uote\n': "é\0"},
        {"a": 10**40, "c": None},
    ]
    items = stored(tmp_path / "x.items", range(9), some)
    found = [metadata for _, metadata in items.named(range(9)).values()]
    assert json.dumps(found) == json.dumps(some)  # also the order of fields, and -0.0
    assert items.fields(None) == {"a", "b", "c", "", 'q"uote\n'}
    assert items.fields(np.arange(9) == 2) == {"a", "b"}
    assert items.fields(np.arange(9) < 2) == set()


def test_names_and_values_that_json_changes(tmp_path: Path) -> None:
    odd: list[Any] = [{1: np.float32(0.5)}, {True: np.arange(2)}, {np.str_("x"): (1, 2)}, {"x": np.str_("y")}]
    items = stored(tmp_path / "x.items", range(4), odd)
    found = [metadata for _, metadata in items.named(range(4)).values()]
    assert found == [{"1": 0.5}, {"true": [0, 1]}, {"x": [1, 2]}, {"x": "y"}]
    assert items.matching(parsed({"x": "y"})).tolist() == [3]


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ([{"a": 1}, {"a": float("nan")}], "row 1 cannot be written as JSON"),
        ([{"a": [float("inf")]}, None], "row 0 cannot be written as JSON"),
        ([{"a": 1}, {"a": {1, 2}}], "row 1 cannot be written as JSON .set is not a JSON type"),
        ([{"a": 1}, {"a": "\ud800"}], "row 1 cannot be written as JSON"),
        ([None, {"\ud800": 1}], "row 1 cannot be written as JSON"),
        ([{}, []], "row 1 must be a dictionary or None; got list"),
        ([{}, "ab"], "row 1 must be a dictionary or None; got str"),
        ([{}, {(1, 2): 3}], "row 1 cannot be written as JSON"),
        ({"a": float("nan")}, "^the metadata cannot be written as JSON"),
    ],
)
def test_metadata_that_json_cannot_hold_are_refused(metadata: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Table(np.arange(2), ["a", "b"], metadata, 2)


def test_deep_metadata_are_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InputError, match="the metadata of row 0 cannot be written"):
        Table(np.arange(1), ["a"], [{"a": deep}], 1)


def test_values_that_rows_share_are_not_the_same_object(tmp_path: Path) -> None:
    items = stored(tmp_path / "x.items", range(2), {"tags": ["x"], "n": {"a": 1}})
    first, second = (metadata for _, metadata in items.named([0, 1]).values())
    assert first == second == {"tags": ["x"], "n": {"a": 1}}
    first["tags"].append("y")  # type: ignore[index]
    assert second == {"tags": ["x"], "n": {"a": 1}}


def test_a_small_file_does_not_fill_the_memory(tmp_path: Path) -> None:
    """Rows share a long list; and, in a crafted file, a long key."""
    n = 20_000
    items = stored(tmp_path / "x.items", range(n), {"long": [0] * 100_000})
    found = items.named(range(n))
    assert found[0][1] == found[n - 1][1] == {"long": [0] * 100_000}
    items = stored(tmp_path / "y.items", ["b" * 100_000, *(f"a{i}" for i in range(n))])
    content = bytearray(items.path.read_bytes()[HEADER_BYTES:])
    start, count, width = np.frombuffer(content[-24 * N_SECTIONS :], "<u8").reshape(-1, 3)[4].tolist()
    content[start : start + count * width] = np.full(count, n, f"<u{width}").tobytes()
    crafted = StoredItems(items.path, n + 1, items.n_bytes, sealed_again(items.path, bytes(content), n + 1))
    with pytest.raises(FormatError, match="its texts overlap"):
        crafted.named(range(n))


def test_finding_is_the_same_by_bisection_and_by_reading_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [f"k{i}" if i % 2 else i for i in np.random.default_rng(0).permutation(3000).tolist()]
    items = stored(tmp_path / "x.items", given)
    wanted = [f"k{i}" for i in range(1200)] + list(range(700, 1500))
    expected = {key: i for i, key in enumerate(given) if key in set(wanted)}
    for share in (0, 2):
        monkeypatch.setattr(keys, "SCAN_SHARE", share)
        assert items.find(wanted) == expected


def test_keys_in_order_are_integers_then_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "AT_ONCE", 4)
    monkeypatch.setattr(keys, "AT_ONCE", 4)
    given = [*KEYS, "ß", "z", "Z", "\U0001f600", "\uffff", "a\0", "a", 0, -1]
    items = stored(tmp_path / "x.items", given)
    expected = sorted(given, key=lambda key: (isinstance(key, str), key))
    assert [key for key, _ in items.sorted()] == expected
    assert [given[row] for _, row in items.sorted()] == expected
    assert [key for _, key in items.by_row()] == given


def test_rows_without_an_item(tmp_path: Path) -> None:
    items = stored(tmp_path / "x.items", ["b", "a"], [{"n": 1}, None], n_rows=5, rows=[1, 3])
    assert items.present().tolist() == [False, True, False, True, False]
    assert items.named([1, 3]) == {1: ("b", {"n": 1}), 3: ("a", None)}
    assert items.matching([]).tolist() == [1, 3]
    with pytest.raises(FormatError, match="row 2 has no item"):
        items.named([1, 2])


def test_each_row_may_have_its_own_field(tmp_path: Path) -> None:
    """The file grows with what it holds, not with rows times fields."""
    n = 3000
    items = stored(tmp_path / "x.items", range(n), [{f"field {i}": i} for i in range(n)])
    assert items.n_bytes < 200 * n + 2 * HEADER_BYTES
    assert items.named([77])[77] == (77, {"field 77": 77})
    assert items.matching(parsed({"field 1234": {">": 0}})).tolist() == [1234]
    assert len(items.fields(None)) == n


def test_a_key_that_comes_twice_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the key 'a' is given twice, in rows 0 and 1"):
        Table(np.arange(2), ["a", "a"], None, 2)
    for some in (["a", "b"], [3, 4]):
        table = Table(np.arange(2), some, None, 2)
        with pytest.raises(FormatError, match="a key would be there twice"):
            write(tmp_path / "x.items", [Kept(table, np.arange(2)), Kept(table, np.arange(2, 4))], 4)
        assert not (tmp_path / "x.items").exists()


numbers = st.one_of(st.integers(-5, 5), st.sampled_from([0.5, -2.5, 3.0, 2**53 + 1, -0.0]))
texts = st.sampled_from(["", "a", "1", "b'c", 'q"uote', "é", "[1]", "true", "a!", "\U0001f600", "\uffff"])
scalars = st.one_of(numbers, texts, st.booleans(), st.none())
values = st.one_of(scalars, st.lists(numbers, max_size=2), st.dictionaries(texts, numbers, max_size=1))
names = st.sampled_from(["f", "g", "a b", "$.x", "é.ü"])
rows = st.lists(st.one_of(st.none(), st.dictionaries(names, values)), min_size=1, max_size=30)
ranges = st.one_of(
    st.dictionaries(st.sampled_from(["<", "<=", ">", ">="]), st.one_of(numbers, texts), min_size=1),
    st.dictionaries(st.just("!="), scalars, min_size=1),
)
wheres = st.dictionaries(names, st.one_of(scalars, st.lists(scalars), ranges), max_size=2)


@given(rows, st.lists(wheres, min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_filters_mean_what_python_means(
    tmp_path_factory: pytest.TempPathFactory, some: list[Metadata], filters: list[dict[str, Any]]
) -> None:
    items = stored(tmp_path_factory.mktemp("x") / "x.items", range(len(some)), some)
    for where in filters:
        assert items.matching(parsed(where)).tolist() == [i for i, entry in enumerate(some) if fits(entry, where)]


keyed = st.dictionaries(st.one_of(st.integers(-20, 20), texts), st.one_of(st.none(), st.dictionaries(names, values)))


@given(st.lists(keyed, min_size=1, max_size=4), st.data())
@settings(max_examples=100, deadline=None)
def test_a_merge_is_what_it_was_made_of(
    tmp_path_factory: pytest.TempPathFactory, parts: list[dict[Any, Metadata]], data: st.DataObject
) -> None:
    folder, sources, expected = tmp_path_factory.mktemp("x"), list[Kept](), dict[Any, Metadata]()
    for number, part in enumerate(part for part in parts if part):
        source: Any = Table(np.arange(len(part)), list(part), list(part.values()), len(part))
        if data.draw(st.booleans()):
            source = stored(folder / f"{number}.items", list(part), list(part.values()))
        numbers = np.full(len(part), -1)
        for row, (key, metadata) in enumerate(part.items()):
            if key not in expected and data.draw(st.booleans()):
                numbers[row] = len(expected)
                expected[key] = metadata
        sources.append(Kept(source, numbers))
    if not expected:
        return
    digest, n_bytes = write(folder / "all.items", sources, len(expected))
    merged = StoredItems(folder / "all.items", len(expected), n_bytes, digest)
    merged.check()
    assert json.dumps(list(everything(merged).items())) == json.dumps(list(expected.items()))
    assert merged.fields(None) == {name for metadata in expected.values() for name in metadata or ()}


def test_threads_read_together(items: StoredItems) -> None:
    failures: list[str] = []

    def look() -> None:
        for i in range(200):
            if items.find([KEYS[i % 9]]) != {KEYS[i % 9]: i % 9} or items.named([i % 9])[i % 9][0] != KEYS[i % 9]:
                failures.append(f"wrong answer {i}")

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_full_disk_is_ours(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(FileError, match=str(tmp_path)):
            stored(tmp_path / "x.items", [f"key {i}" for i in range(20_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "x.items").exists()


@contextmanager
def ours_or_none(path: Path) -> Iterator[None]:
    """No error, or one of ours that names the file in one line."""
    try:
        yield
    except IschError as error:
        if not str(error).startswith(f"{path}: ") or "\n" in str(error):
            raise AssertionError(str(error)) from error


def sealed_again(path: Path, content: bytes, n_rows: int) -> str:
    """Write a body with the right checksums; gives the digest of its header."""
    path.unlink()
    with SegmentWriter(path, ITEMS, 1, np.uint8) as file:
        file.append_bytes(np.frombuffer(content, np.uint8))
        file.n_rows = n_rows
        return file.finish()


def ask_everything(path: Path, n_rows: int, digest: str) -> None:
    items = StoredItems(path, n_rows, path.stat().st_size, digest)
    calls: list[Callable[[], object]] = [
        lambda: list(items.by_row()),
        lambda: list(items.sorted()),
        lambda: items.find(KEYS),
        lambda: [items.find([key]) for key in KEYS],
        lambda: [items.named([row]) for row in range(n_rows)],
        lambda: [items.matching([Condition(name, "in", [3])]) for name in ("n", "even", "x")],
        lambda: [items.matching([Condition("n", sign, 3)]) for sign in ("<", "<=", ">", ">=", "!=")],
        lambda: items.matching([Condition("n", "in", [*range(50)])]),
        lambda: [items.fields(None), items.fields(np.arange(n_rows) < 4)],
        items.largest_integer_key,
        items.present,
        items.check,
    ]
    for call in calls:
        with ours_or_none(path):
            call()


def test_no_byte_changed_with_a_right_checksum_is_a_foreign_error(items: StoredItems) -> None:
    whole = items.path.read_bytes()[HEADER_BYTES:]
    rng = np.random.default_rng(0)
    for place in range(len(whole)):
        other = bytes([int(rng.choice([0, 1, 255, whole[place] ^ 128, whole[place] + 1 & 255]))])
        digest = sealed_again(items.path, whole[:place] + other + whole[place + 1 :], 9)
        with ours_or_none(items.path):
            ask_everything(items.path, 9, digest)


CHANGES: dict[str, tuple[int, list[int]]] = {  # of the sections of ``items``: the number of one, and other values
    "integers out of order": (0, [5, -(2**63), 2**63 - 1]),
    "integer twice": (0, [1, 1, 2**63 - 1]),
    "texts out of order": (1, list("'; DROP TABLE items; --../x1x\0yé".encode()[::-1])),
    "texts overlap": (2, [0, 9, 3, 28, 29, 32, 34]),
    "row twice": (3, [2, 0, 3, 6, 8, 7, 1, 4, 4]),
    "row nowhere": (3, [2, 0, 3, 6, 8, 7, 1, 4, 9]),
    "place twice": (4, [1, 6, 0, 2, 7, 8, 3, 5, 5]),
    "no place": (4, [1, 6, 0, 2, 7, 8, 3, 5, 9]),
    "no metadata": (5, [0] * 9),
    "no metadata in a row": (5, [0, 1, 1, 1, 1, 1, 1, 1, 1]),
    "unknown shape": (5, [1, 1, 1, 1, 1, 1, 1, 1, 2]),
    "shorter shape": (6, [0, 1]),
    "longer shape": (6, [0, 3]),
    "field twice": (7, [0, 0]),
    "unknown field": (7, [0, 2]),
    "names out of order": (8, list(b"zvenn")),
}


@pytest.mark.parametrize("case", CHANGES)
def test_parts_that_do_not_agree_are_found(items: StoredItems, case: str) -> None:
    content = bytearray(items.path.read_bytes()[HEADER_BYTES:])
    number, values = CHANGES[case]
    sections = np.frombuffer(content[-24 * N_SECTIONS :], "<u8").reshape(-1, 3)
    start, count, width = sections[number].tolist()
    changed = np.array(values).astype(f"<i{width}").tobytes()[: count * width]
    assert len(changed) == count * width
    content[start : start + count * width] = changed
    digest = sealed_again(items.path, bytes(content), 9)
    ask_everything(items.path, 9, digest)
    with pytest.raises(FormatError, match=f"^{items.path}: the items are damaged"):
        StoredItems(items.path, 9, items.n_bytes, digest).check()


@pytest.mark.parametrize(
    ("old", "new"), [(b"falsetrue", b"truefalse"), (b"01234567", b"01324567"), (b"01234567", b"0123x567")]
)
def test_values_out_of_order_are_found(items: StoredItems, old: bytes, new: bytes) -> None:
    content = items.path.read_bytes()[HEADER_BYTES:]
    assert content.count(old) == 1
    digest = sealed_again(items.path, content.replace(old, new), 9)
    ask_everything(items.path, 9, digest)
    with pytest.raises(FormatError, match=f"^{items.path}: the items are damaged .the field '"):
        StoredItems(items.path, 9, items.n_bytes, digest).check()


@pytest.mark.parametrize("section", range(N_SECTIONS))
@pytest.mark.parametrize(
    "change",
    [
        (2**63, 1, 1),
        (0, 2**63, 1),
        (0, 2**64 - 1, 8),
        (8, 0, 1),
        (0, 1, 3),
        (0, 1, 0),
        (1, 1, 1),
        (0, 20, 1),
        (0, 0, 8),
    ],
)
def test_crafted_sections(items: StoredItems, section: int, change: tuple[int, int, int]) -> None:
    content = bytearray(items.path.read_bytes()[HEADER_BYTES:])
    start = len(content) - 24 * (N_SECTIONS - section)
    content[start : start + 24] = np.array(change, "<u8").tobytes()
    digest = sealed_again(items.path, bytes(content), 9)
    with ours_or_none(items.path):
        ask_everything(items.path, 9, digest)
    with pytest.raises(FormatError, match=f"^{items.path}: "):
        StoredItems(items.path, 9, items.path.stat().st_size, digest).check()


def with_section(content: bytes, section: int, values: list[int], width: int = 8) -> bytes:
    """A body with another section in place of one of its own."""
    body, listed = content[: -24 * N_SECTIONS], np.frombuffer(content[-24 * N_SECTIONS :], "<u8").reshape(-1, 3).copy()
    listed[section] = len(body), len(values), width
    return body + np.array(values, f"<u{width}").tobytes() + bytes(-len(values) * width % 8) + listed.tobytes()


@pytest.mark.parametrize("section", [3, 4, 5, 6, 7])
@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 2**64 - 1])
def test_numbers_beyond_those_of_numpy(items: StoredItems, section: int, number: int) -> None:
    count = 2 if section in (6, 7) else 9
    digest = sealed_again(
        items.path, with_section(items.path.read_bytes()[HEADER_BYTES:], section, [number] * count), 9
    )
    with ours_or_none(items.path):
        ask_everything(items.path, 9, digest)


def test_a_field_that_a_row_lists_endlessly_is_refused_at_once(items: StoredItems) -> None:
    content = with_section(items.path.read_bytes()[HEADER_BYTES:], 7, [0] * 1_000_000, 1)
    digest = sealed_again(items.path, with_section(content, 6, [0, 1_000_000]), 9)
    found = StoredItems(items.path, 9, items.path.stat().st_size, digest)
    with pytest.raises(FormatError, match="damaged .a row has a field twice"):
        found.named([0])


def test_shapes_that_overlap_are_refused(items: StoredItems) -> None:
    content = with_section(items.path.read_bytes()[HEADER_BYTES:], 6, [0, 2, 0, 2])
    digest = sealed_again(items.path, content, 9)
    found = StoredItems(items.path, 9, items.path.stat().st_size, digest)
    with pytest.raises(FormatError, match="damaged .the fields of its rows overlap"):
        found.shapes()


def test_columns_that_overlap_are_refused(tmp_path: Path) -> None:
    """Else each of very many fields could mean the same large column."""
    path = stored(tmp_path / "x.items", range(9), {str(number): 1 for number in range(99)}).path
    content = path.read_bytes()[HEADER_BYTES:]
    start, count, _ = np.frombuffer(content[-24:], "<u8").tolist()
    columns = np.frombuffer(content[start : start + 8 * count], "<u8").reshape(-1, 4, 3).copy()
    columns[:, 1] = 0, len(content), 1
    digest = sealed_again(path, content[:start] + columns.tobytes() + content[start + 8 * count :], 9)
    with pytest.raises(FormatError, match="damaged .its sections overlap"):
        StoredItems(path, 9, path.stat().st_size, digest)


def test_random_sections_do_no_harm(items: StoredItems) -> None:
    whole, rng = items.path.read_bytes()[HEADER_BYTES:], np.random.default_rng(0)
    places = rng.integers(0, len(whole) // 8, 300) * 8
    words = np.array([0, 1, 7, 8, 9, 255, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 8], np.uint64)
    for place in places.tolist():
        word = words[rng.integers(len(words))]
        digest = sealed_again(items.path, whole[:place] + word.tobytes() + whole[place + 8 :], 9)
        with ours_or_none(items.path):
            ask_everything(items.path, 9, digest)


@pytest.mark.parametrize("n_bytes", [0, 8, 100, 264, 272])
def test_short_bodies_are_refused(items: StoredItems, n_bytes: int) -> None:
    digest = sealed_again(items.path, bytes(n_bytes), 9)
    with pytest.raises(FormatError, match=f"^{items.path}: the items are damaged"):
        StoredItems(items.path, 9, items.path.stat().st_size, digest)


def test_a_changed_byte_is_noticed(items: StoredItems) -> None:
    whole = items.path.read_bytes()
    for place in range(0, len(whole), 7):
        items.path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(FormatError, match=f"^{items.path}: "):
            StoredItems(items.path, 9, len(whole), items.file.header.encode()[-32:].hex()).check()


@pytest.mark.parametrize("size", [0, 1, 100, 4095, 4096, 4104])
def test_a_cut_file_is_refused_at_opening(items: StoredItems, size: int) -> None:
    whole = items.path.read_bytes()
    items.path.write_bytes(whole[:size])
    with pytest.raises(FormatError, match=f"expected {len(whole)} bytes; got {size}"):
        opened(items.path, 9, len(whole), "")
