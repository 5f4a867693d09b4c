"""The program as a process: signals, pipes, exit codes."""

import os
import shutil
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

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals and pipes")

STARTED = (  # tells when the program handles signals; before that, Python itself is still starting
    "import os; from isch.cli import main; from isch.cli.signals import stop; watch = stop.watch\n"
    "stop.watch = lambda: (watch(), os.write({fd}, b'.')); main()"
)
INTERRUPTED = "isch: interrupted; no file was left half-written, and the same command resumes what can be resumed\n"
COMMANDS = {
    "help": ["--help"],
    "fit": ["fit", "features.npy", "--bits", "32", "-o", "model"],
    "search": ["search", "index.isch", "features.npy", "-k", "3"],
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("desk")
    digits = load_digits().data.astype(np.float32)
    np.save(folder / "features.npy", digits)
    isch.Index.create(folder / "index.isch", isch.LSH(32).fit(digits), digits).close()
    return folder


@pytest.fixture(autouse=True)
def _here(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk)


def start(arguments: list[str]) -> subprocess.Popen[str]:
    """A process that handles signals already."""
    reader, writer = os.pipe()
    command = [sys.executable, "-c", STARTED.format(fd=writer), *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[writer], env=plain()
    )
    os.close(writer)
    assert os.read(reader, 1) == b"."
    os.close(reader)
    return process


def plain() -> dict[str, str]:
    """The environment without what changes how output is shown."""
    return {name: value for name, value in os.environ.items() if name not in (program.DEBUG, "PYTHONUNBUFFERED")}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("moment", range(20))
def test_ctrl_c_at_any_moment_is_one_line(desk: Path, name: str, moment: int) -> None:
    before = sorted(os.listdir())
    process = start(COMMANDS[name])
    time.sleep(0.02 * moment)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) in [(130, INTERRUPTED), (0, "")]
    assert process.returncode == 130 or out.endswith("\n")
    left = sorted(os.listdir())
    assert left in (before, sorted([*before, "model"]))
    if left != before:
        assert isch.load("model").n_bits == 32  # whole
        os.remove("model")


@pytest.mark.parametrize("moment", range(4))
@pytest.mark.parametrize("output", ["codes.npy", "many.isch"])
def test_sigterm_leaves_nothing_half_written(desk: Path, output: str, moment: int) -> None:
    isch.LSH(64).fit(np.load("features.npy")).save("coder")
    np.save("many.npy", np.tile(np.load("features.npy"), (100, 1)))
    commands = {
        "codes.npy": ["encode", "coder", "many.npy", "-o", "codes.npy"],
        "many.isch": ["index", "build", "many.npy", "--model", "coder", "-o", "many.isch"],
    }
    before = sorted(os.listdir())
    process = start(commands[output])
    deadline = time.monotonic() + 60
    while process.poll() is None and sorted(os.listdir()) == before and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02 * moment)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) in [(143, INTERRUPTED.replace("interrupted", "stopped")), (0, "")]
    if output == "codes.npy" and (left := set(os.listdir()) - {*before, output}):
        assert left == {"codes.npy.partial"}  # what the same command completes
        with start(commands[output]) as again:
            assert again.communicate(timeout=60)[1] == ""
    if output in os.listdir():
        assert len(np.load(output) if output == "codes.npy" else isch.Index.open(output)) == 100 * 1797
        shutil.rmtree(output) if os.path.isdir(output) else os.remove(output)
    for lock in (".many.isch.lock", ".many.isch.lock.holder"):  # may stay: it could be another process that holds it
        Path(lock).unlink(missing_ok=True)
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("name", ["fit", "one"])
def test_ctrl_c_after_the_last_words_stays_success(name: str) -> None:
    np.save("one.npy", np.load("features.npy")[:1])
    process = start({**COMMANDS, "one": ["search", "index.isch", "one.npy"]}[name])
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout as out, process.stderr as errors:
        first = out.readline()  # what fits the buffer is shown when all is done
        process.send_signal(signal.SIGINT)
        rest = out.read()
        assert (process.wait(60), errors.read()) == (0, "")
    assert first
    assert rest.endswith("\n")
    Path("model").unlink(missing_ok=True)


