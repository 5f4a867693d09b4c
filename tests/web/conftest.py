"""A small library with duplicates and strange names, and clients of the app that serves it."""

import gc
import io
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="the search page needs the extra photos")

from starlette.testclient import TestClient

from isch.photos.library import Library
from isch.web.app import create
from isch.web.server import listen, prepared
from isch.web.settings import Settings

STRANGE = "<img src=x onerror=alert(1)>.png"


def drawing(seed: int, size: tuple[int, int] = (320, 240)) -> Image.Image:
    """A smooth picture, a different one for each seed."""
    values = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
    return Image.fromarray(values).resize(size, Image.Resampling.BICUBIC)


def encoded(image: Image.Image, form: str = "JPEG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def make_pictures(folder: Path) -> Path:
    for i in range(8):
        path = folder / ("a" if i % 2 else "b") / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        drawing(i).save(path, quality=95)
    drawing(3).resize((160, 120)).save(folder / "small copy of 3.jpg", quality=80)
    drawing(5).convert("L").save(folder / "grey copy of 5.png")
    drawing(20).save(folder / STRANGE)
    return folder


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pictures(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """Compile the kernels that find duplicates before a test waits for an answer; a new clone has none yet."""
    subprocess.run([sys.executable, "-m", "isch.photos.copies"], check=True)


@pytest.fixture(scope="session")
def library(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Library:
    library = Library(pictures, tmp_path_factory.mktemp("home"))
    library.update()
    return library


@pytest.fixture
def settings() -> Settings:
    return Settings(upload_bytes=4 << 20, upload_seconds=2.0, decode_seconds=10.0)


@pytest.fixture
def client(library: Library, settings: Settings) -> Iterator[TestClient]:
    with TestClient(
        create(library, settings), base_url="http://127.0.0.1:8765", raise_server_exceptions=False
    ) as found:
        yield found


@pytest.fixture
def served(library: Library) -> Iterator[str]:
    """The address of a real server in this process."""
    settings = Settings(port=0, upload_seconds=1.0, upload_bytes=4 << 20)
    with running(create(library, settings), settings) as address:
        yield address


@contextmanager
def running(app: Any, settings: Settings) -> Iterator[str]:
    """A server in a thread of this process; gives its address."""
    listener, address = listen(settings)
    server = prepared(app)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield address.rstrip("/")
    finally:
        with warnings.catch_warnings():  # connections that the end of the server leaves half open
            warnings.simplefilter("ignore", ResourceWarning)
            server.should_exit = True
            thread.join()
            listener.close()
            gc.collect()
