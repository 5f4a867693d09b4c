"""Downloads from a server on this machine: unpacked, checked, refused when the checksum differs."""

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from isch.errors import FileError
from isch.evaluate.datasets.fetch import Download, fetch

pytest.importorskip("pooch", reason="needs pooch")
pytest.importorskip("tqdm", reason="needs tqdm")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, bytes]]:
    """(address, content) of an archive on a local server."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo("set/labels.txt")
        entry.size = 4
        archive.addfile(entry, io.BytesIO(b"1\n2\n"))
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "set.tar.gz").write_bytes(buffer.getvalue())
    server = HTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "www")))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/set.tar.gz", buffer.getvalue()
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_archive_is_checked_and_unpacked(served: tuple[str, bytes], tmp_path: Path) -> None:
    url, content = served
    checksum = f"md5:{hashlib.md5(content).hexdigest()}"
    assert fetch(Download(url, checksum, unpack=True), tmp_path / "data").exists()
    assert (tmp_path / "data/set/labels.txt").read_text() == "1\n2\n"


def test_another_checksum_is_refused_and_nothing_stays(served: tuple[str, bytes], tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot download .*set.tar.gz"):
        fetch(Download(served[0], f"md5:{'0' * 32}", unpack=True), tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


def test_a_server_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot download http://127.0.0.1:9/x"):
        fetch(Download("http://127.0.0.1:9/x", f"md5:{'0' * 32}"), tmp_path)
