"""The command tree: which commands there are, in which groups, and how arguments reach them."""

import os
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from isch import __version__
from isch.cli import advise, bench, demo, describe, duplicates, export, index, info, models, photos, search
from isch.cli.console import say
from isch.cli.help import EXIT_CODES, OVERVIEW, Commands
from isch.errors import ParameterError

_UsageError: Any = typer.BadParameter.__bases__[0]  # it has no public name in Typer

app = typer.Typer(
    name="isch",
    cls=Commands,
    help=OVERVIEW,
    epilog=EXIT_CODES,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(asked: bool) -> None:
    if asked:
        say(f"isch {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None: ...


for group in (demo, photos, info, advise, describe, models, search, index, duplicates, export, bench):
    group.attach(app)


def invoke(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name; gives its exit code."""
    if "_ISCH_COMPLETE" in os.environ:
        app(prog_name="isch")  # the shell asks for completions
    if "" in arguments:
        raise ParameterError("an argument is empty; is a variable of the shell not set?")
    command = typer.main.get_command(app)
    try:
        with command.make_context("isch", list(arguments)) as context:
            command.invoke(context)
    except typer.Exit as stop:
        return stop.exit_code
    except _UsageError as error:
        raise ParameterError(_sentence(error)) from error
    return 0


def _sentence(error: Any) -> str:
    """What is wrong with the arguments, and where to read about them."""
    problem = " ".join(error.format_message().split()).removesuffix(".")
    return f"{problem} (see {error.ctx.command_path} --help)" if error.ctx else problem
