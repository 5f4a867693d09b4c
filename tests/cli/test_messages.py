"""What the commands say: in the words of the command, on one line, whatever names and keys contain."""

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

import isch
from isch.cli import program
from isch.cli.console import facts, safe, table

Run = Callable[[str], tuple[int, str, str]]  # a line to (exit code, stdout, stderr)

EVIL = [
    "tab\there",
    "new\nline",
    "\x1b[31mred\x1b[0m",
    "back\rward",
    "\x9bclear",
    "turn\u202eed",
    "日本語 ü",
    "C:\\x",
]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    features = rng.standard_normal((len(EVIL), 6)).astype(np.float32)
    np.save("features.npy", features)
    np.save("keys.npy", np.array(EVIL))
    isch.LSH(16).fit(features).save("model")
    Path("meta.jsonl").write_text("".join(f'{{"album": "{i % 2}", "year": {i}}}\n' for i in range(len(EVIL))))
    return tmp_path


@pytest.fixture
def run(desk: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(line: str) -> tuple[int, str, str]:
        code = program.run(shlex.split(line))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def index(run: Run) -> None:
    assert run("index build features.npy --model model --keys keys.npy --metadata meta.jsonl -o x.isch")[0] == 0


def test_safe_text() -> None:
    assert [safe(key) for key in EVIL] == [
        "tab\there",
        r"new\nline",
        r"\u001b[31mred\u001b[0m",
        r"back\rward",
        r"\u009bclear",
        r"turn\u202eed",
        "日本語 ü",
        "C:\\x",
    ]
    assert list(table([["a\tb", 1], ["日本", ""]])) == ["a\\tb\t1", "日本\t"]
    assert list(facts({"a": 1, "long": None})) == ["   a  1", "long  –"]


def test_keys_cannot_break_the_table_or_the_terminal(run: Run, index: None) -> None:
    _, out, _ = run("search x.isch features.npy -k 8")
    lines = out.splitlines()
    assert len(lines) == 1 + 8 * len(EVIL)
    assert {len(line.split("\t")) for line in lines} == {5}
    assert {line.split("\t")[4] for line in lines[1:]} == {safe(key).replace("\t", r"\t") for key in EVIL}
    assert all(character.isprintable() or character in "\n\t" for character in out)
    _, out, _ = run("search x.isch features.npy -k 8 --json")
    assert json.loads(out.splitlines()[0])["hits"][0]["key"] == EVIL[0]
    assert "\x9b" not in out


def test_names_of_files_cannot_break_the_message(run: Run) -> None:
    code, _, errors = run("fit 'a\nb\x1b[2J.npy' -o m")
    assert (code, errors) == (2, "isch: a\\nb\\u001b[2J.npy: no such file or folder\n")


def test_compact_prints_what_info_then_shows(run: Run, index: None) -> None:
    run("index delete x.isch 'C:\\x'")
    run("index add x.isch features.npy --keys keys.npy --replace")
    _, out, _ = run("index compact x.isch")
    facts = json.loads(run("index info x.isch --json")[1])
    assert out.endswith(f"→ 1 segments, 8 → 0 deleted, {out.split(' → ')[-2].split()[-1]} → {facts['bytes']} bytes\n")
    assert (facts["segments"], facts["deleted"]) == (1, 0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("index build features.npy -o y", "index build needs --model MODEL for features, or --bits N for packed codes"),
        ("index build keys.npy --bits 8 --keep-features float16 -o y", "--keep-features needs --model"),
        ("index add x.isch features.npy --keys keys.npy", "; --replace replaces those items"),
        ("index add x.isch features.npy --replace", "needs their keys, and the rows have no names; give keys"),
        ("search x.isch features.npy --where albun=1", "no item has the field 'albun'; the fields are album, year"),
        ("search x.isch features.npy --where year!=1 --where color!=2", "no item has the field 'color'"),
        (
            "search x.isch features.npy --rerank exact",
            "needs an index that was built with --keep-features",
        ),
        ("fit features.npy -o m --method iqt", "unknown method 'iqt' (did you mean itq?); known: bpbc"),
        ("fit features.npy -o m --set n_iterr=1", "(did you mean n_iter or n_bits?)"),
        ("fit features.npy -o features.npy --force", "cannot write features.npy: it is also the input features.npy"),
        ("fit features.npy -o model", "model exists already; --force replaces it"),
        ("encode model features.npy -o features.names.npy", "read together with"),
        ("index build features.npy --model model -o x.isch", "x.isch exists already; choose another name"),
        ("describe none.jpg -o f.h5", "none.jpg: no such file or folder"),
        ("describe features.npy -o f.h5 --descriptor gist", "no picture could be used; the first is features.npy: "),
        ("info nothing", "nothing: no such file or folder"),
        ("info empty", "empty: not a folder that isch knows; expected a model, an index, features"),
        ("info meta.jsonl", "meta.jsonl: not an ISCH model file"),
        ("serch x.isch features.npy", "No such command 'serch'. Did you mean 'search'"),
        ("search x.isch features.npy --jsn", "No such option: --jsn"),
    ],
)
def test_mistakes_in_the_words_of_the_command(run: Run, index: None, line: str, message: str) -> None:
    os.mkdir("empty")
    code, _, errors = run(line)
    assert (code, len(errors.splitlines())) == (2, 1), errors
    assert message in errors


