"""Sections of docs/benchmarks.md: each benchmark rewrites its own."""

import re
from importlib.metadata import version
from pathlib import Path

from isch import compute
from isch.evaluate.costs import processor
from isch.evaluate.markdown import table as text_table

DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def section(name: str, markdown: str, document: Path = DOCUMENT) -> None:
    """Replace what stands between ``<!-- name -->`` and ``<!-- /name -->`` in a document, or append it."""
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    text = document.read_text() if document.exists() else "# Benchmarks\n"
    body = f"{start}\n{markdown.strip()}\n{end}"
    if start in text:
        text = re.sub(re.escape(start) + ".*?" + re.escape(end), lambda _: body, text, flags=re.DOTALL)
    else:
        text = f"{text.rstrip()}\n\n{body}\n"
    document.write_text(text)


def kept(name: str, document: Path, measured: set[str]) -> list[list[object]]:
    """The rows of a section's table whose first cell is not among the data sets just measured."""
    body = re.search(f"<!-- {re.escape(name)} -->(.*?)<!-- /{re.escape(name)} -->", document.read_text(), re.DOTALL)
    lines = [line for line in (body[1] if body else "").splitlines() if line.startswith("| ")]
    rows: list[list[object]] = [list(line.strip("| ").split(" | ")) for line in lines[2:]]
    return [row for row in rows if row[0] not in measured]


def table(header: list[str], rows: list[list[object]]) -> str:
    """A Markdown table; floats with three significant digits."""
    return text_table(header, [[_cell(value) for value in row] for row in rows])


def machine(*packages: str) -> str:
    """A sentence that names the machine and the versions measured."""
    versions = ", ".join(f"{p} {version(p)}" for p in ("numpy", "numba", *packages))
    return f"Measured on {processor()}, {compute.n_threads()} cores; {versions}."


def _cell(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
