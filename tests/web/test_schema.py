"""Requests made from the OpenAPI description: whatever is sent, no answer is a server error."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = shutil.which("schemathesis", path=str(Path(sys.executable).parent)) or shutil.which("schemathesis")


@pytest.mark.skipif(TOOL is None, reason="schemathesis is not installed")
def test_no_request_breaks_the_server(served: str, tmp_path: Path) -> None:
    assert TOOL is not None
    options = ["--checks", "not_a_server_error", "--phases", "examples,coverage,fuzzing", "--max-examples", "12"]
    command = [TOOL, "run", f"{served}/openapi.json", *options, "--seed", "1", "--no-color"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
