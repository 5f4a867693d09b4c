"""The index at the command line."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isch.cli import program
from isch.hashing.lsh import LSH
from isch.search.index import Index


@dataclass
class Shell:
    """Runs commands as the program would, in one folder."""

    capture: pytest.CaptureFixture[str]

    def run(self, *arguments: object) -> tuple[int, str, str]:
        code = program.run([*map(str, arguments)])
        captured = self.capture.readouterr()
        return code, captured.out, captured.err

    def succeed(self, *arguments: object) -> str:
        code, out, errors = self.run(*arguments)
        assert (code, errors) == (0, "")
        return out


@pytest.fixture
def shell(inputs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(inputs)
    return Shell(capsys)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 16)).astype(np.float32)
    np.save(folder / "features.npy", features)
    np.save(folder / "one.npy", features[7])
    LSH(n_bits=32).fit(features).save(folder / "model.safetensors")
    (folder / "names.txt").write_text("".join(f"photo {i}\n" for i in range(200)))
    rows = [json.dumps({"album": str(2018 + i % 3), "year": 1990 + i % 30}) for i in range(200)]
    (folder / "meta.jsonl").write_text("\n".join(rows))
    return folder


def test_the_life_of_an_index(shell: Shell) -> None:
    build = ["index", "build", "features.npy", "--model", "model.safetensors", "-o", "x.isch"]
    more = ["--keys", "names.txt", "--metadata", "meta.jsonl", "--keep-features", "float16"]
    assert "200 items" in shell.succeed(*build, *more)
    for rerank in ("auto", "asymmetric", "exact", "none"):
        table = shell.succeed("search", "x.isch", "one.npy", "-k", 3, "--rerank", rerank).splitlines()
        assert len(table) == 4
        assert table[1].startswith("0\t1\t0\t")
        assert table[1].endswith("photo 7")
    where = ["--where", "album=2019", "--where", "year>=2000", "--where", "year<2010"]
    line = json.loads(shell.succeed("search", "x.isch", "one.npy", "-k", 50, "--json", *where))
    found: list[dict[str, Any]] = line["hits"]
    expected = {f"photo {i}" for i in range(200) if i % 3 == 1 and 2000 <= 1990 + i % 30 < 2010}
    assert {hit["key"] for hit in found} <= expected
    assert len(found) == min(50, len(expected))
    nothing = shell.succeed("search", "x.isch", "one.npy", "--json", "--where", "year=1991", "--where", "year=1992")
    assert json.loads(nothing)["hits"] == []
    _, out, why = shell.run("within", "x.isch", "one.npy", "-r", 4, "--json", "--explain")
    assert why == "isch: 200 codes of 32 bits: a scan; index.accelerate(radius=…) would build tables for small radii\n"
    near = json.loads(out)["hits"]
    assert near[0]["key"] == "photo 7"
    assert [hit["distance"] for hit in near] == sorted(hit["distance"] for hit in near)
    assert max(hit["distance"] for hit in near) <= 4
    assert "2 deleted" in shell.succeed("index", "delete", "x.isch", "photo 7", "photo 8")
    assert "photo 7" not in shell.succeed("search", "x.isch", "one.npy")
    shell.succeed("index", "add", "x.isch", "features.npy", "--keys", "names.txt", "--replace")
    shell.succeed("index", "compact", "x.isch")
    assert "all is well" in shell.succeed("index", "verify", "x.isch")
    facts = json.loads(shell.succeed("index", "info", "x.isch", "--json"))
    assert (facts["items"], facts["segments"], facts["deleted"], facts["method"]) == (200, 1, 0, "lsh")
    assert "200" in shell.succeed("index", "info", "x.isch")


def test_codes_without_a_model_and_integer_keys(inputs: Path, shell: Shell) -> None:
    codes = np.random.default_rng(1).integers(0, 256, (50, 4), dtype=np.uint8)
    np.save(inputs / "codes.npy", codes)
    shell.succeed("index", "build", "codes.npy", "--bits", 32, "-o", "c.isch")
    assert "1 deleted" in shell.succeed("index", "delete", "c.isch", 3)
    shell.succeed("index", "add", "c.isch", "codes.npy")
    with Index.open(inputs / "c.isch") as index:
        assert list(index)[-1] == 99


FAILURES = {
    "no such index": (["search", "none.isch", "one.npy"], "none.isch: no such index"),
    "not an index": (["index", "info", "."], "not an ISCH index"),
    "exists": (["index", "build", "features.npy", "--model", "model.safetensors", "-o", "f.isch"], "exists already"),
    "no model": (
        ["index", "build", "features.npy", "-o", "n.isch"],
        "needs --model MODEL for features, or --bits N",
    ),
    "keys": (["index", "add", "f.isch", "features.npy", "--keys", "model.safetensors"], "UTF-8"),
    "metadata": (["index", "add", "f.isch", "features.npy", "--metadata", "names.txt"], "line 1 is not JSON"),
    "where": (["search", "f.isch", "one.npy", "--where", "album"], "--where expects"),
    "rerank": (["search", "f.isch", "one.npy", "--rerank", "magic"], "'magic' is not one of 'auto'"),
    "exact": (
        ["search", "f.isch", "one.npy", "--rerank", "exact"],
        "needs an index that was built with --keep-features",
    ),
    "radius": (["within", "f.isch", "one.npy", "--radius", "-1"], "Invalid value for '--radius'"),
    "field": (
        ["within", "f.isch", "one.npy", "--where", "albun=x"],
        "no item has the field 'albun'; the fields are album",
    ),
    "k": (["search", "f.isch", "one.npy", "-k", "0"], "Invalid value for '-k'"),
    "missing key": (["index", "delete", "f.isch", "nobody"], "'nobody' is not in the index"),
    "nothing to delete": (["index", "delete", "f.isch"], "give the keys"),
}


@pytest.fixture(scope="module")
def failing(inputs: Path) -> Path:
    Index.create(
        inputs / "f.isch", inputs / "model.safetensors", inputs / "features.npy", metadata={"album": 1}
    ).close()
    return inputs


@pytest.mark.parametrize("case", FAILURES)
def test_bad_input_is_one_sentence_and_exit_code_2(failing: Path, shell: Shell, case: str) -> None:
    arguments, message = FAILURES[case]
    before = sorted(failing.iterdir())
    code, _, errors = shell.run(*arguments)
    assert code == 2
    assert message in errors
    assert len(errors.splitlines()) == 1
    assert sorted(failing.iterdir()) == before


def test_verify_names_the_damaged_segment(inputs: Path, shell: Shell) -> None:
    build = ["index", "build", "features.npy", "--model", "model.safetensors", "-o", "v.isch"]
    shell.succeed(*build)
    (segment,) = (inputs / "v.isch" / "segments").glob("*.codes")
    data = bytearray(segment.read_bytes())
    data[5000] ^= 1
    segment.write_bytes(data)
    code, out, errors = shell.run("index", "verify", "v.isch")
    assert code == 2
    assert segment.name in out
    assert "1 problem found" in errors
