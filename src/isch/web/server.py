"""Running the app: listen, print the address, open the browser, stop cleanly."""

import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from isch.errors import FileError, require
from isch.web.settings import Settings

BACKLOG = 256  # connections that wait to be accepted
STOP_SECONDS = 5
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")  # in the environment: there is something to show a page with


def serve(app: Any, listener: socket.socket, address: str, ready: Callable[[str], None], browser: bool) -> None:
    """Serve until interrupted, and return; ``ready`` is told the address."""
    server = prepared(app)
    ready(address)
    if browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    with suppress(KeyboardInterrupt):  # how the user ends it
        server.run(sockets=[listener])


def prepared(app: Any) -> Any:
    """The uvicorn server of an app."""
    uvicorn = require("uvicorn", "photos")
    from isch.web.connections import Connection

    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    return uvicorn.Server(config)


def has_display() -> bool:
    """Whether a browser could show itself; without a display some systems start one that takes over the terminal."""
    return sys.platform in ("win32", "darwin") or any(map(os.environ.get, DISPLAYS))


def listen(settings: Settings) -> tuple[socket.socket, str]:
    """A socket on which browsers wait until it is served, and the page's address."""
    listener = _bound(settings)
    port = listener.getsockname()[1]
    return listener, settings.address.replace(f":{settings.port}/", f":{port}/", 1)


def _bound(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise FileError(f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; try --port 0") from error
    return listener
