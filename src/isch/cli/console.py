"""What the commands print. Whatever a name or a key contains, it stays on one line and cannot control the terminal."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from isch.cli.signals import stop

# Controls except the tab, line separators, marks that turn the direction of text, and halves of surrogate pairs.
_UNSAFE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT = {"\n": r"\n", "\r": r"\r", "\b": r"\b", "\f": r"\f"}


def safe(text: object) -> str:
    """The text with control characters escaped as JSON escapes them; spaces and letters of all scripts stay."""
    return _UNSAFE.sub(lambda match: _SHORT.get(match[0]) or f"\\u{ord(match[0]):04x}", str(text))


def say(line: object = "") -> None:
    """Print one line, to be seen at once."""
    _write(line)
    if sys.stdout is not None:
        sys.stdout.flush()


def done(lines: str | Iterable[str]) -> None:
    """Print the last lines of a command. After the last one, Ctrl-C comes too late: the command has succeeded."""
    waiting = iter([lines] if isinstance(lines, str) else lines)
    line = next(waiting, None)
    for following in waiting:
        _write(line)
        line = following
    stop.too_late()
    if line is not None:
        _write(line)


def complain(message: object, mark: str = "isch: ") -> None:
    """Print one line on stderr."""
    if sys.stderr is not None:
        sys.stderr.write(f"{mark}{safe(message)}\n")


def table(rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """A line per row: cells with tabs between them, and none inside."""
    for cells in rows:
        yield "\t".join(safe(cell).replace("\t", r"\t") for cell in cells)


def facts(values: Mapping[str, object]) -> Iterator[str]:
    """A line per fact: name and value, the names aligned."""
    width = max(map(len, values), default=0)
    for name, value in values.items():
        yield f"{name:>{width}}  {'–' if value is None else value}"


def json_lines(value: Any) -> Iterator[str]:
    """JSON over several lines."""
    from json import dumps

    yield from dumps(value, indent=2, ensure_ascii=False).split("\n")


def _write(line: object) -> None:
    if sys.stdout is not None:  # a program without a terminal, on Windows, has none
        sys.stdout.write(f"{safe(line)}\n")
