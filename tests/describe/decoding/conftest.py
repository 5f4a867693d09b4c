"""The pictures of the attack serve the tests too."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))


@pytest.fixture(scope="session")
def make() -> ModuleType:
    """The makers of small pictures."""
    from attacks import gallery

    return gallery


@pytest.fixture(scope="session")
def gallery(make: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one file of every format."""
    folder = tmp_path_factory.mktemp("gallery")
    for name, content in make.SAMPLES.items():
        (folder / name).write_bytes(content())
    return folder
