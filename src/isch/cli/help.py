"""What ``--help`` shows: the commonest jobs first, then the commands under headings, then the exit codes."""

from typing import Any

from typer.core import TyperGroup

START, PICTURES, CODES, SEARCH, EXPERIMENTS = (  # the headings of the commands
    "Get started",
    "Pictures",
    "Codes",
    "Search",
    "Experiments",
)

OVERVIEW = """Compact binary codes for pictures and feature vectors, and exact search among them.

\b
Search pictures in the browser, and find duplicates; first ours, then your own:
  isch demo
  isch photos ~/Pictures

\b
Turn vectors of your own into short codes:
  isch fit features.npy --bits 256 -o model.safetensors
  isch encode model.safetensors features.npy -o codes.npy

\b
Compare methods as the paper does:
  isch bench run mnist
  isch bench plot mnist
"""

EXIT_CODES = """\b
Exit codes:
  0    done
  1    a mistake in isch itself; ISCH_DEBUG=1 shows where
  2    input, files or options that cannot be used
  130  stopped by Ctrl-C (129, 143: by another signal)
  141  the reader of the output stopped reading
"""


class Commands(TyperGroup):
    """A group of commands whose help lists them under headings, and that shows its help when nothing is asked."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return list(super().parse_args(ctx, args or ["--help"]))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        headings: dict[str, list[tuple[str, Any]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            heading = getattr(command, "rich_help_panel", None)
            headings.setdefault(heading if isinstance(heading, str) else "Commands", []).append((name, command))
        width = formatter.width - 6 - max(len(name) for name in self.list_commands(ctx))
        for heading, commands in headings.items():
            with formatter.section(heading):
                formatter.write_dl([(name, command.get_short_help_str(width)) for name, command in commands])
