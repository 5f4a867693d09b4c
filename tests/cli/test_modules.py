"""The page of modules names every file once."""

from pathlib import Path

import isch
from isch.cli.modules import ORDER, markdown


def test_every_file_is_named_once_and_says_what_it_is() -> None:
    lines = [line for line in markdown().splitlines() if line.startswith("| `")]
    files = list(Path(isch.__file__).parent.rglob("*.py"))
    assert len(lines) == len(files)
    assert not [line for line in lines if line.endswith("|  |")]


def test_packages_come_in_the_order_of_layers() -> None:
    headings = [line.removeprefix("## `isch").strip("/`") for line in markdown().splitlines() if line.startswith("## ")]
    assert headings == list(ORDER)
