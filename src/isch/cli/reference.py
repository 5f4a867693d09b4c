"""The command line's reference, from its own help: ``python -m isch.cli.reference > docs/cli.md``."""

import sys
from collections.abc import Iterator
from typing import Any

import typer

from isch.cli.app import app

INTRODUCTION = """# Command line

What `--help` says of each command; `isch --install-completion` teaches the shell to complete them.

A command never writes over a file it reads, and replaces other files only with `--force`. A problem is one line on
stderr. Ctrl-C stops a command at any moment and leaves no file half-written. In tables, control characters in keys and
names are escaped (`\\t`, `\\n`, `\\u001b`); `--json` has them exactly.

| variable | meaning |
| --- | --- |
| `ISCH_DEBUG=1` | errors come with their tracebacks; `0`, `false`, `no` and `off` mean off |
| `ISCH_NUM_THREADS` | threads to use; default: all cores |
| `ISCH_DATA` | the folder of data sets |
| `ISCH_CACHE` | the folder of computed features and unfinished runs |
"""


def markdown() -> str:
    """Every command with its help."""
    parts = [f"## {name}\n\n```text\n{text}\n```" for name, text in _helps(typer.main.get_command(app), "isch")]
    return "\n\n".join([INTRODUCTION.rstrip(), *parts]) + "\n"


def _helps(command: Any, name: str) -> Iterator[tuple[str, str]]:
    context = command.make_context(name, [], resilient_parsing=True, terminal_width=100, max_content_width=100)
    yield name, command.get_help(context).strip()
    for child in sorted(getattr(command, "commands", {})):
        yield from _helps(command.commands[child], f"{name} {child}")


if __name__ == "__main__":
    sys.stdout.write(markdown())
