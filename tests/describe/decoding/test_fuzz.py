"""Damaged files of every format, read in a child process: a picture or an error of ours, never anything else."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROUNDS = 12


@pytest.mark.timeout(280)
def test_damage_is_survived(gallery: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(gallery, folder)
    script = Path(__file__).with_name("fuzz.py")
    command = [sys.executable, str(script), str(folder), str(ROUNDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=270)
    assert done.returncode == 0, done.stderr[-3000:]
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts["tried"] == ROUNDS * len(list(gallery.iterdir())) == counts["read"] + counts["refused"]
    assert min(counts["read"], counts["refused"]) > counts["tried"] // 10
