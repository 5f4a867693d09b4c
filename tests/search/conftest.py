import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import isch.scan.kernels.selection  # noqa: F401 (so that small searches here use the kernels too; test_plain.py tests NumPy)


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """A folder that other users may read; those that pytest makes are for us alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
