"""isch describe, as a user runs it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image as Pil

from isch import describe, features

RNG = np.random.default_rng(0)


def isch(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "isch", "describe", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    top = tmp_path / "photos"
    for i in range(12):
        folder = top / ("cats" if i % 2 else "dogs")
        folder.mkdir(parents=True, exist_ok=True)
        Pil.fromarray(RNG.integers(0, 256, (40, 50, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    Pil.new("RGB", (30, 30)).save(top / "loose.bmp")
    return top


def test_paths_and_labels_are_stored_beside_the_vectors(photos: Path, tmp_path: Path) -> None:
    result = isch(photos, "--descriptor", "gist", "-o", tmp_path / "f.h5")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"13 pictures described by 512 values each, written to {tmp_path / 'f.h5'}\n"
    opened = features.open(tmp_path / "f.h5")
    assert opened.names is not None
    np.testing.assert_array_equal(opened.read(0, 13), describe.describer("gist").transform(list(opened.names)))
    with h5py.File(tmp_path / "f.h5") as file:
        labels = file["labels"].asstr()[:]
    assert [os.path.dirname(os.path.relpath(name, photos)) for name in opened.names] == list(labels)
    assert sorted(set(labels)) == ["", "cats", "dogs"]


def test_bad_files_are_counted_and_named_and_the_rest_described(photos: Path, tmp_path: Path) -> None:
    (photos / "empty.jpg").touch()
    (photos / "cats" / "text.jpg").write_text("hello")
    os.rename(photos / "loose.bmp", os.fsencode(photos) + b"/caf\xe9.bmp")
    result = isch(photos, "--descriptor", "gist", "-o", tmp_path / "f.npy", "--failures", tmp_path / "bad.txt")
    assert result.returncode == 0
    assert "isch: 2 could not be used:\n" in result.stderr
    assert f"  {photos / 'empty.jpg'}: the file is empty\n" in result.stderr
    assert len((tmp_path / "bad.txt").read_text().splitlines()) == 2
    opened = features.open(tmp_path / "f.npy")
    assert opened.shape == (13, 512)
    assert opened.names is not None
    assert f"{photos}/caf\\xe9.bmp" in list(opened.names)


def test_strict_stops_at_the_first_bad_file(photos: Path, tmp_path: Path) -> None:
    (photos / "empty.jpg").touch()
    result = isch(photos, "--descriptor", "gist", "-o", tmp_path / "f.h5", "--strict")
    assert result.returncode == 2
    assert result.stderr == f"isch: {photos / 'empty.jpg'}: the file is empty\n"
    assert not (tmp_path / "f.h5").exists()


def describe_until_killed(photos: Path, output: Path) -> None:
    """Describe some pictures in a process that is then killed without warning."""
    code = (
        "import sys, os, signal; from isch.features import write; write.PART_BYTES = 1\n"
        "from isch.describe import gist; gist.GIST.batch_size = 2; real = write.Writer.flush\n"
        "def flush(self):\n"
        "    real(self)\n"
        "    if len(self.names) >= 6: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write.Writer.flush = flush; from isch.cli import main; main()"
    )
    arguments = ["describe", str(photos), "--descriptor", "gist", "-o", str(output)]
    killed = subprocess.run([sys.executable, "-c", code, *arguments], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not output.exists()


def test_bad_files_from_before_an_interruption_are_tried_again(photos: Path, tmp_path: Path) -> None:
    bad, mended = photos / "cats" / "-empty.jpg", photos / "cats" / "-mended.png"
    bad.touch()
    mended.touch()
    describe_until_killed(photos, tmp_path / "f.h5")
    shutil.copy(photos / "dogs" / "0.png", mended)
    arguments = [photos, "--descriptor", "gist", "-o", tmp_path / "f.h5"]
    strict = isch(*arguments, "--strict")
    assert strict.returncode == 2
    assert strict.stderr == f"isch: {bad}: the file is empty\n"
    result = isch(*arguments)
    assert f"isch: 1 could not be used:\n  {bad}: the file is empty\n" in result.stderr
    assert "14 pictures (6 of them before the interruption)" in result.stdout


def test_killed_work_goes_on_where_it_stopped(photos: Path, tmp_path: Path) -> None:
    describe_until_killed(photos, tmp_path / "f.h5")
    result = isch(photos, "--descriptor", "gist", "-o", tmp_path / "f.h5")
    assert "13 pictures (6 of them before the interruption)" in result.stdout
    isch(photos, "--descriptor", "gist", "-o", tmp_path / "whole.h5")
    resumed, whole = features.open(tmp_path / "f.h5"), features.open(tmp_path / "whole.h5")
    np.testing.assert_allclose(np.asarray(resumed.read(0, 13)), np.asarray(whole.read(0, 13)), atol=1e-6)
    assert resumed.names is not None
    assert whole.names is not None
    assert list(resumed.names) == list(whole.names)


def test_ctrl_c_keeps_what_was_done(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for i in range(400):
        Pil.fromarray(RNG.integers(0, 256, (300, 300, 3), dtype=np.uint8)).save(tmp_path / "photos" / f"{i:03d}.bmp")
    arguments = [str(tmp_path / "photos"), "--descriptor", "gist", "--set", "variant=B", "-o", str(tmp_path / "f.npy")]
    process = subprocess.Popen([sys.executable, "-m", "isch", "describe", *arguments], stderr=subprocess.PIPE)
    kept = tmp_path / "f.npy.partial" / "describer.safetensors"
    while not kept.exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in message
    assert not (tmp_path / "f.npy").exists()


def test_a_descriptor_that_learns_is_learned_once_and_travels_with_the_file(photos: Path, tmp_path: Path) -> None:
    result = isch(photos / "cats", "--descriptor", "le+lbp", "--set", "grid=3", "-o", tmp_path / "cats.h5")
    assert result.returncode == 0, result.stderr
    result = isch(photos / "dogs", "--descriptor", tmp_path / "cats.h5", "-o", tmp_path / "dogs.npy")
    assert result.returncode == 0, result.stderr
    wanted = describe.load(tmp_path / "cats.h5").transform(photos / "dogs")
    np.testing.assert_array_equal(features.open(tmp_path / "dogs.npy").read(0, 6), wanted)
    np.testing.assert_array_equal(describe.load(tmp_path / "dogs.npy").transform(photos / "dogs"), wanted)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: no such file or folder"),
        (["photos", "--descriptor", "sift"], "unknown descriptor 'sift'; known: bow, cnn"),
        (["photos", "--descriptor", "gist", "--words", "3"], "unknown parameter of gist: 'n_words'"),
        (["photos", "--descriptor", "gist", "--set", "side"], "--set expects NAME=VALUE"),
        (["photos", "--model", "none.onnx"], "none.onnx: no such model file"),
        (["photos/none"], "there are no pictures in this folder"),
    ],
)
def test_mistakes_get_one_sentence(photos: Path, monkeypatch: Any, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(photos.parent)
    (photos / "none").mkdir()
    result = isch(*arguments, "-o", "f.h5")
    assert result.returncode == 2
    assert result.stderr.startswith("isch: ")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(os.listdir()) == ["photos"]


def test_a_folder_of_only_bad_files(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").touch()
    result = isch(tmp_path / "photos", "--descriptor", "gist", "-o", tmp_path / "f.h5")
    assert result.returncode == 2
    assert result.stderr == f"isch: no picture could be used; the first is {tmp_path}/photos/a.jpg: the file is empty\n"
