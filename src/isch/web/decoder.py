"""Uploaded pictures are decoded in a separate process, which is ended if it takes too long or too much memory.

Whatever a crafted file does to a decoder, the server keeps running: the next picture gets a new process. Results come
back as raw bytes, never pickled, so a compromised process has no way into the server.
"""

import os
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO

import numpy as np

from isch.describe.images import Image, decode, resize
from isch.errors import FormatError, IschError

MEMORY_BYTES = 4 << 30  # of the process; enough for the largest picture that is accepted
START_SECONDS = 60.0  # a new process may take so much longer
SIDE = 512  # larger pictures are shrunk before they are handed back
LARGEST = 1 << 28  # bytes of an answer
QUEUE = 8  # pictures that may wait for the process; others are refused, so that threads are left for other requests
_LENGTH = struct.Struct("<Q")
_SHAPE = struct.Struct("<II")  # height and width before the pixels; both 0 before a sentence


class BusyError(IschError):
    """More pictures came at once than may wait."""


class Decoder:
    """One process that decodes, made when it is first needed.

    Parameters
    ----------
    seconds : float
        The longest that one picture may take.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._queue = threading.BoundedSemaphore(QUEUE)
        self._process: subprocess.Popen[bytes] | None = None

    def decode(self, content: bytes) -> Image:
        """The picture as uint8 (height, width, 3), at most ``SIDE`` pixels on its shorter side."""
        if not self._queue.acquire(blocking=False):
            raise BusyError("too many pictures at once; try again in a moment")
        try:
            with self._lock:
                answer = self._ask(content)
        finally:
            self._queue.release()
        height, width = _SHAPE.unpack_from(answer)
        pixels = np.frombuffer(answer, np.uint8, offset=_SHAPE.size)
        if height == 0:
            raise FormatError(pixels.tobytes().decode("utf-8", "replace"))
        return pixels.reshape(height, width, 3)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _ask(self, content: bytes) -> bytes:
        new = self._process is None or self._process.poll() is not None
        process = self._start() if new else self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()

        def give_up() -> None:
            late.set()
            process.kill()

        watch = threading.Timer(self._seconds + (START_SECONDS if new and self._seconds else 0), give_up)
        watch.start()
        try:
            _send(process.stdin, content)
            return _receive(process.stdout)
        except (EOFError, OSError) as error:
            self._end()
            if not new and not late.is_set():  # it may have died before: a new process tells
                return self._ask(content)
            raise FormatError(
                f"the picture: decoding it took longer than {self._seconds:g} s"
                if late.is_set()
                else "the picture: damaged so badly that decoding it failed"
            ) from error
        finally:
            watch.cancel()

    def _start(self) -> "subprocess.Popen[bytes]":
        self._end()
        command = [sys.executable, "-m", "isch.web.decoder"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            with suppress(OSError):
                self._process.communicate()
            self._process = None


def serve(incoming: IO[bytes], outgoing: IO[bytes]) -> None:
    """Decode what comes in until it ends."""
    _limit_memory()
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            _send(outgoing, _answer(_receive(incoming)))


def _answer(content: bytes) -> bytes:
    try:
        image = _shrunk(decode(content, SIDE))
        return _SHAPE.pack(*image.shape[:2]) + image.tobytes()
    except IschError as error:
        return _SHAPE.pack(0, 0) + str(error).encode()
    except MemoryError:
        return _SHAPE.pack(0, 0) + b"the picture: too large for the memory it may take"


def _send(file: IO[bytes], content: bytes) -> None:
    file.write(_LENGTH.pack(len(content)) + content)
    file.flush()


def _receive(file: IO[bytes]) -> bytes:
    head = file.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    content = file.read(min(length, LARGEST))
    if len(content) < length:
        raise EOFError
    return content


def _shrunk(image: Image) -> Image:
    factor = SIDE / min(image.shape[:2])
    if factor >= 1:
        return image
    return resize(image, max(1, round(image.shape[0] * factor)), max(1, round(image.shape[1] * factor)))


def _limit_memory() -> None:
    """Where the system knows limits for a process."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _own_output() -> IO[bytes]:
    """Where answers go; whatever a library prints goes to stderr instead."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    serve(sys.stdin.buffer, _own_output())
