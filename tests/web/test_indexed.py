"""Any index is served: by vector, by item, by picture where it knows how."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import numpy as np
import pytest
from starlette.testclient import TestClient

import isch
from isch.web.indexed import create
from isch.web.settings import Settings

from .conftest import drawing, encoded, running

X = np.random.default_rng(0).normal(size=(300, 12)).astype(np.float32)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    hasher = isch.ITQ(n_bits=10).fit(X)
    keys = [f"k{i}" if i % 2 else i for i in range(300)]
    notes = [{"even": i % 2 == 0} for i in range(300)]
    isch.Index.create(tmp_path / "x.isch", hasher, X, keys=keys, metadata=notes).close()
    with TestClient(create(tmp_path / "x.isch", Settings()), base_url="http://127.0.0.1:1") as found:
        yield found


def test_keys_and_facts(client: TestClient) -> None:
    health = client.get("/api/health").json()
    assert (health["items"], health["n_bits"], health["n_features"], health["method"]) == (300, 10, 12, "itq")
    page = client.get("/api/items?offset=298&limit=5").json()
    assert (page["total"], [item["key"] for item in page["items"]]) == (300, [298, "k299"])
    assert "ISCH index" in client.get("/").text


def test_search_by_vector_and_by_item(client: TestClient) -> None:
    found = client.post("/api/search", json={"vector": X[7].tolist(), "k": 3}).json()
    assert (found["items"][0]["key"], found["items"][0]["distance"], found["searched"]) == ("k7", 0, 300)
    even = client.post("/api/search", json={"vector": X[7].tolist(), "k": 9, "where": {"even": True}}).json()
    assert all(hit["metadata"] == {"even": True} for hit in even["items"])
    near = client.get("/api/items/7/similar?k=4").json()["items"]
    assert len(near) == 4
    assert "k7" not in [hit["key"] for hit in near]
    assert client.get("/api/items/300/similar").status_code == 404


@pytest.mark.parametrize(
    "body",
    [{}, {"vector": []}, {"vector": [1, 2]}, {"vector": ["x"]}, {"vector": [1] * 12, "k": 0}, {"vector": [1e300] * 12}],
)
def test_bad_vectors(client: TestClient, body: dict[str, object]) -> None:
    response = client.post("/api/search", json=body)
    assert 400 <= response.status_code < 500
    assert response.json()["detail"]


def test_pictures_where_the_index_knows_how(tmp_path: Path, client: TestClient) -> None:
    refused = client.post("/api/search/picture", files={"picture": encoded(drawing(1))})
    assert refused.status_code == 400
    assert "does not say how pictures are described" in refused.json()["detail"]
    gist = isch.describe.describer("gist", side=32)
    pictures = np.stack([np.asarray(drawing(i, (64, 48))) for i in range(20)])
    encoder = isch.Encoder(isch.LSH(n_bits=32).fit(gist.transform(pictures)), gist)
    isch.Index.create(tmp_path / "p.isch", encoder, pictures, keys=[f"{i}.jpg" for i in range(20)]).close()
    with TestClient(create(tmp_path / "p.isch", Settings()), base_url="http://127.0.0.1:1") as pictured:
        found = pictured.post("/api/search/picture", files={"picture": encoded(drawing(3, (64, 48)), "PNG")}).json()
        assert found["items"][0]["key"] == "3.jpg"


def test_codes_are_searched_by_bits(tmp_path: Path) -> None:
    codes = np.random.default_rng(1).integers(0, 256, (50, 2), np.uint8)
    isch.Index.create(tmp_path / "c.isch", n_bits=16, rows=codes).close()
    with TestClient(create(tmp_path / "c.isch", Settings()), base_url="http://127.0.0.1:1") as client:
        bits = np.unpackbits(codes[9]).tolist()
        assert client.post("/api/search", json={"vector": bits, "k": 1}).json()["items"][0]["key"] == 9


@pytest.fixture
def codes(tmp_path: Path) -> Iterator[TestClient]:
    """An index of codes of 77 bits."""
    isch.Index.create(tmp_path / "c.isch", n_bits=77, rows=isch.codes.pack(np.eye(40, 77, dtype=bool))).close()
    with TestClient(create(tmp_path / "c.isch", Settings()), base_url="http://127.0.0.1:1") as client:
        yield client


def test_a_code_has_as_many_bits_as_the_index(codes: TestClient) -> None:
    bits = np.eye(40, 77)[9].tolist()
    assert codes.post("/api/search", json={"vector": bits, "k": 1}).json()["items"][0]["key"] == 9
    for length in (1, 73, 76, 78, 80, 200):
        answer = codes.post("/api/search", json={"vector": [1] * length})
        assert answer.status_code == 400
        assert answer.json()["detail"] == f"vector: expected 77 numbers, each 0 or 1; got {length}"
    for strange in (2, -1, 0.5):
        answer = codes.post("/api/search", json={"vector": [*bits[:-1], strange]})
        assert (answer.status_code, answer.json()["detail"].endswith(f"got {strange}")) == (400, True)


BODIES = {
    "strings": '{"vector": [' + ", ".join(['"a"'] * 500_000) + "]}",
    "strings of numbers": '{"vector": ["1", "2"]}',
    "lists": '{"vector": ' + str([[]] * 100_000) + "}",
    "truths": '{"vector": ' + "[true" + ", true" * 11 + "]}",
    "a million": '{"vector": ' + str([0] * 1_000_000) + "}",
    "NaN": '{"vector": [NaN, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}',
    "overflow": '{"vector": [1e999, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}',
    "half a pair": '{"vector": [1], "where": {"a": "\\ud800"}}',
    "deep": '{"vector": [1], "where": ' + '{"a": ' * 50_000,
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_cannot_be_used_is_answered_in_a_sentence(client: TestClient, name: str) -> None:
    answer = client.post("/api/search", content=BODIES[name], headers={"content-type": "application/json"})
    assert answer.status_code in (400, 413, 422)
    assert len(answer.content) < 300


def test_others_are_served_while_a_bad_body_is_read(tmp_path: Path) -> None:
    """500,000 strings took the server 15 seconds, in which nobody else was answered."""
    isch.Index.create(tmp_path / "x.isch", isch.LSH(n_bits=8).fit(X), X).close()
    settings, waits = Settings(port=0), []
    with running(create(tmp_path / "x.isch", settings), settings) as address, httpx.Client(base_url=address) as other:
        other.get("/api/health")
        headers = {"content-type": "application/json"}
        sender = threading.Thread(
            target=lambda: httpx.post(f"{address}/api/search", content=BODIES["strings"], headers=headers, timeout=60)
        )
        sender.start()
        while sender.is_alive():
            start = time.monotonic()
            assert other.get("/api/health").status_code == 200
            waits.append(time.monotonic() - start)
        sender.join()
    assert max(waits, default=0) < 5
