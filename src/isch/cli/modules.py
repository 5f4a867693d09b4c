"""The page of modules, from their docstrings: ``python -m isch.cli.modules > docs/modules.md``."""

import ast
import sys
from pathlib import Path

import isch
from isch.evaluate.markdown import table

INTRODUCTION = """# Modules

Every file with the first sentence of its docstring; packages come in the order of the layers, the lowest first. Made by
`python -m isch.cli.modules > docs/modules.md`. [Architecture](architecture.md) follows a fit, a query and an experiment
through the files.
"""
ORDER = (  # packages, the lowest first; "" is the modules that are in no package
    *("", "features", "compute", "hashing", "describe", "describe/decoding", "search", "search/items"),
    *(
        "evaluate",
        "evaluate/datasets",
        "photos",
        "photos/samples",
        "connect",
        "connect/files",
        "connect/foreign",
        "web",
        "cli",
    ),
)


def markdown() -> str:
    """Every file in a table per package."""
    root = Path(isch.__file__).parent
    found: dict[str, list[Path]] = {package: [] for package in ORDER}
    for path in sorted(root.rglob("*.py")):
        found.setdefault(path.parent.relative_to(root).as_posix().removeprefix("."), []).append(path)
    return "\n".join([INTRODUCTION, *(_section(package, paths) for package, paths in found.items() if paths)])


def _section(package: str, paths: list[Path]) -> str:
    rows = [[f"`{path.name}`", _summary(path)] for path in paths]
    return f"## `{'/'.join(filter(None, ('isch', package)))}`\n\n{table(['file', 'what it is'], rows)}\n"


def _summary(path: Path) -> str:
    """The first paragraph of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


if __name__ == "__main__":
    sys.stdout.write(markdown())
