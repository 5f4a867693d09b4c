"""isch import: an index of ours from codes that exist, and back again through every format."""

from pathlib import Path

import numpy as np
import pytest

import isch
from isch.cli import program

ROWS = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("import")
    features = np.random.default_rng(0).normal(size=(ROWS, 16)).astype(np.float32)
    np.save(folder / "features.npy", features)
    hasher = isch.LSH(n_bits=29).fit(features)
    hasher.save(folder / "model")
    isch.LSH(n_bits=29, random_state=1).fit(features).save(folder / "other")
    np.save(folder / "codes.npy", hasher.transform(features))
    keys = [row if row % 2 else f"item {row}" for row in range(ROWS)]
    metadata = [{"year": 1990 + row % 30} if row % 5 else None for row in range(ROWS)]
    isch.Index.create(folder / "x.isch", hasher, features, keys=keys, metadata=metadata).close()
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = program.run(list(map(str, arguments)))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def place(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> list[str]:
    if name == "postgres":
        return ["--url", request.getfixturevalue("postgres"), "--table", f"there {tmp_path.name}"]
    if name == "lancedb":
        return ["--uri", str(tmp_path / "lance"), "--table", "there"]
    return ["-o", str(tmp_path / f"x.{ {'hdf5': 'h5'}.get(name, name) }")]


def items(path: Path) -> dict[object, object]:
    with isch.Index.open(path) as index:
        return {
            k: (c.tobytes(), m) for b in index.batches() for k, c, m in zip(b.keys, b.codes, b.metadata, strict=True)
        }


@pytest.mark.parametrize("name", ["faiss", "usearch", "postgres", "lancedb", "parquet", "hdf5"])
def test_there_and_back_again(
    name: str, folder: Path, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    options = place(name, tmp_path, request)
    assert run(capsys, "export", folder / "x.isch", "--to", name, *options)[0] == 0
    back, target = options[1:] if options[0] == "-o" else options, tmp_path / "y.isch"
    code, out, _ = run(capsys, "import", name, *back, "-o", target, "--model", folder / "model")
    assert (code, out.split(" from ")[0]) == (0, "300 items imported")
    assert items(target) == items(folder / "x.isch")
    with isch.Index.open(target) as made, isch.Index.open(folder / "x.isch") as ours:
        asked = np.load(folder / "features.npy")[:3]
        np.testing.assert_array_equal(made.search(asked, 5).distances, ours.search(asked, 5).distances)
    assert run(capsys, "index", "verify", target)[0] == 0
    code, _, errors = run(capsys, "import", name, *back, "-o", tmp_path / "z.isch", "--model", folder / "other")
    assert code == 2
    assert "holds codes of another model" in errors
    code, _, errors = run(capsys, "import", name, *back, "-o", tmp_path / "z.isch", "--bits", "30")
    assert (code, "holds codes of 29 bits; got codes of 30 bits" in errors) == (2, True)
    assert run(capsys, "import", name, *back, "-o", tmp_path / "z.isch")[0] == 0
    with isch.Index.open(tmp_path / "z.isch") as made:
        assert (made.has_model, made.n_bits, len(made)) == (False, 29, ROWS)


def test_codes_in_files(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """isch export codes.npy --to hdf5|parquet|npy, and back."""
    before = np.load(folder / "codes.npy")
    source = folder / "codes.npy"
    for name, suffix in (("hdf5", "h5"), ("parquet", "parquet"), ("npy", "npy")):
        target = tmp_path / f"x.{suffix}"
        code, out, _ = run(capsys, "export", source, "--to", name, "-o", target, "--bits", "29")
        assert (code, out.split(" to ")[0]) == (0, "300 items exported"), name
        assert run(capsys, "export", source, "--to", name, "-o", target)[0] == 2
        assert run(capsys, "export", source, "--to", name, "-o", target, "--replace", "--bits", 29)[0] == 0
        source = target
    np.testing.assert_array_equal(np.load(source), before)
    assert run(capsys, "import", "npy", source, "--bits", "29", "-o", tmp_path / "x.isch")[0] == 0
    assert {key: code for key, (code, _) in items(tmp_path / "x.isch").items()} == {
        row: code.tobytes() for row, code in enumerate(before)
    }
    assert run(capsys, "export", source, "--to", "faiss", "-o", tmp_path / "x.faiss", "--bits", "29")[0] == 0


def test_damaged_padding_and_repeated_keys(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes = np.load(folder / "codes.npy")
    codes[200, -1] |= 1
    np.save(tmp_path / "x.npy", codes)
    code, _, errors = run(capsys, "import", "npy", tmp_path / "x.npy", "--bits", "29", "-o", tmp_path / "x.isch")
    assert code == 2
    assert "the bits after bit 29 of a code must be zero; they are not in row 200" in errors
    np.save(tmp_path / "x.names.npy", ["same"] * ROWS)
    code, _, errors = run(capsys, "import", "npy", tmp_path / "x.npy", "-o", tmp_path / "x.isch")
    assert (code, "the key 'same' is given twice" in errors) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.names.npy", "x.npy"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("import faiss -o y.isch", "import faiss needs FILE; FILE is missing"),
        ("import postgres --url x -o y.isch", "import postgres needs --url and --table; --table is missing"),
        ("import npy codes.npy --table t -o y.isch", "import npy takes FILE; got --table too"),
        ("import npy codes.npy --key k -o y.isch", "import npy has no columns"),
        ("import npy codes.npy --bits 99 -o y.isch", "its codes have 4 bytes; codes of 99 bits have 13"),
        ("import npy features.npy -o y.isch", "must be packed bytes"),
        ("import oracle x -o y.isch", "'oracle' is not one of"),
        ("import npy codes.npy -o x.isch", "exists already"),
        ("import npy codes.npy --model model -o y.isch", "holds codes of 32 bits; got codes of 29 bits"),
        ("import faiss codes.npy -o y.isch", "not a binary index of faiss"),
        ("import parquet codes.npy -o y.isch", "not a readable Parquet file"),
        ("import lancedb --uri lance --table t -o y.isch", "no such folder"),
        ("export codes.npy --to hdf5 -o y.npy", "unknown suffix"),
        ("export codes.npy --to npy -o codes.npy --replace", "it is also the input"),
        ("export features.npy --to npy -o y.npy", "must be packed bytes"),
        ("export codes.txt --to npy -o y.npy", "no such file"),
        ("export codes.npy --to npy -o y.npy --index hnsw", "npy has no kinds of index"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    code, out, errors = run(capsys, *arguments.split())
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert message in errors
    assert sorted(folder.iterdir()) == before
