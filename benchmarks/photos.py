"""isch photos on 20,000 thumbnails: speed of describing and of a second run, quality of its searches, many clients.

    python benchmarks/photos.py index       # describing beside bare onnxruntime, a second run beside find
    python benchmarks/photos.py quality     # precision of "more like this" and of search by word
    python benchmarks/photos.py clients     # 8 clients for 60 seconds, while pictures are added

Needs tiny-imagenet-20k and flowers-400 in the folder of data sets. Pictures are copied to --home, where their index is
kept too, so the parts can be run one after the other. With all pictures and all seconds, each part writes its section.
"""

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import httpx2 as httpx
import numpy as np
import psutil
from numpy.typing import NDArray
from report import machine, section, table

from isch.describe.cnn import runtime
from isch.describe.efficientnet import PREPROCESSING, model
from isch.describe.images import centre_square, decode, find
from isch.evaluate.datasets.base import data_home
from isch.photos import words
from isch.photos.catalog import Filter
from isch.photos.library import Library

BARE = 1024  # pictures that bare onnxruntime describes
ROUNDS = 7
QUERIES = 1000
CLIENTS, SECONDS = 8, 60.0
MOMENTS = (0.02, 0.25, 0.5, 0.75, 0.98)  # of the time, at which memory is looked at
ADDING = 0.25  # of the time, after which pictures are added
ADDED = 8
PATIENCE = 40.0  # seconds to wait for pictures that were added


class Place(NamedTuple):
    """Where the pictures and their index are."""

    home: Path
    count: int | None  # of pictures; None: all
    seconds: float

    @property
    def pictures(self) -> Path:
        return self.home / "pictures"

    @property
    def library(self) -> Library:
        return Library(self.pictures, self.home / "index")

    def start_anew(self) -> None:
        """A copy of the pictures, and no index."""
        shutil.rmtree(self.home, ignore_errors=True)
        data = data_home() / "tiny-imagenet-20k"
        paths = find(data).paths
        for path in paths[:: len(paths) // (self.count or len(paths))][: self.count]:
            copy = self.pictures / os.path.relpath(path, data)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)


class Bare:
    """The peer: onnxruntime alone, one thread per core, on pictures already decoded and of the network's size."""

    def __init__(self, paths: list[str]) -> None:
        ort = runtime()
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = ort.InferenceSession(model(), options, providers=["CPUExecutionProvider"])
        squares = [centre_square(decode(path), PREPROCESSING["side"]) for path in paths]
        self._batches = [np.stack(squares[i : i + 8]) for i in range(0, len(squares), 8)]

    def rate(self) -> float:
        """Pictures per second."""
        self._run(self._batches[0])
        start = time.perf_counter()
        with ThreadPoolExecutor(cores()) as pool:
            done = list(pool.map(self._run, self._batches))
        return sum(map(len, done)) / (time.perf_counter() - start)

    def _run(self, batch: NDArray[np.uint8]) -> Any:
        x = np.ascontiguousarray(batch.transpose(0, 3, 1, 2), np.float32)
        x -= np.float32(127)
        x *= np.float32(1 / 128)
        return self._session.run(["features"], {"images": x})[0]


def cores() -> int:
    return len(os.sched_getaffinity(0))


