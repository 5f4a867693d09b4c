"""Clients that begin and do not go on: they are cut off, and meanwhile others are served."""

import socket
import threading
import time
from collections.abc import Iterator

import httpx2 as httpx
import pytest

from isch.photos.library import Library
from isch.web import connections
from isch.web.app import create
from isch.web.connections import Connection
from isch.web.settings import Settings

from .conftest import running

HALF = b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
WHOLE = b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def hasty(library: Library, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server that waits two seconds for a head and for a reader."""
    monkeypatch.setattr(Connection, "head_seconds", 2.0)
    monkeypatch.setattr(Connection, "read_seconds", 2.0)
    settings = Settings(port=0)
    with running(create(library, settings), settings) as address:
        yield address


def connected(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def ended(connection: socket.socket) -> bool:
    """Wait for the server to hang up."""
    try:
        while connection.recv(1 << 16):
            pass
        return True
    except TimeoutError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize("sent", [b"", b"G", HALF])
def test_a_head_that_does_not_come(hasty: str, sent: bytes) -> None:
    with connected(hasty) as connection:
        connection.sendall(sent)
        assert ended(connection)


def test_a_head_that_trickles(hasty: str) -> None:
    with connected(hasty) as connection:
        connection.sendall(HALF)
        end = time.monotonic() + 30
        with pytest.raises(OSError):  # noqa: PT011  # each system words it in its own way
            while time.monotonic() < end:
                connection.sendall(b"x")
                time.sleep(0.05)


def test_the_head_of_a_second_request(hasty: str) -> None:
    with connected(hasty) as connection:
        connection.sendall(WHOLE)
        assert b" 200 " in connection.recv(1 << 16)
        connection.sendall(HALF)
        assert ended(connection)


def test_a_body_that_nobody_asked_for(hasty: str) -> None:
    with connected(hasty) as connection:
        connection.sendall(WHOLE.replace(b"\r\n\r\n", b"\r\nContent-Length: 1000\r\n\r\n"))
        connection.recv(1 << 16)
        connection.sendall(b"x")
        while connection.recv(1 << 16):
            pass


def test_a_client_that_does_not_read(hasty: str) -> None:
    """It asks for much and reads nothing; the server would otherwise keep what it has to say for ever."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, _, port = hasty.removeprefix("http://").partition(":")
        connection.settimeout(30)
        connection.connect((host, int(port)))
        ask = WHOLE.replace(b"/api/health", b"/openapi.json")
        with pytest.raises(OSError):  # noqa: PT011
            for _ in range(100_000):
                connection.sendall(ask)


def test_hundreds_of_half_requests_keep_nobody_out(served: str) -> None:
    """As many as the server ever takes, and more, from one address; each is served who asks a whole question."""
    crowd = []
    try:
        for _ in range(300):
            connection = connected(served)
            connection.sendall(HALF)
            crowd.append(connection)
        for _ in range(5):
            assert httpx.get(f"{served}/api/health", timeout=30).status_code == 200
    finally:
        for connection in crowd:
            connection.close()


def test_those_who_are_served_are_not_cut_off(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all places are taken by requests under way, the new connection has to go."""
    monkeypatch.setattr(connections, "PER_ADDRESS", 3)
    settings = Settings(port=0, upload_seconds=60)
    head = b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    with running(create(library, settings), settings) as address:
        under_way = [connected(address) for _ in range(3)]
        for connection in under_way:
            connection.sendall(head + b"Content-Length: 7\r\n\r\n--x")
        time.sleep(0.5)
        with connected(address) as late:
            late.sendall(WHOLE)
            assert ended(late)
        for connection in under_way:
            connection.sendall(b"--\r\n")
            assert b" 422 " in connection.recv(4096)
            connection.close()
        assert httpx.get(f"{address}/api/health", timeout=30).status_code == 200


def test_ordinary_clients_keep_their_connection(served: str) -> None:
    answers: list[int] = []

    def browse() -> None:
        with httpx.Client(base_url=served, timeout=60) as client:
            answers.extend(client.get("/api/items?limit=2").status_code for _ in range(20))

    threads = [threading.Thread(target=browse) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 240
