"""The ``isch`` command: parse, call, print.

This module imports almost nothing, so that Ctrl-C is handled from the start. Heavy imports happen inside the commands.
"""

import sys

from isch.cli.signals import stop

__all__ = ["main"]


def main() -> None:
    """Run the command line as a program."""
    stop.watch()
    try:
        from isch.cli.program import finish, run

        finish(run(sys.argv[1:]))
    except KeyboardInterrupt:  # between the lines above
        stop.leave()