def measure_index(place: Place) -> str:
    """Describing beside bare onnxruntime, and a second run beside find."""
    place.start_anew()
    paths = find(place.pictures).paths
    peer, library = Bare(paths[:: max(1, len(paths) // BARE)][:BARE]), place.library
    learned = timing(library, "_learn")
    before = peer.rate()
    took = timed(library.update)
    bare = (before + peer.rate()) / 2
    learning = learned()
    rate, (found, updated) = len(paths) / (took - learning), again(place.pictures, library)
    rows: list[list[object]] = [
        ["describing, pictures/s", "onnxruntime alone, on decoded pictures", f"{bare:.1f}", f"{rate:.1f}", rate / bare],
        ["second run, ms", "find -printf '%s %T@'", f"{1000 * found:.0f}", f"{1000 * updated:.0f}", updated / found],
    ]
    return f"""## Photos: bringing an index up to date

{len(paths):,} thumbnails of ImageNet. Describing is all that is done with a picture: reading, decoding, the network,
fingerprint, words, date and camera, catalog and index. Its peer is the network alone, on {min(BARE, len(paths)):,} of
the same pictures already decoded, in batches of the same size with one thread per core, before and after. The first run
took {took:.1f} s, of which learning codes {learning:.1f} s. A second run, in which nothing changed, and find are the
best of {ROUNDS} in turn.

{table(["what", "peer", "peer", "isch", "ratio"], rows)}

{machine("onnxruntime", "pillow")}"""


def timing(library: Library, name: str) -> Callable[[], float]:
    """Let a method of a library be timed; returns what tells the seconds of its last call."""
    original, took = getattr(library, name), [0.0]

    def measured() -> Any:
        start = time.perf_counter()
        try:
            return original()
        finally:
            took[0] = time.perf_counter() - start

    setattr(library, name, measured)
    return lambda: took[0]


def again(folder: Path, library: Library) -> tuple[float, float]:
    """The shortest times of find and of a second run, in turn."""
    command = ["find", "-L", str(folder), "-type", "f", "-printf", "%s %T@\n"]
    rounds = [
        (timed(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True)), timed(library.update))
        for _ in range(ROUNDS)
    ]
    found, updated = (min(column) for column in zip(*rounds, strict=True))
    return found, updated


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure_quality(place: Place) -> str:
    """Precision of "more like this" and of search by word; a folder is a class."""
    library = place.library
    every = library.catalog.page(Filter(), 0, 1_000_000)
    queries = [every[i] for i in np.random.default_rng(0).permutation(len(every))[:QUERIES]]
    hits = [np.mean([hit.item.folder == q.folder for hit in library.similar(q.id, 20)]) for q in queries]
    classes, right = {item.folder for item in every}, []
    for kind, synset in enumerate(synsets()):
        if synset in classes:
            found = library.catalog.page(Filter(word=words.kinds()[kind].names[0]), 0, 20)
            right.append(sum(item.folder == synset for item in found))
    rows: list[list[object]] = [
        ["more like this: precision@20", f"{len(queries):,} pictures", "≥ 0.36", f"{np.mean(hits):.3f}"],
        ["search by word: right of the first 20", f"{len(right)} names of classes", "≥ 12", f"{np.mean(right):.1f}"],
    ]
    return f"""## Photos: what is found

{len(every):,} thumbnails of ImageNet in {len(classes)} classes, default settings.

{table(["what", "queries", "target", "measured"], rows)}"""


def synsets() -> list[str]:
    """The WordNet number of each kind of thing that the network knows."""
    text = (Path(words.__file__).parent / "words.tsv").read_text("utf-8")
    return [line.split("\t")[0] for line in text.splitlines() if not line.startswith("#")]


def measure_clients(place: Place) -> str:
    """Many clients at once, while pictures are added."""
    folders = ["--folder", str(place.pictures), "--index", str(place.home / "index")]
    command = [sys.executable, "-m", "isch", "photos", "serve", *folders, "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = next(word for word in server.stdout.readline().split() if word.startswith("http"))
        crowd = Crowd(address, server.pid, place)
        try:
            crowd.use()
        finally:
            server.terminate()
    median, late = np.median(crowd.times), np.percentile(crowd.times, 99)
    memory = ", ".join(f"{megabytes:.0f} MB after {moment:.0f} s" for moment, megabytes in crowd.memory)
    return f"""## Photos: many clients

{CLIENTS} clients ask the server for the 40 pictures most like one of {crowd.count:,}, again and again for
{place.seconds:.0f} s, on the same {cores()} cores as the server. {len(crowd.times):,} requests, {len(crowd.failures)}
failed; median {1000 * median:.0f} ms, 99 % within {1000 * late:.0f} ms: ratio {late / median:.1f} (target: 5).
Meanwhile {ADDED} pictures were added to the folder; {crowd.appeared} were in the collection {crowd.after:.0f} s later.
Memory of the server: {memory};
it grows once, when the network is loaded for the first new picture."""


class Crowd:
    """Clients of a server, and what they saw."""

    def __init__(self, address: str, server: int, place: Place) -> None:
        self._address, self._server, self._place = address, psutil.Process(server), place
        with self._client() as client:
            client.get("/api/items/1/similar")  # loads what the first search needs
            self.count = client.get("/api/items").json()["total"]
        self.times: list[float] = []
        self.failures: list[str] = []
        self.memory: list[tuple[float, float]] = []  # (seconds, megabytes)
        self.appeared, self.after = 0, math.nan

    def use(self) -> None:
        """Ask for the whole time, and look at the memory now and then."""
        start = time.monotonic()
        with ThreadPoolExecutor(CLIENTS + 1) as pool:
            asking = [pool.submit(self._ask, seed, start + self._place.seconds) for seed in range(CLIENTS)]
            asking.append(pool.submit(self._add, start + ADDING * self._place.seconds))
            for share in MOMENTS:
                time.sleep(max(0.0, start + share * self._place.seconds - time.monotonic()))
                self.memory.append((time.monotonic() - start, self._server.memory_info().rss / 1e6))
            for one in asking:
                one.result()

    def _ask(self, seed: int, end: float) -> None:
        rng = np.random.default_rng(seed)
        with self._client() as client:
            while time.monotonic() < end:
                start = time.perf_counter()
                answer = client.get(f"/api/items/{rng.integers(1, self.count + 1)}/similar?k=40")
                self.times.append(time.perf_counter() - start)
                if answer.status_code != 200:
                    self.failures.append(answer.text)

    def _add(self, moment: float) -> None:
        """Add pictures to the folder, wait until they are listed, and take them away again."""
        time.sleep(max(0.0, moment - time.monotonic()))
        start, folder = time.monotonic(), self._place.pictures / "added"
        folder.mkdir()
        try:
            for path in find(data_home() / "flowers-400").paths[:ADDED]:
                shutil.copy(path, folder)
            with self._client() as client:
                while self.appeared < ADDED and time.monotonic() < start + PATIENCE:
                    time.sleep(0.5)
                    self.appeared = client.get("/api/items?folder=added").json()["total"]
            self.after = time.monotonic() - start
        finally:
            shutil.rmtree(folder)

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self._address, timeout=60)


PARTS = {"index": measure_index, "quality": measure_quality, "clients": measure_clients}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--home", type=Path, default=Path(tempfile.gettempdir()) / "isch-photos-benchmark")
    parser.add_argument("--count", type=int, help="so many pictures; nothing is written to the documentation")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for so long; the same")
    given = parser.parse_args()
    for part in given.parts:
        text = PARTS[part](Place(given.home, given.count, given.seconds))
        print(text, flush=True)
        if given.count is None and given.seconds == SECONDS:
            section(f"photos-{part}", text)


if __name__ == "__main__":
    main()
