"""Codes that others put into faiss and PostgreSQL."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isch.connect.source import ReadOptions, Source
from isch.connect.transfer import imported
from isch.errors import FileError, FormatError, InputError, IschError, ParameterError


def rows(source: Source) -> dict[Any, tuple[bytes, Any]]:
    with source:
        found = [row for batch in source.batches() for row in zip(*batch[:3], strict=True)]
        assert len(found) == len(source)
    return {key: (code.tobytes(), note) for key, code, note in found}


def faiss_index(faiss: Any, kind: str, codes: Any) -> Any:
    flat = faiss.IndexBinaryFlat(64)
    if kind == "flat":
        flat.add(codes)
        return flat
    if kind == "ivf":
        index = faiss.IndexBinaryIVF(flat, 64, 4)
        index.cp.min_points_per_centroid = 1
        index.train(codes)
    else:
        index = faiss.IndexBinaryIDMap2(faiss.IndexBinaryHNSW(64, 8) if kind == "hnsw" else flat)
    index.add_with_ids(codes, 7 * np.arange(len(codes)))
    return index


@pytest.mark.parametrize("kind", ["flat", "ids", "ivf", "hnsw"])
def test_faiss(kind: str, world: Any, tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss", reason="the package faiss is not installed")
    path, step = tmp_path / "x.faiss", 1 if kind == "flat" else 7
    faiss.write_index_binary(faiss_index(faiss, kind, world.codes), str(path))
    expected = {step * i: (code.tobytes(), None) for i, code in enumerate(world.codes)}
    source = imported("faiss", [path], ReadOptions(60))
    assert source.tag.n_bits == 60
    assert rows(source) == expected
    with pytest.raises(InputError, match="its codes have 8 bytes; codes of 13 bits have 2"):
        imported("faiss", [path], ReadOptions(13))
    good, rng = path.read_bytes(), np.random.default_rng(0)
    sentences: list[str] = []
    for trial in range(80):
        raw = bytearray(good)
        raw[rng.integers(200 if trial % 3 else len(raw))] = rng.integers(256)
        path.write_bytes(raw if trial % 4 else good[: rng.integers(len(good))])
        try:
            imported("faiss", [path], ReadOptions())
        except IschError as error:
            sentences.append(str(error))
    assert len(sentences) > 20
    assert not any("\n" in sentence for sentence in sentences)
    faiss.write_index(faiss.IndexFlatL2(8), str(path))
    with pytest.raises(FormatError, match="not a binary index of faiss"):
        imported("faiss", [path], ReadOptions())


def test_faiss_lists_in_another_file_are_not_read(tmp_path: Path) -> None:
    """Where that file is shorter than the index says, reading it would end the process."""
    faiss = pytest.importorskip("faiss")
    flat, lists = faiss.IndexBinaryFlat(64), faiss.OnDiskInvertedLists(2, 8, str(tmp_path / "lists"))
    index, codes = faiss.IndexBinaryIVF(flat, 64, 2), np.zeros((100, 8), np.uint8)
    index.train(codes)
    index.replace_invlists(lists, False)
    index.add(codes)
    faiss.write_index_binary(index, str(path := tmp_path / "x.faiss"))
    (tmp_path / "lists").write_bytes(b"x")
    with pytest.raises(FormatError, match="x.faiss: expected an IVF index whose lists are in the file; got OnDisk"):
        imported("faiss", [path], ReadOptions())


def test_faiss_without_codes_in_rows(tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss")
    faiss.write_index_binary(faiss.IndexBinaryHash(64, 8), str(path := tmp_path / "x.faiss"))
    with pytest.raises(FormatError, match="x.faiss: expected a flat, IVF or HNSW index of faiss; got IndexBinaryHash"):
        imported("faiss", [path], ReadOptions())


def test_usearch_reads_only_what_isch_wrote(tmp_path: Path) -> None:
    (tmp_path / "x.usearch").write_bytes(b"of somebody else")
    with pytest.raises(FormatError, match="x.usearch.items is not beside it"):
        imported("usearch", [tmp_path / "x.usearch"], ReadOptions())


@pytest.mark.parametrize("name", ["faiss", "usearch", "parquet", "hdf5", "npy"])
def test_a_file_that_is_not_there(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        imported(name, [tmp_path / "x"], ReadOptions())
    assert not list(tmp_path.iterdir())


def test_lancedb_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("lancedb", reason="the package lancedb is not installed")
    with pytest.raises(FileError, match="no such folder"):
        imported("lancedb", [str(tmp_path / "x"), "photos"], ReadOptions())
    assert not list(tmp_path.iterdir())


@pytest.fixture
def other(postgres: str, world: Any) -> str:
    """A table of somebody else, with a name that means something to SQL."""
    import psycopg

    bits = ["".join(map(str, row)) for row in np.unpackbits(world.codes[:50], axis=1)]
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute('DROP TABLE IF EXISTS "my; DROP"')
        connection.execute(
            'CREATE TABLE "my; DROP" (title text, id bigint, "bi\'ts" bit(64), raw bytea, price numeric)'
        )
        for i, text in enumerate(bits):
            values = [f"t{i}", 10 * i, text, world.codes[i].tobytes(), i / 2]
            connection.execute('INSERT INTO "my; DROP" VALUES (%s, %s, %s::text::bit(64), %s, %s)', values)
    return postgres


def test_postgres(other: str, world: Any) -> None:
    place = [other, "my; DROP"]
    found = rows(imported("postgres", place, ReadOptions(code="bi'ts")))
    assert found[30][0] == world.codes[3].tobytes()
    assert {name: found[30][1][name] for name in ("title", "price")} == {"title": "t3", "price": 1.5}
    found = rows(imported("postgres", place, ReadOptions(code="raw", key="title", n_bits=64)))
    assert found["t3"][0] == world.codes[3].tobytes()
    with pytest.raises(FormatError, match="expected one column of codes .* it has bi'ts, raw"):
        imported("postgres", place, ReadOptions())
    with pytest.raises(ParameterError, match="unknown column of keys"):
        imported("postgres", place, ReadOptions(code="raw", key="x; DROP TABLE"))
    with pytest.raises(InputError, match="its codes have 64 bits; got 60"):
        imported("postgres", place, ReadOptions(60, "bi'ts"))
    with pytest.raises(IschError, match="'nobody' does not exist"):
        imported("postgres", [other, "nobody"], ReadOptions(code="raw"))
    with pytest.raises(IschError, match="'nobody' does not exist"):
        imported("postgres", [other, "nobody"], ReadOptions())