SLOW = """
import time
print("importing", flush=True)
for _ in range(50):
    time.sleep(0.01)
print("imported")
"""
LIBRARY = """
import time

def work(arguments):
    try:
        import slow
        time.sleep(30)
    finally:
        print("cleaned")
"""


def test_ctrl_c_waits_for_an_import_that_work_needs(tmp_path: Path) -> None:
    """A slow module, imported by the library in the middle of its work, is not torn apart; cleaning up follows."""
    (tmp_path / "slow.py").write_text(SLOW)
    code = (
        "import sys, types; sys.path.insert(0, sys.argv.pop()); library = types.ModuleType('isch.library')\n"
        "exec(sys.argv.pop(), library.__dict__)\n"
        "from isch.cli import app, main; app.invoke = library.work; main()"
    )
    command = [sys.executable, "-c", code, LIBRARY, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, INTERRUPTED)
    assert out == "imported\ncleaned\n"


def test_an_interrupt_that_python_drops_comes_back() -> None:
    """Exceptions in finalisers are lost; this one is not, and makes no noise."""
    code = (
        "import os, signal, time\n"
        "class Noisy:\n"
        "    def __del__(self): os.kill(os.getpid(), signal.SIGINT); time.sleep(0.05)\n"
        "def invoke(arguments): Noisy(); time.sleep(30)\n"
        "from isch.cli import app, main; app.invoke = invoke; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (130, INTERRUPTED)


def test_a_signal_that_the_parent_ignores_stays_ignored() -> None:
    code = (
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from isch.cli import app, main; app.invoke = lambda arguments: os.kill(os.getpid(), signal.SIGINT) or 0\n"
        "main()"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=20).returncode == 0


def test_without_the_calls_of_one_system() -> None:
    """What Windows does not have, taken away: the interrupt still ends the program."""
    code = (
        "import os, signal\n"
        "for name in ('SIGHUP', 'pthread_kill'): delattr(signal, name)\n"
        "import time\n"
        "class Noisy:\n"
        "    def __del__(self): os.kill(os.getpid(), signal.SIGINT); time.sleep(0.05)\n"
        "def invoke(arguments):\n"
        "    Noisy()\n"
        "    while True: time.sleep(0.01)\n"
        "from isch.cli import app, main; app.invoke = invoke; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (130, INTERRUPTED)


def shell(line: str) -> subprocess.CompletedProcess[str]:
    command = line.replace("isch", f"{sys.executable} -m isch", 1)
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=plain(), timeout=60)


def test_a_closed_pipe_is_silent() -> None:
    done = shell("isch search index.isch features.npy -k 50 | head -1; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stdout, done.stderr) == (141, "query\trank\tdistance\tscore\tkey\n", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_output_that_cannot_be_written_is_said() -> None:
    done = shell("isch search index.isch features.npy > /dev/full")
    assert (done.returncode, done.stderr) == (2, "isch: [Errno 28] No space left on device\n")


def test_no_output_at_all() -> None:
    assert shell("isch --version >&- 2>&-").returncode == 0


def test_characters_that_the_terminal_does_not_know() -> None:
    done = shell("PYTHONIOENCODING=ascii isch fit 'näh.npy' -o m")
    assert (done.returncode, done.stderr) == (2, "isch: n\\xe4h.npy: no such file or folder\n")


def fail(_: object) -> int:
    raise KeyError("x\n\x1b[31m")


def test_what_is_not_our_error_is_a_sentence_that_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("isch.cli.app.invoke", fail)
    monkeypatch.delenv(program.DEBUG, raising=False)
    assert program.run([]) == 1
    assert capsys.readouterr().err == (
        r"isch: this is a mistake in isch, not yours: KeyError: 'x\n\x1b[31m'; please report it with what the same "
        "command prints when ISCH_DEBUG=1 is set\n"
    )
    monkeypatch.setenv(program.DEBUG, "1")
    assert program.run([]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["", "0", "false", "False", "no", "off"])
def test_values_that_mean_no_tracebacks(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("isch.cli.app.invoke", fail)
    monkeypatch.setenv(program.DEBUG, value)
    assert program.run([]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_an_interrupt_that_is_not_ours_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("isch.cli.app.invoke", interrupted)
    with pytest.raises(KeyboardInterrupt):
        program.run([])
