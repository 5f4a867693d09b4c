import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import isch
from isch.cli import program

DIGITS = load_digits().data.astype(np.float32)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("features.npy", DIGITS)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], line: str) -> tuple[int, str, str]:
    code = program.run(line.split())
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_fit_encode_info(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "fit features.npy --method isch --bits 20 -o model.safetensors --set tau=0.01 --seed 3")
    assert code == 0
    assert "1797 rows × 64 features" in out
    assert "λ* = 2.5 (τ = 0.01)" in out
    code, out, _ = run(capsys, "encode model.safetensors features.npy -o codes.npy")
    assert (code, out) == (0, "1797 codes of 20 bits (3 bytes) written to codes.npy\n")
    expected = isch.ISCH(20, tau=0.01, random_state=3).fit(DIGITS).transform(DIGITS)
    np.testing.assert_array_equal(np.load("codes.npy"), expected)
    code, out, _ = run(capsys, "info model.safetensors")
    for word in ("isch", "flat, 128 atoms", "exact, ", "quantisation error", "checksum", "correlation"):
        assert word in out
    code, out, _ = run(capsys, "info model.safetensors --json")
    assert json.loads(out)["header"]["parts"][0]["learned"]["n_samples_"] == 1797


def test_dry_run(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Says what a fit would do, writes nothing, and fails where the fit would."""
    line = "fit features.npy --bits 20 -o model.safetensors --dry-run"
    before = set(os.listdir())
    code, out, _ = run(capsys, line)
    assert code == 0
    for word in (
        "k-means",
        "rotation 1 of 1",
        "what belongs together",
        "learning, ",
        "encoding",
        "at least",
        "measured: ",
    ):
        assert word in out
    code, out, _ = run(capsys, f"{line} --json --method lsh")
    assert (code, json.loads(out)["stages"][0]["read"]) == (0, DIGITS.nbytes)
    code, out, err = run(capsys, f"{line} --memory 1MB")
    assert (code, out.splitlines()[0].split()) == (2, ["stage", "flops", "reads", "about"])
    assert err.startswith(
        "isch: features.npy: memory = 1 MB is too little for DiffusionHash of 20 bits and 64 features; "
    )
    code, _, err = run(capsys, "fit features.npy --bits 65 --method pcah -o m --dry-run")
    assert (code, err.count("\n")) == (2, 1)
    assert set(os.listdir()) == before


def test_compress(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "fit features.npy --bits 48 -o model.safetensors")
    code, out, _ = run(capsys, "compress model.safetensors --bits 3 --data features.npy -o small.safetensors")
    assert code == 0
    assert out.startswith(f"small.safetensors: {os.path.getsize('small.safetensors')} bytes, ")
    assert "bits per weight  3\n" in run(capsys, "info small.safetensors")[1]
    assert run(capsys, "encode small.safetensors features.npy -o codes.npy")[0] == 0
    expected = isch.load("model.safetensors").compressed(3, DIGITS).transform(DIGITS)
    np.testing.assert_array_equal(np.load("codes.npy"), expected)
    code, _, err = run(capsys, "compress model.safetensors -o model.safetensors --force")
    assert (code, err) == (2, "isch: cannot write model.safetensors: it is also the input model.safetensors\n")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, f"isch {isch.__version__}\n", "")


def test_set_overrides_the_options(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "fit features.npy --bits 8 --set n_bits=16 --method lsh -o m")[0] == 0
    assert isch.load("m").n_bits == 16


def test_a_wrong_number_of_threads_is_explained(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISCH_NUM_THREADS", "many")
    code, _, err = run(capsys, "fit features.npy --bits 8 --method lsh -o m")
    assert (code, err) == (2, "isch: ISCH_NUM_THREADS must be a positive number; got 'many'\n")


def test_progress_as_json(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "fit features.npy --bits 8 -o m --log-json --set dictionary=hierarchical")
    events = [json.loads(line) for line in err.splitlines()]
    assert code == 0
    assert {"mean", "k-means"} <= {event["stage"] for event in events}
    assert sum(event["event"] == "begin" for event in events) == sum(event["event"] == "end" for event in events)
    assert {"event", "stage", "done", "total", "unit", "seconds", "overall", "seconds_left"} == set(events[0])
    assert events[-1]["overall"] == 1


def test_other_methods(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "fit features.npy --bits 8 --method itq -o m")
    assert code == 0
    assert "itq" in out
    assert isinstance(isch.load("m"), isch.ITQ)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit none.npy -o m", "none.npy: no such file"),
        ("fit empty.npy -o m", "empty.npy: the file is empty"),
        ("fit nan.npy -o m --bits 4", "1 value is NaN or infinity, the first in row 7"),
        ("fit one.npy -o m --bits 4", "n_samples = 1"),
        ("fit constant.npy -o m --bits 4", "all rows are equal"),
        ("fit features.npy -o m --bits 65 --method pcah", "n_bits must be at most 64 (the number of features); got 65"),
        ("fit features.npy -o m --bits 99999999999", "Input should be less than or equal to 1048576"),
        ("fit features.npy -o m --bits 0", "Invalid value for '--bits'"),
        ("fit features.npy -o m --method magic", "unknown method 'magic'; known: bpbc"),
        ("fit features.npy -o m --set magic=1", "unknown parameter of diffusion: 'magic'; known: block_size"),
        ("fit features.npy -o m --set tau", "--set expects NAME=VALUE; got 'tau'"),
        ("fit features.npy -o nowhere/m", "the folder nowhere does not exist"),
        ("fit features.npy -o m --magic", "No such option: --magic"),
        ("encode none features.npy -o c", "none: no such model file"),
        ("encode features.npy features.npy -o c", "features.npy: not an ISCH model file"),
        ("encode model narrow.npy -o c", "narrow.npy: expected 64 columns, as the model has; got 3"),
        ("encode model nan64.npy -o c", "NaN or infinity"),
        ("info none", "none: no such file or folder"),
        ("encode model features.npy -o model", "cannot write model: it is also the input model"),
        ("encode model features.npy -o features.npy", "it is also the input features.npy"),
        ("fit constant.npy -o m --bits 4 --method lsh", "all rows are equal"),
        ("fit garbage.fvecs -o m", "not a whole number of fvecs rows"),
        ("compress garbage.fvecs -o m", "not an ISCH model file, or damaged"),
        ("compress model --bits 9 -o m", "--bits"),
        ("compress model --data narrow.npy -o m", "expected 64 columns"),
        ("compress model --data nan64.npy -o m", "NaN"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    files: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    bad = np.random.default_rng(0).standard_normal((20, 6))
    np.save("constant.npy", np.ones((20, 6)))
    np.save("one.npy", bad[:1])
    np.save("narrow.npy", bad[:, :3])
    bad[7, 2] = np.nan
    np.save("nan.npy", bad)
    np.save("nan64.npy", np.full((3, 64), np.nan))
    Path("empty.npy").touch()
    Path("garbage.fvecs").write_bytes(b"garbage, and more of it")
    isch.LSH(8).fit(DIGITS).save("model")
    before = set(os.listdir())
    code, _, err = run(capsys, line)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert set(os.listdir()) == before


def test_an_old_target_survives_a_failure(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("m").write_text("precious")
    assert run(capsys, "fit features.npy -o m --bits 64")[0] == 2
    assert Path("m").read_text() == "precious"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("locked").mkdir(mode=0o500)
    code, _, err = run(capsys, "fit features.npy --bits 8 -o locked/m")
    assert (code, "Permission denied" in err) == (2, True)


def test_a_full_disk(files: Path) -> None:
    """The limit on file size stands in for a full disk."""
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "from isch.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "fit", "features.npy", "--bits=32", "--method=lsh", "-o", "m"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "cannot write m: " in done.stderr
    assert "Traceback" not in done.stderr
    assert os.listdir() == ["features.npy"]


def test_ctrl_c_leaves_no_half_written_output_and_the_same_command_goes_on(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    isch.LSH(64).fit(DIGITS).save("m")
    np.save("features.npy", np.tile(DIGITS, (1500, 1)))
    command = [sys.executable, "-m", "isch", "encode", "m", "features.npy", "-o", "c.npy"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    store = Path("c.npy.partial/store")
    while not store.exists() or store.stat().st_size < 1000:
        assert process.poll() is None, "over before it could be interrupted"
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    assert sorted(os.listdir()) == ["c.npy.partial", "features.npy", "m"]
    assert run(capsys, "encode m features.npy -o c.npy")[0] == 0
    assert sorted(os.listdir()) == ["c.npy", "features.npy", "m"]
    np.testing.assert_array_equal(np.load("c.npy")[-len(DIGITS) :], isch.load("m").transform(DIGITS))


def test_help_is_quick_to_import() -> None:
    code = (
        "import sys; from isch.cli import main; sys.argv = ['isch', '--help']\n"
        "try: main()\n"
        "except SystemExit: print(sorted({'numpy', 'scipy', 'sklearn', 'numba'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.endswith("[]\n")


def test_info_of_a_model_needs_no_heavy_imports(files: Path) -> None:
    isch.LSH(8).fit(DIGITS).save("m")
    code = (
        "import sys; from isch.cli.program import run; run(['info', 'm'])\n"
        "print(sorted({'sklearn', 'numba', 'scipy.stats', 'pandas', 'rich'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.endswith("[]\n")
