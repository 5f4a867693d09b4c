"""Who may come in, and what a hostile client can do: nothing."""

import io
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import httpx2 as httpx
import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from isch.errors import ParameterError
from isch.photos.library import Library
from isch.web.app import create
from isch.web.settings import Settings

from .conftest import STRANGE, drawing, encoded

TOKEN = "a long enough token"


def test_other_addresses_need_a_token() -> None:
    with pytest.raises(ParameterError, match="lets others on the network in"):
        Settings(host="0.0.0.0")
    with pytest.raises(ParameterError, match="at least 16 characters"):
        Settings(host="0.0.0.0", token="short")
    Settings(host="0.0.0.0", token=TOKEN)
    for host in ("127.0.0.1", "127.0.0.2", "::1", "localhost"):
        Settings(host=host)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "", "localhost.evil", "[::2]"]
)
def test_rebound_names_are_not_answered(client: TestClient, host: str) -> None:
    response = client.get("/api/items", headers={"host": host})
    assert response.status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8765", "localhost:8765", "[::1]:8765", "LOCALHOST"])
def test_names_of_this_machine_are(client: TestClient, host: str) -> None:
    assert client.get("/api/health", headers={"host": host}).status_code == 200


def test_a_token_may_have_any_characters(library: Library) -> None:
    settings = Settings(token="with & # % + ünd / spaces")
    with TestClient(create(library, settings), base_url="http://127.0.0.1:8765") as client:
        assert client.get("/api/items").status_code == 401
        assert client.get(settings.address).status_code == 200
        assert client.get("/api/items").status_code == 200


