"""A run that is killed goes on from its finished stages, and ends with the same bytes."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isch.errors import FileError, FormatError
from isch.fitting import checkpoint
from isch.hashing import METHODS, hasher
from isch.hashing.base import Hasher

RNG = np.random.default_rng(0)
ROWS = (RNG.standard_normal((1500, 30)) @ RNG.standard_normal((30, 48))).astype(np.float32)
TREE = {"n_iter": 3, "dictionary": "hierarchical", "n_branches": 4, "spectrum": "randomized", "block_size": 8}
OPTIONS: dict[str, dict[str, Any]] = {
    "isch": TREE,
    "diffusion": TREE,
    "kmh": {"n_iter": 3},
    "sph": {"n_iter": 3},
}

pytestmark = pytest.mark.filterwarnings("ignore::isch.errors.IschWarning")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", ROWS)
    return tmp_path / "x.npy"


def make(name: str = "diffusion", **parameters: Any) -> Hasher:
    return hasher(name, **{"n_bits": 16, **OPTIONS.get(name, {}), **parameters})


def saved(model: Hasher, path: Path) -> bytes:
    model.save(path)
    return path.read_bytes()


class Killed(BaseException):
    pass


@pytest.mark.parametrize("name", ["isch", "diffusion"])
@pytest.mark.parametrize("spectrum", ["exact", "randomized", "columns"])
def test_the_same_bytes_with_every_solver(name: str, spectrum: str, data: Path, tmp_path: Path) -> None:
    whole = saved(make(name, spectrum=spectrum).fit(data), tmp_path / "whole")
    for _ in range(2):  # the second time from its stages
        assert (
            saved(make(name, spectrum=spectrum).fit(data, checkpoint=tmp_path / "stages"), tmp_path / "again") == whole
        )


@pytest.mark.parametrize("name", sorted(METHODS))
def test_stopped_after_each_stage_the_same_bytes(
    name: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = saved(make(name).fit(data), tmp_path / "whole")
    write, made = checkpoint._write, list[str]()

    def last_words(folder: Path, *rest: Any) -> None:
        write(folder, *rest)
        made.append(folder.name)
        raise Killed

    monkeypatch.setattr(checkpoint, "_write", last_words)
    for _ in range(20):
        try:
            model = make(name).fit(data, checkpoint=tmp_path / "stages")
        except Killed:
            continue
        break
    assert saved(model, tmp_path / "resumed") == whole
    assert len(made) == len(set(made))  # each stage was made once
    assert len(made) >= (6 if name in ("isch", "diffusion") else 1)


def test_killed_at_any_moment_the_same_bytes(data: Path, tmp_path: Path) -> None:
    options = "--bits 16 --set dictionary=hierarchical --set n_branches=4 --set spectrum=randomized --set block_size=4"
    command = [sys.executable, "-W", "ignore", "-m", "isch", "fit", str(data), *options.split()]
    subprocess.run([*command, "-o", str(tmp_path / "whole")], check=True, capture_output=True)
    again = [*command, "-o", str(tmp_path / "model"), "--checkpoint", str(tmp_path / "stages")]
    for number in range(40):
        process = subprocess.Popen(again, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before = _stages(tmp_path)
        while process.poll() is None and (number >= 4 or _stages(tmp_path) <= before):
            time.sleep(0.002)
        process.kill()
        if process.wait() == 0:
            break
        assert not (tmp_path / "model").exists()
    assert (tmp_path / "model").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not (tmp_path / "stages").exists()


def _stages(folder: Path) -> int:
    return len(list((folder / "stages").glob("[0-9]*")))


def test_what_belongs_to_another_run_is_refused(data: Path, tmp_path: Path) -> None:
    make().fit(data, checkpoint=tmp_path / "stages")
    with pytest.raises(FileError, match=r"stages: holds stages of another run, or of features that have changed since"):
        make(n_bits=24).fit(data, checkpoint=tmp_path / "stages")
    np.save(data, ROWS + 1)
    with pytest.raises(FileError, match=r"delete it to begin anew"):
        make().fit(data, checkpoint=tmp_path / "stages")


def test_a_folder_with_other_things_is_refused_and_kept(data: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").touch()
    with pytest.raises(FileError, match=r"mine: is not a checkpoint and is not empty"):
        make().fit(data, checkpoint=tmp_path / "mine")
    checkpoint.remove(tmp_path / "mine")
    assert (tmp_path / "mine" / "precious").exists()
    with pytest.raises(FileError, match=r"cannot write .*nowhere"):
        make().fit(data, checkpoint=tmp_path / "nowhere" / "stages")


@pytest.mark.parametrize("file", ["0.npy", "state.json"])
@pytest.mark.parametrize("damage", [b"", b"garbage", b"{}"])
def test_a_damaged_stage_is_one_sentence(data: Path, tmp_path: Path, file: str, damage: bytes) -> None:
    make().fit(data, checkpoint=tmp_path / "stages")
    (tmp_path / "stages" / "000-mean" / file).write_bytes(damage)
    with pytest.raises(FormatError, match=r"000-mean: not a readable stage of a checkpoint, or a damaged one"):
        make().fit(data, checkpoint=tmp_path / "stages")


def test_a_full_disk_keeps_the_stages_before(data: Path, tmp_path: Path) -> None:
    """The limit on file size stands in for a full disk: the mean fits, the labels of clusters do not."""
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))\n"
        "from isch.cli import main; main()"
    )
    options = ["--bits=16", "--set=dictionary=hierarchical", "--set=n_branches=4"]
    files = [str(data), "-o", str(tmp_path / "m"), "--checkpoint", str(tmp_path / "stages")]
    done = subprocess.run([sys.executable, "-c", code, "fit", *files, *options], capture_output=True, text=True)
    assert done.returncode == 2
    assert "001-clusters: " in done.stderr
    assert "the stages before it are kept" in done.stderr
    assert sorted(os.listdir(tmp_path / "stages")) == ["000-mean", "lock", "lock.holder", "recipe.json"]