def test_no_hits_for_a_field_that_exists_are_no_mistake(run: Run, index: None) -> None:
    code, out, errors = run("search x.isch features.npy --where album=9")
    assert (code, out.count("\n"), errors) == (0, 1, "")


def test_one_picture_can_be_described(run: Run) -> None:
    Pil.new("RGB", (40, 30), "red").save("cat.jpg")
    os.makedirs("more/dogs")
    Pil.new("RGB", (40, 30), "blue").save("more/dogs/dog.png")
    code, out, errors = run("describe cat.jpg more cat.jpg --descriptor gist -o f.npy")
    assert (code, out, errors) == (0, "2 pictures described by 512 values each, written to f.npy\n", "")
    assert list(isch.features.open("f.npy").names or ()) == ["cat.jpg", "more/dogs/dog.png"]
    assert np.load("f.labels.npy").tolist() == ["", "dogs"]


@pytest.mark.parametrize("name", ["f.npy", "f.names.npy", "f.labels.npy", "f.describer", "list.txt"])
def test_describe_keeps_what_exists(run: Run, name: str) -> None:
    Pil.new("RGB", (40, 30), "red").save("cat.jpg")
    Path(name).write_text("precious")
    line = "describe cat.jpg --descriptor gist -o f.npy --failures list.txt"
    assert run(line)[::2] == (2, f"isch: {name} exists already; --force replaces it\n")
    assert Path(name).read_text() == "precious"
    assert run(f"{line} --force")[0] == 0


def test_describe_never_replaces_a_picture_or_its_own_recipe(run: Run) -> None:
    Pil.new("RGB", (40, 30), "red").save("cat.jpg")
    assert "it is also the input cat.jpg" in run("describe . --descriptor gist -o f.h5 --failures cat.jpg --force")[2]
    assert "it is also" in run("describe cat.jpg --descriptor gist -o f.h5 --failures f.h5")[2]
    assert run("describe cat.jpg --descriptor gist -o f.h5")[0] == 0
    assert "it is also the input f.h5" in run("describe cat.jpg --descriptor f.h5 -o f.h5 --force")[2]


def test_stale_names_beside_codes_are_refused(run: Run) -> None:
    np.save("codes.names.npy", ["of", "other", "rows"])
    assert run("encode model features.npy -o codes.npy --force")[2] == (
        "isch: codes.names.npy exists already; choose another name\n"
    )


def test_force_replaces(run: Run) -> None:
    Path("codes.npy").write_text("old")
    assert run("encode model features.npy -o codes.npy")[0] == 2
    assert run("encode model features.npy -o codes.npy --force")[0] == 0
    assert run("fit features.npy --method lsh --bits 8 -o model --force")[0] == 0
    assert isch.load("model").n_bits == 8


def test_a_model_that_appears_meanwhile_is_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = isch.LSH.fit

    def slow_fit(self: isch.LSH, X: object, **options: Any) -> isch.LSH:
        Path("new").write_text("somebody else's")
        return fit(self, X, **options)

    monkeypatch.setattr(isch.LSH, "fit", slow_fit)
    code, out, _ = run("fit features.npy --method lsh --bits 8 -o new")
    assert code == 0
    assert "model written to new-2;" in out
    assert Path("new").read_text() == "somebody else's"
    assert isch.load("new-2").n_bits == 8


def test_help_shows_jobs_headings_and_exit_codes(run: Run) -> None:
    code, out, _ = run("")
    assert code == 0
    wanted = [
        "Search pictures in the browser",
        "Turn vectors",
        "Compare methods",
        "Options:",
        "Pictures:",
        "Exit codes:",
    ]
    places = [out.index(text) for text in wanted]
    assert places == sorted(places)
    assert run("index")[1].startswith("Usage: isch index")


def test_completion_script(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ISCH_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "isch ind")
    monkeypatch.setenv("COMP_CWORD", "1")
    monkeypatch.setattr("sys.argv", ["isch"])
    assert run("")[:2] == (0, "index\n")
