"""Text and tables in Markdown."""

import re
from collections.abc import Iterable, Sequence


def plain(text: str) -> str:
    """Text that is shown as it is: a stranger's title is no link, no HTML and no heading."""
    return re.sub(r"([\\`*\[\]<>|#])", r"\\\1", text)


def table(header: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of text; a bar inside a cell is escaped unless it is already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)[|]", r"\\|", text)
