"""Files of codes: what is written comes back, files of others are read, damage is one sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isch
from isch.connect import files
from isch.connect.local import Local
from isch.connect.source import ReadOptions, Reversed, Source
from isch.errors import FormatError, InputError, IschError, ParameterError

pa = pytest.importorskip("pyarrow", reason="the package pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="the package pyarrow is not installed")
h5py = pytest.importorskip("h5py", reason="the package h5py is not installed")

SUFFIX = {"npy": ".npy", "hdf5": ".h5", "parquet": ".parquet"}


def rows(source: Source) -> list[tuple[Any, bytes, Any]]:
    found = [row for batch in source.batches() for row in zip(*batch[:3], strict=True)]
    return [(key, code.tobytes(), note) for key, code, note in found]


def expected(world: Any) -> list[tuple[Any, bytes, Any]]:
    return [(k, c.tobytes(), n) for k, c, n in zip(world.keys, world.codes, world.metadata, strict=True)]


@pytest.fixture
def source(worlds: Any) -> Local:
    return Local(worlds[13].index.path)


@pytest.mark.parametrize("name", ["hdf5", "parquet"])
def test_keys_metadata_and_mark_come_back(name: str, source: Local, worlds: Any, tmp_path: Path) -> None:
    path = tmp_path / f"x{SUFFIX[name]}"
    files.write(name, path, source)
    found = files.read(path, ReadOptions())
    assert len(found) == 600
    assert found.tag == source.tag
    assert found.tag.checksum
    assert rows(found) == rows(found) == expected(worlds[13])
    with pytest.raises(InputError, match="holds codes of 13 bits; got codes of 14 bits"):
        files.read(path, ReadOptions(14))


def test_npy_has_codes_and_names(source: Local, worlds: Any, tmp_path: Path) -> None:
    files.write("npy", tmp_path / "x.npy", source)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), worlds[13].codes)
    found = files.read(tmp_path / "x.npy", ReadOptions(13))
    assert found.tag.n_bits == 13
    assert rows(found) == [(str(key), code, None) for key, code, _ in expected(worlds[13])]
    np.save(tmp_path / "y.npy", worlds[13].codes)
    files.write("npy", tmp_path / "x.npy", files.read(tmp_path / "y.npy", ReadOptions(13)))
    assert not (tmp_path / "x.names.npy").exists()
    assert [key for key, _, _ in rows(files.read(tmp_path / "x.npy", ReadOptions()))] == list(range(600))


@pytest.mark.parametrize("column", ["list", "fixed list", "binary", "fixed binary"])
def test_parquet_of_somebody_else(column: str, worlds: Any, tmp_path: Path) -> None:
    codes = [code.tobytes() for code in worlds[64].codes]
    kinds = {"binary": pa.binary(), "fixed binary": pa.binary(8), "list": pa.list_(pa.uint8())}
    kind = kinds.get(column, pa.list_(pa.uint8(), 8))
    values = [list(code) for code in codes] if "list" in column else codes
    table = pa.table(
        {
            "title": [f"t{i}" for i in range(600)],
            "bits": pa.array(values, kind),
            "price": [float("nan") if i == 3 else i / 2 for i in range(600)],
            "made": pa.array([0] * 600, pa.timestamp("s")),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    found = rows(files.read(tmp_path / "x.parquet", ReadOptions(key="title")))
    assert found[3] == ("t3", codes[3], {"price": None})
    assert found[4] == ("t4", codes[4], {"price": 2.0})
    assert rows(files.read(tmp_path / "x.parquet", ReadOptions()))[5] == (5, codes[5], {"title": "t5", "price": 2.5})
    with pytest.raises(ParameterError, match="unknown column of codes .*'bitz' .did you mean bits"):
        files.read(tmp_path / "x.parquet", ReadOptions(code="bitz"))
    with pytest.raises(ParameterError, match="unknown column of keys .*'made'"):
        files.read(tmp_path / "x.parquet", ReadOptions(key="made"))
    with pytest.raises(InputError, match="its codes have 8 bytes; codes of 13 bits have 2"):
        files.read(tmp_path / "x.parquet", ReadOptions(13))


def test_parquet_that_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    cases = {
        "expected one column of codes": {"a": [1, 2]},
        "row 1 has no code": {"c": pa.array([b"aa", None], pa.binary())},
        "the code of row 1 has 3 bytes; expected 2": {"c": pa.array([b"aa", b"aaa"], pa.binary())},
        "row 1 has no key": {"c": pa.array([b"a", b"b"], pa.binary()), "key": ["x", None]},
        "the first row has no code": {"c": pa.array([], pa.binary())},
        "it has c, d": {"c": pa.array([b"a"], pa.binary()), "d": pa.array([b"a"], pa.binary())},
    }
    for message, columns in cases.items():
        pq.write_table(pa.table(columns), path)
        with pytest.raises(FormatError, match=message):
            rows(files.read(path, ReadOptions()))


def test_hdf5_of_somebody_else(worlds: Any, tmp_path: Path) -> None:
    path, codes = tmp_path / "x.h5", worlds[64].codes
    with h5py.File(path, "w") as file:
        file["train"] = codes
        file["names"] = [f"n{i}" for i in range(600)]
        file["number"] = np.arange(600) * 3
    assert rows(files.read(path, ReadOptions()))[7] == ("n7", codes[7].tobytes(), None)
    assert rows(files.read(path, ReadOptions(key="number")))[7] == (21, codes[7].tobytes(), None)
    with pytest.raises(FormatError, match="has no dataset 'nobody'"):
        files.read(path, ReadOptions(key="nobody"))
    with h5py.File(path, "w") as file:
        file["train"] = codes.astype(np.float32)
    with pytest.raises(InputError, match="must be packed bytes"):
        files.read(path, ReadOptions())


@pytest.mark.parametrize("name", SUFFIX)
def test_damage_is_one_sentence(name: str, source: Local, worlds: Any, tmp_path: Path) -> None:
    """A file with a byte changed, or cut short, gives what was written or is refused."""
    path, rng = tmp_path / f"x{SUFFIX[name]}", np.random.default_rng(0)
    files.write(name, path, source)
    good, right = path.read_bytes(), rows(files.read(path, ReadOptions()))
    sentences: list[str] = []
    for trial in range(60):
        raw = bytearray(good)
        raw[rng.integers(len(raw))] ^= 1 << rng.integers(8)
        path.write_bytes(raw if trial % 2 else good[: rng.integers(len(good))])
        try:
            found = rows(files.read(path, ReadOptions()))
        except IschError as error:
            sentences.append(str(error))
        else:
            assert name == "npy" or [row[:2] for row in found] == [row[:2] for row in right]
    assert len(sentences) > 20
    assert not any("\n" in sentence for sentence in sentences)


def test_nothing_and_what_a_format_cannot_keep(tmp_path: Path) -> None:
    with isch.Index.create(tmp_path / "x.isch", n_bits=8) as index, Local(tmp_path / "x.isch") as source:
        with pytest.raises(InputError, match="there is nothing to write"):
            files.write("npy", tmp_path / "x.npy", source)
        index.add(np.zeros((1, 1), np.uint8), ["a\0"])
        source.index.refresh()
        for name in ("npy", "hdf5"):
            with pytest.raises(InputError, match="ends with a zero character"):
                files.write(name, tmp_path / f"x{SUFFIX[name]}", source)
        with pytest.raises(ParameterError, match="unknown suffix"):
            files.write("npy", tmp_path / "x.txt", source)
    assert [path.name for path in tmp_path.iterdir()] == ["x.isch"]


def test_the_other_order_of_bits(worlds: Any, tmp_path: Path) -> None:
    bits = np.unpackbits(worlds[64].codes, axis=1)
    np.save(tmp_path / "x.npy", np.packbits(bits, axis=1, bitorder="little"))
    found = rows(Reversed(files.read(tmp_path / "x.npy", ReadOptions())))
    assert [code for _, code, _ in found] == [code.tobytes() for code in worlds[64].codes]
