"""What only a remote database can do to us: not answer, refuse our key, hang up."""

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from isch.errors import FileError

pytest.importorskip("lancedb", reason="the package lancedb is not installed")

from isch.connect import lancedb as module
from isch.connect import remote
from isch.connect.lancedb import LanceDB

SECRET = "open-sesame"


class Handler(BaseHTTPRequestHandler):
    """Answers the first requests with what it was told, and hangs up on the others."""

    answers: list[tuple[int, bytes]]
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if not self.answers:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, body = self.answers.pop(0)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    made = type("Made", (Handler,), {"answers": [], "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), made)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("LANCEDB_API_KEY", SECRET)
    monkeypatch.setenv("LANCEDB_HOST", f"http://127.0.0.1:{server.server_port}")
    yield made
    server.shutdown()
    server.server_close()


def refused(hasher: Any) -> str:
    start = time.monotonic()
    with pytest.raises(FileError) as caught:
        LanceDB("db://mine", "photos", hasher, create=True)
    assert time.monotonic() - start < 12
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_database_that_does_not_answer(world: Any, handler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.CONNECT_SECONDS == 10
    monkeypatch.setattr(module, "CONNECT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("LANCEDB_HOST", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert "LanceDB cannot be reached at db://mine" in refused(world.hasher)
    monkeypatch.setenv("LANCEDB_HOST", "http://127.0.0.1:1")
    assert "LanceDB cannot be reached at db://mine" in refused(world.hasher)


def test_a_key_that_is_refused(world: Any, handler: Any) -> None:
    handler.answers.append((401, b"no such key: " + SECRET.encode()))
    assert "401" in refused(world.hasher)


def test_a_key_of_one_letter_leaves_messages_as_they_are(
    world: Any, handler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCEDB_API_KEY", "e")
    handler.answers.append((403, b"forbidden"))
    assert "status 403" in refused(world.hasher)
    monkeypatch.setattr(module, "CONNECT_SECONDS", 2)
    monkeypatch.setenv("LANCEDB_HOST", "http://127.0.0.1:1")
    assert "Hit retry limit" in refused(world.hasher)


def test_addresses_are_shown_without_their_passwords() -> None:
    shown = {
        "http://me:p@ss@host:1/x": "http://me:***@host:1/x",
        "http://me:a/b?c#d@host": "http://me:***@host",
        "htp//me:e@x": "htp//me:***@x",
        "me:e@x": "me:***@x",
        "http://me@host/x": "http://me@host/x",
        "/data/a:b@c/lance": "/data/a:b@c/lance",
        "db://mine": "db://mine",
    }
    assert {address: remote.masked(address) for address in shown} == shown


def test_a_lost_connection_is_tried_again(world: Any, handler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request asks who is there; it is answered, and the next one is made four times."""
    monkeypatch.setattr(remote, "FIRST_WAIT", 0.01)
    handler.answers.append((200, b'{"tables": []}'))
    assert "table 'photos' of db://mine" in refused(world.hasher)
    assert len(handler.asked) == 1 + remote.TRIES
