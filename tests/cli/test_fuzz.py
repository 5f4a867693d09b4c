"""Every command with whatever a stranger may give it: exit code 2 and one sentence, never a traceback."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from PIL import Image as Pil

import isch
from isch.cli import program
from isch.photos import homes
from isch.photos.library import Library

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes, links and modes")

ARGUMENTS = {  # {} stands for the bad thing; the rest is well
    "fit": "fit {} -o out",
    "fit output": "fit features.npy --method lsh --bits 8 -o {}",
    "encode model": "encode {} features.npy -o out.npy",
    "encode features": "encode model {} -o out.npy",
    "encode output": "encode model features.npy -o {}",
    "info": "info {}",
    "describe": "describe {} --descriptor gist -o out.h5",
    "describe like": "describe photos --descriptor {} -o out.h5",
    "describe model": "describe photos --model {} -o out.h5",
    "describe output": "describe photos --descriptor gist -o {}",
    "describe failures": "describe photos --descriptor gist -o out.h5 --failures {}",
    "build": "index build {} --model model -o out.isch",
    "build codes": "index build {} --bits 8 -o out.isch",
    "build model": "index build features.npy --model {} -o out.isch",
    "build keys": "index build features.npy --model model --keys {} -o out.isch",
    "build metadata": "index build features.npy --model model --metadata {} -o out.isch",
    "build output": "index build features.npy --model model -o {}",
    "add index": "index add {} features.npy",
    "add features": "index add index.isch {}",
    "add keys": "index add index.isch features.npy --keys {}",
    "delete index": "index delete {} 1",
    "delete keys": "index delete index.isch --keys {}",
    "compact": "index compact {}",
    "verify": "index verify {}",
    "index info": "index info {}",
    "search index": "search {} features.npy",
    "search queries": "search index.isch {}",
    "duplicates": "duplicates {}",
    "export": "export {} --to npy -o out.npy",
    "export faiss": "export {} --to faiss -o out.faiss",
    "export output": "export index.isch --to parquet -o {}",
    "import faiss": "import faiss {} -o out.isch",
    "import usearch": "import usearch {} -o out.isch",
    "import npy": "import npy {} -o out.isch",
    "import hdf5": "import hdf5 {} -o out.isch",
    "import parquet": "import parquet {} -o out.isch",
    "import lancedb": "import lancedb --uri {} --table t -o out.isch",
    "import model": "import npy codes.npy --model {} -o out.isch",
    "import output": "import npy codes.npy -o {}",
    "serve": "serve {} --no-browser",
    "photos": "photos {} --index home --no-browser",
    "photos index": "photos index {} --index home",
    "photos search": "photos search {} --folder photos --index home",
    "photos search folder": "photos search photos/cat.jpg --folder {} --index home",
    "photos search index": "photos search photos/cat.jpg --folder photos --index {}",
    "photos duplicates": "photos duplicates --folder {} --index home",
    "photos duplicates index": "photos duplicates --folder photos --index {}",
    "photos serve": "photos serve --folder {} --index home --no-browser",
    "bench run": "bench run {}",
    "bench plot": "bench plot {} -o out",
}
SUFFIXES = ("npy", "npz", "h5", "zarr", "parquet", "feather", "fvecs", "jpg", "toml", "onnx", "txt", "safetensors")
THINGS = {
    "missing": ["missing", "missing.npy", "missing/deep.npy", "missing::x", "", "x" * 300, "caf\udce9.npy"],
    "folders": ["folder", "folder.npy", "folder.h5", "folder.zarr", "folder.isch", "folder.jpg"],
    "empty": ["empty", *(f"empty.{suffix}" for suffix in SUFFIXES)],
    "junk": ["junk", *(f"junk.{suffix}" for suffix in SUFFIXES)],
    "pipes and links": ["pipe", "pipe.npy", "pipe.jpg", "/dev/zero", "loop", "loop.npy"],
    "wrong kind": ["model", "names.txt", "index.isch", "photos", "photos/cat.jpg", "odd.npy", "strings.npy"],
}
FINE = {  # what is no mistake: (command, thing)
    *(("info", thing) for thing in ("model", "index.isch", "photos", "photos/cat.jpg", "odd.npy", "strings.npy")),
    *(("encode model", "model"), ("build model", "model"), ("build keys", "names.txt"), ("add keys", "names.txt")),
    *(("describe", "photos"), ("describe", "photos/cat.jpg"), ("serve", "index.isch")),
    *((f"photos{command}", "photos") for command in ("", " index", " search folder", " duplicates", " serve")),
    ("photos search", "photos/cat.jpg"),
    *(
        (f"{command}", "index.isch")
        for command in ("add index", "compact", "verify", "index info", "search index", "duplicates")
    ),
    *(("delete index", "index.isch"), ("delete keys", "strings.npy"), ("delete keys", "names.txt")),
    *(("build keys", "strings.npy"), ("add keys", "strings.npy")),
    *(("export", "index.isch"), ("export faiss", "index.isch"), ("import model", "model")),
}
NUMBERS = [
    *(f"photos search photos/cat.jpg --folder photos --index home -k {k}" for k in (0, -1, "x")),
    *(f"photos duplicates --folder photos --index home --closeness {c}" for c in (-1, 30, "nan", "nearest", "")),
    *(f"photos duplicates --folder photos --index home --keep {rule}" for rule in ("", "newest", "pixels,bytes")),
    *(f"photos serve --folder photos --index home --port {port}" for port in (-1, 65536, "x", "1.5")),
    *(f"photos photos --index home --host {host}" for host in ("0.0.0.0", "::", "example.org", "not a host", "")),
    *("photos photos --index home --host 0.0.0.0 --token short", "serve index.isch --port 99999"),
    *("photos nonsense", "photos search", "photos index", "photos photos --index photos/inside"),
    *(f"duplicates index.isch --radius {r}" for r in (-1, "x", "1.5")),
    *(f"fit features.npy --bits {bits} -o out" for bits in (0, -1, 10**9, 10**30, "many", "1.5", "nan", "")),
    *(f"fit features.npy --seed {seed} -o out" for seed in (-1, 10**30, "x")),
    *(
        f"fit features.npy --bits 8 --set {text} -o out"
        for text in ("", "=1", "n_bits", "tau=-1", "tau=nan", "tau=[1]")
    ),
    *(
        f"fit features.npy --bits 8 --set {text} -o out"
        for text in ("n_bits=0", "n_bits=x", "n_iter=-1", "random_state=x")
    ),
    *(f"fit features.npy --method {method} -o out" for method in ("", "ISCH", "itqq", "../x")),
    *(f"search index.isch features.npy -k {k}" for k in (0, -1, "x", "1.5")),
    *(f"search index.isch features.npy --oversample {o}" for o in (0, -1, "nan", "inf", "x")),
    *(f"search index.isch features.npy --where {w}" for w in ("", "=", "a", "=1", "<2", 'a"b=1', "nofield=1")),
    *(f"search index.isch features.npy --rerank {r}" for r in ("", "exact", "best")),
    *(f"describe photos --descriptor {d} -o out.h5" for d in ("", "+", "gist+", "cnnn", "gist+gist+nope")),
    *(f"describe photos --descriptor bow --words {w} -o out.h5" for w in (0, -1, 10**30, "x")),
    *(f"describe photos --descriptor gist -o {o}" for o in ("out", "out.txt", "out.zarr", "out.npy.gz")),
    *(f"index build features.npy --bits {bits} -o out.isch" for bits in (0, -5, 10**9, 8)),
    *(f"import npy codes.npy --bits {bits} -o out.isch" for bits in (0, -1, 9, 10**30, "x")),
    *(f"export index.isch --to faiss -o out.faiss --kind {kind}" for kind in ("", "best", "FLAT")),
    *(f"export index.isch --to postgres --url {url} --table t" for url in ("", "x", "http://x", "postgresql://[")),
    *(f"import npy codes.npy --bit-order {order} -o out.isch" for order in ("", "big")),
    *("export index.isch --to oracle -o x", "export index.isch", "import", "import npy", "import npy codes.npy"),
    *(f"bench run toy.toml --bits {bits}" for bits in ("0", "-1", "x", "", ",", "8,,x")),
    *(f"bench run toy.toml --seeds {seeds}" for seeds in (0, -1, "x")),
    *("", "nonsense", "index nonsense", "bench nonsense", "fit", "encode model", "search", "--nonsense", "index add"),
]
TOML = """
title = "toy"
bits = [8]
seeds = 1
measures = ["precision@5"]
data = { dataset = "features", path = "nowhere" }
split = { total = 20 }
methods = { lsh = {} }
"""


@pytest.fixture(scope="module")
def desk() -> Iterator[Path]:
    """A folder of its own, because another user may not enter those of pytest."""
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        fill(Path(folder).resolve())
        yield Path(folder).resolve()


def fill(folder: Path) -> None:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((30, 6)).astype(np.float32)
    np.save(folder / "features.npy", features)
    np.save(folder / "odd.npy", features[0, 0])
    np.save(folder / "strings.npy", [f"key {i}" for i in range(30)])
    hasher = isch.LSH(8).fit(features)
    np.save(folder / "codes.npy", hasher.transform(features))
    hasher.save(folder / "model")
    isch.Index.create(folder / "index.isch", hasher, features).close()
    (folder / "names.txt").write_text("".join(f"{i}\n" for i in range(100, 130)))
    (folder / "toy.toml").write_text(TOML)
    (folder / "photos").mkdir()
    (folder / "cache").mkdir()
    Pil.new("RGB", (40, 30), "red").save(folder / "photos" / "cat.jpg")
    Library(folder / "photos", folder / "home").update()
    for name in THINGS["folders"]:
        (folder / name).mkdir()
    for name in THINGS["empty"]:
        (folder / name).touch()
    for name in THINGS["junk"]:
        (folder / name).write_bytes(rng.bytes(5000))
    for name in ("pipe", "pipe.npy", "pipe.jpg"):
        os.mkfifo(folder / name)
    for name in ("loop", "loop.npy"):
        os.symlink(name, folder / name)


@pytest.fixture(autouse=True)
def _here(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk)
    monkeypatch.setenv("ISCH_CACHE", str(desk / "cache"))
    monkeypatch.setattr(homes, "root", lambda: desk / "cache")
    monkeypatch.delenv(program.DEBUG, raising=False)


def words(line: str, thing: str = "") -> list[str]:
    return [word.format(thing) for word in line.split()]


def check(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = program.run(arguments)
    errors = capsys.readouterr().err
    assert (code, len(errors.splitlines())) == (2, 1), (arguments, errors)
    assert errors.startswith("isch: ")
    assert not any(word in errors for word in ("Traceback", "Errno", "unsafely")), errors


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", THINGS)
@pytest.mark.parametrize("command", ARGUMENTS)
def test_a_bad_file_is_one_sentence(command: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(os.listdir())
    for thing in THINGS[kind]:
        if (command, thing) in FINE or (command.endswith(("output", "failures")) and kind != "folders"):
            continue
        check(words(ARGUMENTS[command], thing), capsys)
        assert sorted(os.listdir()) == before, thing


@pytest.mark.parametrize("line", NUMBERS)
def test_absurd_values_are_one_sentence(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(os.listdir())
    check(line.split(" ") if line else ["--no"], capsys)
    assert sorted(os.listdir()) == before


STRANGER = """
import os, shutil, sys
from isch.cli import program
lines = sys.stdin.read().splitlines()
if os.geteuid() == 0:  # who may read everything; the first round imports what the stranger may not
    for line in lines:
        program.run(line.split())
    shutil.rmtree("guarded")
    os.mkdir("guarded", 0o555)
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.stderr.write("as a stranger:\\n")
for line in lines:
    sys.stderr.write(f"{program.run(line.split())} for: {line}\\n")
"""
SECRETS = ("secret", "secret.npy", "secret.h5", "secret.jpg", "secret.toml", "locked", "locked/x.npy")


def test_what_another_user_may_not_read_or_write(desk: Path) -> None:
    """All commands, one after the other, in a process that is not root."""
    for name in SECRETS:
        if name.startswith("secret"):
            Path(name).write_text("secret")
            os.chmod(name, 0)
        elif "/" not in name:
            os.mkdir(name, 0)
    os.mkdir("guarded", 0o555)
    lines = [
        line.format(thing)
        for command, line in ARGUMENTS.items()
        for thing in (("guarded/out.h5",) if command.endswith(("output", "failures")) else SECRETS)
    ]
    command = [sys.executable, "-c", STRANGER]
    ran = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=200, check=True)
    answers = ran.stderr.partition("as a stranger:\n")[2].splitlines()
    assert [answer for answer in answers[1::2] if not answer.startswith("2 for: ")] == []
    assert len(answers) == 2 * len(lines)  # a sentence each
    assert [answer for answer in answers[::2] if not answer.startswith("isch: ")] == []
    assert sum("Permission denied" in answer for answer in answers) > 30
