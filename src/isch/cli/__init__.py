"""The ``isch`` command: parse, call, print. Heavy imports happen inside the commands."""

from isch.cli.main import main

__all__ = ["main"]
