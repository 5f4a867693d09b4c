"""Connections that cannot be held for nothing: what a client may take its time for, and how many it may have.

uvicorn waits for the head of a request without end, and so for as long as 256 clients like that nobody else is served.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0  # for the head of a request, from the connection or the answer before it on
READ_SECONDS = 60.0  # that a client may go without reading what waits for it
CONNECTIONS = 256  # at once
PER_ADDRESS = 128  # of these, from one address


class Connection(H11Protocol):
    """A connection that ends if no request comes. Where there are too many, it makes room by ending one that waits."""

    head_seconds = HEAD_SECONDS
    read_seconds = READ_SECONDS

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head: asyncio.TimerHandle | None = None
        self._read: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> bool:
        """Whether it is the client's turn: the head of the next request is not complete."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def connection_made(self, transport: Any) -> None:
        """Take a new connection, if need be in the place of the one that has waited longest."""
        super().connection_made(transport)
        own = [one for one in self.connections if isinstance(one, Connection) and one._address == self._address]
        for crowd, most in ((own, PER_ADDRESS), (list(self.connections), CONNECTIONS)):
            if len(crowd) > most:
                self._make_room(crowd)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadlines."""
        self._cancel()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; a head that is not complete keeps its deadline."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Give the client some time to read."""
        super().pause_writing()
        self._read = self._read or self.loop.call_later(self.read_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        if self._read is not None:
            self._read.cancel()
            self._read = None

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def _watch(self) -> None:
        """Let the deadline of the head run while it is the client's turn."""
        if not self.waiting or self.transport.is_closing():
            self._cancel()
        elif self._head is None:
            self._head = self.loop.call_later(self.head_seconds, self.transport.abort)

    def _cancel(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _make_room(self, crowd: list[Any]) -> None:
        """End the connection that has waited longest for a head; the new one if none waits."""
        patient = [one for one in crowd if one is not self and one._head is not None and not one.transport.is_closing()]
        longest = min(patient, key=lambda one: one._head.when(), default=self)
        self.connections.discard(longest)  # its end is told to it later, and others may come until then
        longest.transport.abort()
