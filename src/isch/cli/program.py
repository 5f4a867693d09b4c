"""One command from its arguments to its exit code: every error becomes one sentence.

0    done
1    a mistake in isch itself; the message says how to report it
2    input, files or options that cannot be used; the message says what was expected
130  stopped by Ctrl-C; 129 and 143: by the signals HUP and TERM
141  whoever read the output stopped reading, as ``head`` does
"""

import errno
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress

from isch.cli import console
from isch.cli.signals import EXIT_CODE, stop

BUG, BAD_INPUT, CLOSED_PIPE = 1, 2, 141
DEBUG = "ISCH_DEBUG"  # in the environment: every error comes with its traceback
OFF = ("", "0", "false", "no", "off")


def run(arguments: Sequence[str]) -> int:
    """Run one command in this process; gives its exit code."""
    try:
        stop.working = True
        _spell_out_strange_characters()
        from isch.cli.app import invoke

        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            warnings.filterwarnings("ignore", module=r"(PIL|pillow_heif|rawpy)\b")  # of odd pictures
            code = invoke(arguments)
        stop.too_late()
        _flush()
    except BaseException as error:  # all that reaches this point ends here, as a sentence
        stop.too_late()
        if isinstance(error, KeyboardInterrupt) and not stop.watching:
            raise  # not ours: whoever called this function is interrupted
        return _reported(error)
    return code


def finish(code: int) -> None:
    """Leave the program."""
    if code > EXIT_CODE:
        with suppress(OSError, ValueError):
            _flush()
        os._exit(code)  # an ordinary exit would wait for threads that still work
    raise SystemExit(code)


def _spell_out_strange_characters() -> None:
    """Make printing safe: a character that the terminal cannot show is printed as its number."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _reported(error: BaseException) -> int:
    """Say what happened; gives the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 0
    if _closed(error):
        _discard_output()
        return CLOSED_PIPE
    code, message = _explained(error)
    with suppress(OSError, ValueError):  # nobody is left to tell
        console.complain(message)
    if os.environ.get(DEBUG, "").lower() not in OFF and code <= BAD_INPUT:
        import traceback

        traceback.print_exception(error)
    return code


def _explained(error: BaseException) -> tuple[int, str]:
    """(exit code, sentence)."""
    from isch.errors import IschError

    if stop.signal:  # also whatever a library made of the interrupt
        return stop.exit_code, stop.message
    if isinstance(error, IschError):
        return BAD_INPUT, str(error)
    if isinstance(error, MemoryError):
        return BAD_INPUT, f"not enough memory for this{f' ({error})' if str(error) else ''}"
    if isinstance(error, OSError):
        return BAD_INPUT, f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return BUG, (
        f"this is a mistake in isch, not yours: {type(error).__name__}: {error}; please report it with what the same "
        f"command prints when {DEBUG}=1 is set"
    )


def _closed(error: BaseException) -> bool:
    """Whether the reader of our output is gone; Windows reports it in its own way."""
    return isinstance(error, BrokenPipeError) or (
        os.name == "nt" and isinstance(error, OSError) and error.errno == errno.EINVAL and not error.filename
    )


def _discard_output() -> None:
    """Discard buffered output, so that leaving the program does not fail on it."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    console.complain(f"warning: {message}")
