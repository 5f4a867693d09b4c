"""The command tree, and what happens to errors: one sentence on stderr, exit code 2, no traceback."""

import os
import sys
import warnings
from typing import Annotated

import typer

from isch import __version__
from isch.cli import bench, describe, index, models
from isch.errors import IschError

INTERRUPTED = 130  # the exit code that typer gives to Ctrl-C

app = typer.Typer(
    name="isch",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"isch {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Compact binary codes for images and feature vectors, and exact search among them."""


for group in (models, describe, index, bench):
    group.attach(app)


def main() -> None:
    """Run the command line."""
    warnings.showwarning = _show_warning
    try:
        app(prog_name="isch")
    except IschError as error:
        _fail(str(error), 2)
    except MemoryError:
        _fail("not enough memory for this", 2)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), 2)
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            sys.stderr.write("isch: interrupted; no output was left half-written, and what can be resumed will be\n")
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)  # an ordinary exit would wait for threads that still work
        raise


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"isch: {message}\n")
    raise SystemExit(code)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    sys.stderr.write(f"isch: warning: {message}\n")
