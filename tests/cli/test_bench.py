"""isch bench at the command line."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

TOML = """
title = "toy"
bits = [8]
seeds = 1
measures = ["precision@5"]
data = {{ dataset = "features", path = "{folder}" }}
split = {{ total = 20 }}
methods = {{ lsh = {{}}, itq = {{}}, 2-norm = {{}} }}
"""


def isch(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"ISCH_DATA": str(folder / "none"), "ISCH_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "isch", "bench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "features.npy", rng.standard_normal((300, 12)).astype(np.float32))
    np.save(tmp_path / "labels.npy", np.arange(300) % 3)
    (tmp_path / "toy.toml").write_text(TOML.format(folder=tmp_path))
    return tmp_path


def test_run_plot_and_run_again(toy: Path) -> None:
    first = isch("run", "toy.toml", folder=toy)
    assert first.returncode == 0, first.stderr
    assert re.search(r"seed 0 lsh 8 bits precision@5 .* 2 left, about 1 min\)", first.stdout)
    assert len((toy / "results" / "toy.csv").read_text().splitlines()) == 1 + 3
    plot = isch("plot", "toy.toml", "-o", "pictures", folder=toy)
    assert plot.returncode == 0, plot.stderr
    assert "| method | 8 |" in plot.stdout
    assert (toy / "pictures" / "toy.svg").exists()
    table = (toy / "pictures" / "toy.md").read_text()
    assert "\n`isch bench run toy.toml`. All 3 planned runs are stored.\n" in table
    assert "| LSH |" in table
    (toy / "pictures" / "toy.md").write_text("precious")
    refused = isch("plot", "toy.toml", "-o", "pictures", folder=toy)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "exists already; --force replaces it" in refused.stderr
    assert (toy / "pictures" / "toy.md").read_text() == "precious"
    assert isch("plot", "toy.toml", "-o", "pictures", "--force", folder=toy).returncode == 0
    assert (toy / "pictures" / "toy.md").read_text() == table
    again = isch("run", "toy.toml", folder=toy)
    assert "(3 stored before)" in again.stdout


def test_a_killed_run_goes_on_and_what_it_had_done_can_be_collected(toy: Path) -> None:
    command = [sys.executable, "-m", "isch", "bench", "run", "toy.toml", "--seeds", "12"]
    environment = os.environ | {"ISCH_CACHE": str(toy / "cache")}
    process = subprocess.Popen(command, cwd=toy, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(list((toy / "cache").glob("runs/*/toy/[!.]*.json"))) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = len(list((toy / "cache").glob("runs/*/toy/[!.]*.json")))
    assert 4 <= done < 36
    assert not (toy / "results" / "toy.csv").exists()
    assert "| LSH |" in isch("plot", "toy.toml", folder=toy).stdout
    assert f"results/toy.csv: {done} runs added" in isch("collect", folder=toy).stdout
    assert isch("collect", folder=toy).stdout == "nothing to collect\n"
    rest = isch("run", "toy.toml", "--seeds", "12", folder=toy)
    assert f"({done} stored before)" in rest.stdout, rest.stderr


def test_list_names_the_files_of_what_is_not_there(tmp_path: Path) -> None:
    done = isch("list", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "vlad" in done.stdout
    assert "s1/1.pgm … s40/10.pgm" in done.stdout
    assert "data: wdref (missing)" in done.stdout
    assert done.stdout.count("will be downloaded to") == 2
    assert done.stdout.count("s1/1.pgm … s40/10.pgm") == 1
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "nothing"), "unknown experiment 'nothing'; known: "),
        (("run", "toy.toml", "--methods", "foo"), "unknown method 'foo'; known: "),
        (("run", "toy.toml", "--methods", ","), "methods: expected at least one; got none"),
        (("run", "toy.toml", "--redo", "cbe"), "unknown method to redo 'cbe'; known: "),
        (("run", "toy.toml", "--bits", "8,x"), "--bits must be integers of at least 1 separated by commas; got '8,x'"),
        (("plot", "toy.toml"), "no stored results of toy in results; first: isch bench run toy"),
        (("report", "-o", "none/results.md"), "the folder none does not exist"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(toy: Path, arguments: tuple[str, ...], message: str) -> None:
    done = isch(*arguments, folder=toy)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_report_keeps_what_exists(toy: Path) -> None:
    (toy / "report.md").write_text("precious")
    refused = isch("report", "-o", "report.md", folder=toy)
    assert (refused.returncode, refused.stderr) == (2, "isch: report.md exists already; --force replaces it\n")
    assert isch("report", "-o", "report.md", "--force", folder=toy).returncode == 0
    assert (toy / "report.md").read_text() != "precious"


def test_labels_of_another_length_stop_the_run(toy: Path) -> None:
    np.save(toy / "labels.npy", np.arange(299))
    done = isch("run", "toy.toml", folder=toy)
    assert done.returncode == 2
    assert "299 labels" in done.stderr
    assert not (toy / "results").exists()


def test_a_damaged_table_is_one_sentence(toy: Path) -> None:
    isch("run", "toy.toml", folder=toy)
    path = toy / "results" / "toy.csv"
    path.write_text(path.read_text().replace(",lsh,8,", ",lsh,9,"))
    done = isch("plot", "toy.toml", folder=toy)
    assert done.returncode == 2
    assert "results/toy.csv: line 4 is not a result, or damaged (the key is not that of what was run)" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (toy / "figures").exists()


@pytest.mark.parametrize("line", ['"../../x" = { method = "lsh" }', '"/etc/x" = { method = "lsh" }'])
def test_a_strangers_experiment_writes_nothing_outside(toy: Path, line: str) -> None:
    (toy / "evil.toml").write_text(TOML.format(folder=toy).replace("lsh = {}", line))
    done = isch("run", "evil.toml", folder=toy)
    assert done.returncode == 2
    assert "the name of a method must be up to 80 letters" in done.stderr
    assert sorted(p.name for p in toy.iterdir()) == ["evil.toml", "features.npy", "labels.npy", "toy.toml"]
