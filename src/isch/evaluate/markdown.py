"""Text and tables in Markdown."""

import re
from collections.abc import Iterable, Sequence


def plain(text: str) -> str:
    """Escape text so that it is shown as it is: an untrusted title cannot become a link, HTML or a heading."""
    return re.sub(r"([\\`*\[\]<>|#])", r"\\\1", text)


def table(header: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of text; a bar inside a cell is escaped unless it is already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)[|]", r"\\|", text)
