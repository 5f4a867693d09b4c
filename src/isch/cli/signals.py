"""What the program does when it is asked to stop: Ctrl-C, ``kill``, a terminal that is closed.

During work the signal becomes a ``KeyboardInterrupt`` in the main thread, so that every ``with`` and ``finally`` on the
way out cleans up. Before work begins there is nothing to clean up, and the program leaves at once. A library that is
interrupted while it is imported can crash or hide the interrupt: if work needs it, the interrupt waits for the end of
the import unless the user insists. An interrupt that Python had to drop comes back. After the last words of a command
it is too late: success stays success.
"""

import _thread
import os
import signal
import sys
import time
from types import FrameType

NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")  # not every system has them all
EXIT_CODE = 128  # plus the number of the signal
AGAIN_SECONDS = 0.01
_IMPORTS = "<frozen importlib._bootstrap>"  # where the code of the import system says it is


class Stop:
    """Whether, and by which signal, this process was asked to stop."""

    def __init__(self) -> None:
        self.signal = 0  # the number of the signal; 0: not asked
        self.working = False  # whether a KeyboardInterrupt would be caught
        self._caught: list[int] = []
        self._main_thread = 0
        self._reminded = False

    @property
    def watching(self) -> bool:
        """Whether signals are caught."""
        return bool(self._caught)

    @property
    def exit_code(self) -> int:
        """What the program ends with when it was asked to stop."""
        return EXIT_CODE + self.signal

    @property
    def message(self) -> str:
        """What the program says when it was asked to stop."""
        how = "interrupted" if self.signal == signal.SIGINT else "stopped"
        return f"{how}; no file was left half-written, and the same command resumes what can be resumed"

    def watch(self) -> None:
        """Catch the signals from now on; one that the parent process ignores stays ignored."""
        self._main_thread = _thread.get_ident()
        sys.unraisablehook = self._dropped
        for name in NAMES:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._arrived)
                self._caught.append(number)

    def too_late(self) -> None:
        """Ignore the signals from now on: what was asked for is done."""
        for number in self._caught:
            signal.signal(number, signal.SIG_IGN)

    def leave(self) -> None:
        """End the process now. It writes past Python's buffers, which the interrupt may have caught half-way."""
        os.write(2, f"isch: {self.message}\n".encode())
        os._exit(self.exit_code)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        reminded, self._reminded = self._reminded, False
        insists = bool(self.signal) and not reminded
        self.signal = number
        importers = _importers(frame)
        if not self.working or (importers and not any(map(_works, importers))):
            self.leave()
        if importers and not insists:
            self._remind_soon()
        else:
            raise KeyboardInterrupt

    def _dropped(self, unraisable: "sys.UnraisableHookArgs") -> None:
        """An exception in a callback or finaliser, which Python cannot pass on."""
        if self.signal and isinstance(unraisable.exc_value, KeyboardInterrupt):
            self._remind_soon()
        else:
            sys.__unraisablehook__(unraisable)

    def _remind_soon(self) -> None:
        _thread.start_new_thread(self._remind, ())

    def _remind(self) -> None:
        """Send the signal again. A real signal also ends the main thread's wait for a lock."""
        time.sleep(AGAIN_SECONDS)
        self._reminded = True
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(self._main_thread, self.signal)
        else:
            _thread.interrupt_main(signal.Signals(self.signal))


def _importers(frame: FrameType | None) -> list[FrameType]:
    """The frames from the one that began an import to the outermost; none if nothing is being imported."""
    outer: list[FrameType] = []
    importing = False
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTS:
            importing = True
            outer.clear()
        else:
            outer.append(frame)
        frame = frame.f_back
    return outer if importing else []


def _works(frame: FrameType) -> bool:
    """Whether a frame is of the library, which may hold files that want closing; commands import before they work."""
    module = frame.f_globals.get("__name__", "")
    return module.startswith("isch.") and not module.startswith("isch.cli")


stop = Stop()
