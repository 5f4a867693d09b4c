"""isch export: an index of ours in other engines."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import isch
from isch.cli import program

ROWS = 300


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    features = np.random.default_rng(0).normal(size=(ROWS, 16)).astype(np.float32)
    hasher = isch.LSH(n_bits=32).fit(features)
    metadata = [{"year": 1990 + row % 30} for row in range(ROWS)]
    with isch.Index.create(folder / "x.isch", hasher, features, metadata=metadata) as made:
        made.delete([3, 5])
    return folder / "x.isch"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = program.run(["export", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def options(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> list[str]:
    if engine == "postgres":
        return ["--url", request.getfixturevalue("postgres"), "--table", "exported"]
    if engine == "lancedb":
        return ["--uri", str(tmp_path / "lance"), "--table", "exported"]
    return ["-o", str(tmp_path / f"x.{engine}")]


@pytest.mark.parametrize("engine", ["faiss", "usearch", "postgres", "lancedb"])
def test_every_engine_answers_as_the_index(
    engine: str, index: Path, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    place = options(engine, tmp_path, request)
    for _ in range(2):  # the second time changes nothing
        code, out, _ = run(capsys, index, "--to", engine, *place)
        assert (code, out.split(" to ")[0]) == (0, "298 items exported")
    with isch.Index.open(index) as ours, isch.connect.engine(engine)(*place[1::2]) as store:
        assert len(store) == len(ours) == 298
        codes = ours.encoder.codes(np.eye(3, 16, dtype=np.float32))
        rows = np.stack([ours.get(key).code for key in ours])
        expected, _ = isch.nearest(codes, rows, 5)
        found = store.search(codes, 5)
        np.testing.assert_array_equal(found.distances, expected)
        assert all(hit.metadata == {"year": 1990 + hit.key % 30} for hits in found for hit in hits)


KILLED = """
import os, sys
import isch
index, engine, *place = sys.argv[1:]
with isch.Index.open(index) as ours:
    batch = next(ours.batches(100))
    store = isch.connect.engine(engine)(*place, ours.encoder, create=True)
    store.add_codes(batch.keys, batch.codes, batch.metadata)
    os._exit(9)  # nothing is closed, and the engine's file is not written
"""


@pytest.mark.parametrize("engine", ["faiss", "usearch", "postgres", "lancedb"])
def test_an_export_that_was_killed_is_completed(
    engine: str, index: Path, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    place = options(engine, tmp_path, request)
    place = [word.replace("exported", "killed") for word in place]
    command = [sys.executable, "-c", KILLED, str(index), engine, *place[1::2]]
    assert subprocess.run(command, check=False).returncode == 9
    with isch.connect.engine(engine)(*place[1::2]) as store:
        assert len(store) == 100
    code, out, _ = run(capsys, index, "--to", engine, *place)
    assert (code, out.split(" to ")[0]) == (0, "298 items exported")
    with isch.connect.engine(engine)(*place[1::2]) as store, isch.Index.open(index) as ours:
        assert {key for batch in store.batches() for key in batch.keys} == set(ours)


def test_faiss_reads_the_file_by_itself(index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    faiss = pytest.importorskip("faiss", reason="the package faiss is not installed")
    kinds = {"flat": faiss.IndexBinaryFlat, "hnsw": faiss.IndexBinaryHNSW, "ivf": faiss.IndexBinaryIVF}
    for kind, expected in kinds.items():
        path = tmp_path / f"x.{kind}"
        assert run(capsys, index, "--to", "faiss", "-o", path, "--kind", kind)[0] == 0
        found = faiss.read_index_binary(str(path))
        assert found.ntotal == 298
        inner = faiss.downcast_IndexBinary(found.index) if kind != "ivf" else found
        assert isinstance(inner, expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--to faiss", "--to faiss needs --output; --output is missing"),
        ("--to postgres --url x", "--to postgres needs --url and --table; --table is missing"),
        ("--to usearch -o x --table t", "--to usearch takes --output; got --table too"),
        ("--to lancedb --uri x --table t --kind hnsw", "lancedb has no kinds"),
        ("--to faiss -o x --kind best", "unknown kind 'best'"),
        ("--to oracle -o x", "--to"),
        ("--to faiss -o nowhere/x", "does not exist"),
        ("--to postgres --url postgresql://me:sesame@127.0.0.1:1/x --table t", "PostgreSQL cannot be reached"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    index: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, errors = run(capsys, index, *arguments.split())
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert message in errors
    assert "sesame" not in errors
    assert not list(tmp_path.iterdir())


def test_files_of_others_are_kept(index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.faiss"
    path.write_text(json.dumps("mine"))
    code, _, errors = run(capsys, index, "--to", "faiss", "-o", path)
    assert (code, path.read_text()) == (2, '"mine"')
    assert "--replace overwrites it" in errors
    assert run(capsys, index, "--to", "faiss", "-o", path, "--replace")[0] == 0
    code, _, errors = run(capsys, index, "--to", "faiss", "-o", index / "inside")
    assert code == 2
    assert "it would lie in the input folder" in errors
