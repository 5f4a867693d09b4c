"""Every command and code block of the documentation runs, in order, as a reader would run them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from isch.cli.app import app
from isch.cli.program import run

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INSTALLS = ("pip install",)  # what the continuous integration does before it comes here


def blocks(document: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(document.read_text())


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the documentation speaks of."""
    from PIL import Image

    rng = np.random.default_rng(0)
    X = (rng.standard_normal((1000, 40)) @ rng.standard_normal((40, 300)) + rng.standard_normal((1000, 300))).astype(
        "f4"
    )
    np.save(tmp_path / "features.npy", X)
    np.save(tmp_path / "query.npy", X[:3])
    np.save(tmp_path / "labels.npy", rng.integers(0, 5, 1000))
    (tmp_path / "names.txt").write_text("\n".join(f"item {i}" for i in range(1000)))
    for number in range(140):
        folder = tmp_path / "photos" / f"album {number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (40, 60, 3), np.uint8)).save(folder / f"{number}.jpg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ISCH_DATA", str(tmp_path / "datasets"))
    return tmp_path


def run_command(line: str) -> None:
    assert run(shlex.split(line, comments=True)[1:]) == 0, line


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if blocks(d)], ids=lambda d: d.name)
@pytest.mark.filterwarnings("default::isch.errors.IschWarning")
def test_blocks_run(document: Path, desk: Path) -> None:
    namespace: dict[str, Any] = {}
    for language, text in blocks(document):
        if language == "python":
            exec(compile(text, str(document), "exec"), namespace)
            continue
        for line in text.replace("\\\n", " ").splitlines():
            if line.strip() and not line.startswith(("#", *INSTALLS)):
                assert line.startswith("isch "), f"{document.name}: what to do with {line!r}?"
                run_command(line)


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    for child in getattr(command, "commands", {}).values():
        yield from commands(child, f"{name} {child.name}")


@pytest.mark.parametrize(("name", "command"), list(commands(typer.main.get_command(app), "isch")))
def test_every_command_has_help_and_documentation(name: str, command: Any) -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    assert command.help
    assert f"\n## {name}\n" in text
    section = text.split(f"\n## {name}\n")[1].split("\n## ")[0]
    for parameter in command.params:
        if parameter.name != "help":
            assert parameter.help, f"{name}: {parameter.name} has no help"
            assert all(option in section for option in parameter.opts), (
                f"{name}: {parameter.name} is not in docs/cli.md"
            )


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), target
