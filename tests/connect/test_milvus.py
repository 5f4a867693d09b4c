"""What only a server of Milvus can do to us: not answer, vanish, come back; and what Milvus Lite does not have."""

import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from isch.errors import FileError, InputError, ParameterError

pytest.importorskip("pymilvus", reason="the package pymilvus is not installed")

from isch.connect import milvus as module
from isch.connect.milvus import Milvus

pytestmark = pytest.mark.filterwarnings("ignore:pkg_resources is deprecated")  # Milvus Lite uses it
SECRET = "open-sesame"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Server:
    """Milvus Lite as a server that can be killed and started again."""

    def __init__(self, path: Path) -> None:
        self.path, self.port, self.running = path, free_port(), None

    def start(self) -> None:
        lite = pytest.importorskip("milvus_lite.server", reason="the package milvus-lite is not installed")
        self.running = lite.Server(str(self.path), f"127.0.0.1:{self.port}")
        assert self.running.init()
        assert self.running.start()

    def kill(self) -> None:
        self.running._p.kill()
        self.running._p.wait()
        self.running.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "lite.db")
    made.start()
    yield made
    made.kill()


@pytest.mark.parametrize("silent", [False, True], ids=["nobody", "silence"])
def test_a_server_that_does_not_answer(
    silent: bool, world: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert module.CONNECT_SECONDS == 10
    monkeypatch.setattr(module, "CONNECT_SECONDS", 2)
    start, levels = time.monotonic(), logging.getLogger("pymilvus").level
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1] if silent else 1
        with pytest.raises(FileError, match="Milvus cannot be reached") as caught:
            Milvus(f"http://me:{SECRET}@127.0.0.1:{port}", "photos", world.hasher, create=True)
    assert time.monotonic() - start < 10
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value) + capfd.readouterr().err
    assert logging.getLogger("pymilvus").level == levels


def test_an_address_that_is_none(world: Any) -> None:
    with pytest.raises(FileError) as caught:
        Milvus(f"htp//me:{SECRET}@x", "photos", world.hasher, create=True)
    assert SECRET not in str(caught.value)


def test_passwords_are_hidden_by_where_they_stand(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECT_SECONDS", 1)
    for rest in (f"p@{SECRET}@127.0.0.1:1", f"12/{SECRET}@127.0.0.1:1", f"12?{SECRET}@x", f"12#{SECRET}@x"):
        with pytest.raises(ParameterError, match="%40 for @") as caught:
            Milvus(f"http://me:{rest}", "photos", world.hasher)
        assert SECRET not in str(caught.value)
    with pytest.raises(FileError, match="Milvus cannot be reached: Fail connecting to server on 127.0.0.1:1"):
        Milvus("http://me:e@127.0.0.1:1", "photos", world.hasher)
    with pytest.raises(FileError, match=r"htp://me:\*\*\*@x is illegal"):
        Milvus("htp://me:i@x", "photos", world.hasher)


def test_two_stores_of_one_server(server: Server, world: Any) -> None:
    url = f"http://127.0.0.1:{server.port}"
    with Milvus(url, "one", world.hasher, create=True) as first:
        with Milvus(url, "two", world.hasher, create=True) as second:
            second.add(world.keys[:5], world.features[:5])
        second.close()  # once more does no harm
        first.add(world.keys[:20], world.features[:20])
        assert len(first) == 20


def test_a_server_that_vanishes_and_comes_back(server: Server, world: Any) -> None:
    with Milvus(f"http://127.0.0.1:{server.port}", "photos", world.hasher, create=True) as store:
        store.add(world.keys[:20], world.features[:20])
        server.kill()
        server.start()
        store.add(world.keys[10:40], world.features[10:40])
        assert len(store) == 40
        assert store.search(world.features[9], 1)[0][0].key == world.keys[9]


def test_a_server_that_stays_away(server: Server, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with Milvus(f"http://127.0.0.1:{server.port}", "photos", world.hasher, create=True) as store:
        monkeypatch.setattr(module, "CALL_SECONDS", 2)
        server.kill()
        with pytest.raises(FileError) as caught:
            store.add(world.keys[:20], world.features[:20])
        assert "\n" not in str(caught.value)
        server.start()


def test_kinds(server: Server, world: Any) -> None:
    url = f"http://127.0.0.1:{server.port}"
    with pytest.raises(ParameterError, match="unknown kind 'best'"):
        Milvus(url, "photos", world.hasher, kind="best", create=True)
    with pytest.raises(FileError, match="BIN_IVF_FLAT"):  # Milvus Lite has no such index
        Milvus(url, "photos", world.hasher, kind="ivf", create=True)
    with Milvus(url, "photos", world.hasher, create=True) as store:  # the attempt left nothing
        assert (len(store), store.kind) == (0, "flat")
    with pytest.raises(InputError, match="has an index of the kind flat; got ivf"):
        Milvus(url, "photos", world.hasher, kind="ivf", create=True)