def test_a_token_is_asked_for(library: Library) -> None:
    app = create(library, Settings(token=TOKEN))
    with TestClient(app, base_url="http://127.0.0.1:8765") as client:
        for request in ({}, {"headers": {"authorization": "Bearer wrong"}}, {"params": {"token": TOKEN[:-1]}}):
            assert client.get("/api/items", **request).status_code == 401  # type: ignore[arg-type]
        assert client.get("/static/main.js").status_code == 401
        assert client.get("/api/items", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        entered = client.get("/", params={"token": TOKEN})
        assert "HttpOnly" in entered.headers["set-cookie"]
        assert client.get("/api/items").status_code == 200


def test_changes_need_the_token_of_the_page(client: TestClient, settings: Settings) -> None:
    body = {"verdict": "keep both", "items": [1, 2]}
    for headers in ({}, {"x-page-token": "wrong"}, {"x-page-token": ""}):
        for path in ("/api/decisions", "/api/trash"):
            assert client.post(path, json=body, headers=headers).status_code in (403, 422)
    cross = {"x-page-token": settings.page_token, "origin": "http://evil.example"}
    assert client.post("/api/decisions", json=body, headers=cross).status_code == 403
    assert (
        client.post("/api/search", files={"picture": b"x"}, headers={"origin": "http://evil.example"}).status_code
        == 403
    )
    page = client.get("/")
    assert settings.page_token in page.text
    assert page.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", "http://", "//[", "http://127.0.0.1:x]"])
def test_an_origin_that_is_no_address_is_of_another_site(client: TestClient, origin: str) -> None:
    answer = client.post("/api/search", files={"picture": JPEG}, headers={"origin": origin})
    assert (answer.status_code, answer.json()["detail"]) == (403, "requests from other sites are not served")


BODIES = {
    "NaN": b'{"verdict": "keep both", "items": [1, NaN]}',
    "infinity": b'{"verdict": "keep both", "items": [1, -Infinity]}',
    "overflow": b'{"verdict": "keep both", "items": [1, 1e999]}',
    "many digits": b'{"verdict": "keep both", "items": [1, ' + b"9" * 10_000 + b"]}",
    "half a pair": rb'{"verdict": "\ud800", "items": [1, 2]}',
    "half a pair as a key": rb'{"\udfff": 1}',
    "not UTF-8": b'{"verdict": "\xff\xfe"}',
    "UTF-16": '{"verdict": 1}'.encode("utf-16"),
    "deep": b"[" * 100_000,
    "cut off": b'{"verdict": ',
    "nothing": b"",
    "a number": b"1",
    "null": b"null",
    "a NUL": b'{"verdict": "\0"}',
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies_that_are_not_json_are_refused_in_a_sentence(client: TestClient, settings: Settings, name: str) -> None:
    headers = {"x-page-token": settings.page_token, "content-type": "application/json"}
    for path in ("/api/decisions", "/api/trash"):
        answer = client.post(path, content=BODIES[name], headers=headers)
        assert answer.status_code in (400, 422), answer.text
        assert len(answer.json()["detail"]) < 300
        assert "\n" not in answer.json()["detail"]


def test_a_body_with_very_many_mistakes_is_answered_in_a_sentence(client: TestClient, settings: Settings) -> None:
    headers = {"x-page-token": settings.page_token}
    wrong = {"give_up": ["a"] * 1000, "keep": ["a"] * 1000}
    for path, body in (
        ("/api/decisions", {"verdict": "keep both", "items": ["a"] * 400_000}),
        ("/api/trash", {"removals": [wrong] * 400, "confirmed": "a"}),
    ):
        answer = client.post(path, json=body, headers=headers)
        assert answer.status_code == 422
        assert len(answer.content) < 300
    assert client.post("/api/decisions", content=bytes(5 << 20), headers=headers).status_code == 413


def test_every_answer_carries_the_headers(client: TestClient) -> None:
    for path in ("/", "/api/items", "/api/items/1/thumbnail", "/static/main.js", "/nowhere", "/api/items/x"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_no_path_of_a_request_touches_the_disk(client: TestClient) -> None:
    for path in (
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/api/items/..%2f..%2fetc%2fpasswd/thumbnail",
        "/static//etc/passwd",
    ):
        response = client.get(path)
        assert response.status_code in (404, 422)
        assert "root:" not in response.text
        assert "import" not in response.text


def bomb(width: int, height: int) -> bytes:
    """A PNG that claims to be huge and is tiny."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    body = zlib.compress(bytes(1 << 20), 9)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", body)
        + chunk(b"IEND", b"")
    )


JPEG = encoded(drawing(1))
HOSTILE = {
    "nothing": b"",
    "one byte": b"\xff",
    "text": b"hello",
    "bomb": bomb(60_000, 60_000),
    "long bomb": bomb(2_000_000_000, 1),
    "half a jpeg": JPEG[: len(JPEG) // 2],
    "head of a jpeg": JPEG[:20],
    "head of a png": b"\x89PNG\r\n\x1a\n",
    "eps named jpg": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n{} loop\n",
    "svg with script": b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
    "html": b"<html><script>alert(1)</script></html>",
    "pdf": b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\n",
    "zip": b"PK\x03\x04" + bytes(100),
    "wmf": b"\xd7\xcd\xc6\x9a" + bytes(200),
    "gif bomb": b"GIF89a\xff\xff\xff\xff\x80\0\0" + bytes(6) + b",\0\0\0\0\xff\xff\xff\xff\0\x02\x02D\x01\0;",
    "tiff loop": b"II*\0\x08\0\0\0\x01\0\0\x01\x04\0\x01\0\0\0\xff\xff\xff\xff\x08\0\0\0",
    "bmp of the moon": b"BM"
    + struct.pack("<IHHI", 100, 0, 0, 54)
    + struct.pack("<IiiHHIIiiII", 40, 2**31 - 1, 2**31 - 1, 1, 24, 0, 0, 0, 0, 0, 0),
    "ppm without end": b"P6 99999 99999 255\n" + bytes(1000),
    "riff": b"RIFF\xff\xff\xff\xffWEBPVP8 " + bytes(50),
    "ftyp": b"\0\0\0\x1cftypheic" + bytes(200),
    "polyglot": encoded(drawing(2), "GIF")[:400] + b"<script>alert(1)</script>" + bytes(300),
    "exif tricks": JPEG[:2] + b"\xff\xe1\xff\xffExif\0\0MM\0*\xff\xff\xff\xff" + bytes(65_000) + JPEG[2:300],
    "icns": b"icns" + struct.pack(">I", 2**32 - 1) + bytes(100),
    "fits": b"SIMPLE  =                    T" + b" " * 5000,
    "psd": b"8BPS\0\x01" + bytes(100),
    "raw named": b"II*\0\x10\0\0\0CR\x02\0" + bytes(300),
    "jpeg 2000": b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(300),
    "nul": bytes(100_000),
    "random": np.random.default_rng(0).bytes(50_000),
    "much text": b"A" * 3_000_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_uploads_are_refused_and_the_server_lives(client: TestClient, name: str) -> None:
    response = client.post("/api/search", files={"picture": ("holiday.jpg", HOSTILE[name], "image/jpeg")})
    assert 400 <= response.status_code < 500, response.text
    assert "Traceback" not in response.text
    assert client.get("/api/health").status_code == 200


def test_a_file_in_the_wrong_place(client: TestClient) -> None:
    for request in (
        {"data": {"picture": "text"}},
        {"json": {"picture": 1}},
        {"files": {"other": b"x"}},
        {"content": b"junk"},
    ):
        assert 400 <= client.post("/api/search", **request).status_code < 500  # type: ignore[arg-type]
    assert client.post("/api/search", files={"picture": JPEG}, data={"k": "100000"}).status_code == 422


def test_a_large_body(client: TestClient) -> None:
    assert client.post("/api/search", files={"picture": bytes(5 << 20)}).status_code == 413


def test_names_are_data(client: TestClient) -> None:
    response = client.get("/api/items?limit=500")
    assert response.headers["content-type"] == "application/json"
    assert STRANGE in [item["name"] for item in response.json()["items"]]


HEAD = b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=x\r\n"


def connected(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def test_a_body_without_end_is_cut_off(served: str) -> None:
    chunk = b"10000\r\n" + bytes(1 << 16) + b"\r\n"
    with connected(served) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        with pytest.raises(OSError):  # noqa: PT011  # the server hangs up, which each system words in its own way
            for _ in range(1 << 14):
                connection.sendall(chunk)
    assert httpx.get(f"{served}/api/health").status_code == 200


def test_a_slow_sender_is_cut_off(served: str) -> None:
    with connected(served) as connection:
        connection.sendall(HEAD + b"Content-Length: 100000\r\n\r\n--x\r\n")
        start = time.monotonic()
        assert b" 408 " in connection.recv(4096)
        assert time.monotonic() - start < 15
    assert httpx.get(f"{served}/api/health").status_code == 200


def test_many_at_once(served: str) -> None:
    failures: list[str] = []

    def use(seed: int) -> None:
        with httpx.Client(base_url=served, timeout=60) as client:
            for i in range(10):
                answers = [client.get("/api/items?limit=3"), client.get(f"/api/items/{1 + (seed + i) % 11}/similar")]
                answers.append(client.get(f"/api/items/{1 + (seed + i) % 11}/thumbnail"))
                failures.extend(answer.text for answer in answers if answer.status_code != 200)

    threads = [threading.Thread(target=use, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_decoder_that_dies_or_hangs_is_replaced(tmp_path: Path) -> None:
    from isch.errors import FormatError
    from isch.web.decoder import Decoder

    decoder = Decoder(seconds=20)
    picture = encoded(drawing(1), "PNG")
    first = decoder.decode(picture)
    assert decoder._process is not None
    decoder._process.kill()
    decoder._process.wait()
    np.testing.assert_array_equal(decoder.decode(picture), first)
    np.testing.assert_array_equal(first, np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")))
    decoder._seconds = 0.0
    with pytest.raises(FormatError, match="took longer than 0 s"):
        decoder.decode(picture)
    decoder._seconds = 20
    np.testing.assert_array_equal(decoder.decode(picture), first)
    decoder.close()


def test_a_decoder_that_died_while_nobody_needed_it_does_not_spoil_the_next_picture() -> None:
    from isch.web.decoder import Decoder

    decoder, picture = Decoder(seconds=20), encoded(drawing(1), "PNG")
    dying = [sys.executable, "-c", "import sys; sys.stdin.buffer.read(1)"]  # it lives until it is asked
    decoder._process = subprocess.Popen(dying, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    expected = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))
    np.testing.assert_array_equal(decoder.decode(picture), expected)
    decoder.close()


def test_pictures_that_wait_leave_threads_for_others(client: TestClient) -> None:
    """More pictures at once than the decoder lets wait: each gets an answer, and so does who asks something else."""
    codes: list[int] = []

    def send() -> None:
        codes.append(client.post("/api/search", files={"picture": JPEG}).status_code)

    threads = [threading.Thread(target=send) for _ in range(40)]
    for thread in threads:
        thread.start()
    assert client.get("/api/health").status_code == 200
    for thread in threads:
        thread.join()
    assert set(codes) <= {200, 503}
    assert codes.count(200) >= 8
