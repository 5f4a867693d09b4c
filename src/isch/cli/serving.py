"""What commands that open a page in the browser share: their options, and how they serve it."""

import inspect
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Annotated, Any, Self

import typer

from isch.cli.console import done, say

Port = Annotated[int, typer.Option(help="The port to listen on; 0 takes any free one.", envvar="ISCH_PORT")]
Host = Annotated[str, typer.Option(help="The address to listen on; any but loopback needs --token.")]
Token = Annotated[
    str | None,
    typer.Option(
        help="What a browser must know to use the page; auto makes one and prints it in the address.",
        envvar="ISCH_TOKEN",
    ),
]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Print the address only.")]


def options(port: Port = 8765, host: Host = "127.0.0.1", token: Token = None, no_browser: NoBrowser = False) -> None:
    """The options of a server; only their names, defaults and helps count."""


class Door:
    """Where the page is served, checked before the work and not after it."""

    def __init__(self, port: int, host: str, token: str | None, no_browser: bool) -> None:
        from isch.errors import require
        from isch.web.server import has_display, listen
        from isch.web.settings import AUTO, Settings, new_token

        require("fastapi", "photos")
        self.settings: Settings = Settings(host=host, port=port, token=new_token() if token == AUTO else token)
        self.opens_browser: bool = not no_browser and has_display()
        self._listener, self._address = listen(self.settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._listener.close()

    def open(self, app: Any) -> None:
        """Serve an app until it is interrupted."""
        from isch.web.server import serve

        serve(app, self._listener, self._address, _announce, self.opens_browser)
        done("the server has stopped")


def _announce(address: str) -> None:
    say(f"the search page is at {address} (Ctrl-C stops it)")


def with_door(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a server; it gets them as its first argument, a ``Door``."""
    own, added = inspect.signature(command, eval_str=True), inspect.signature(options)
    parameters = [*list(own.parameters.values())[1:], *added.parameters.values()]

    @wraps(command)
    def run(**given: Any) -> None:
        with Door(*(given.pop(name) for name in added.parameters)) as door:
            command(door, **given)

    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
