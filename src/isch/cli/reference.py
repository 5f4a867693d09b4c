"""The command line's reference, from its own help: ``python -m isch.cli.reference > docs/cli.md``."""

import sys
from collections.abc import Iterator
from typing import Any

import typer

from isch.cli.app import app


def markdown() -> str:
    """Every command with its help."""
    parts = [f"## {name}\n\n```text\n{text}\n```" for name, text in _helps(typer.main.get_command(app), "isch")]
    return "# Command line\n\nWhat `--help` says of each command.\n\n" + "\n\n".join(parts) + "\n"


def _helps(command: Any, name: str) -> Iterator[tuple[str, str]]:
    context = command.make_context(name, [], resilient_parsing=True, terminal_width=100, max_content_width=100)
    yield name, command.get_help(context).strip()
    for child in sorted(getattr(command, "commands", {})):
        yield from _helps(command.commands[child], f"{name} {child}")


if __name__ == "__main__":
    sys.stdout.write(markdown())
