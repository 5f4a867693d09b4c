"""isch photos on 20,000 thumbnails: speed of describing and of a second run, quality of its searches, many clients.

    python benchmarks/photos.py index       # describing beside bare onnxruntime, a second run beside find
    python benchmarks/photos.py quality     # precision of "more like this" and of search by word
    python benchmarks/photos.py clients     # 8 clients for 60 seconds

Needs tiny-imagenet-20k in $ISCH_DATA. Everything is kept in --home, so the parts can be run one after the other.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from isch.describe.efficientnet import PREPROCESSING, model
from isch.describe.images import centre_square, decode, find
from isch.photos import words
from isch.photos.catalog import Filter
from isch.photos.library import Library

DATA = Path(os.environ.get("ISCH_DATA", "~/.cache/isch/datasets")).expanduser() / "tiny-imagenet-20k"
BARE = 1024  # pictures that bare onnxruntime describes
SECONDS = 60
CLIENTS = 8


class Bare:
    """The peer: onnxruntime alone, one thread per core, on pictures already decoded and of the network's size."""

    def __init__(self, paths: list[str]) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(model(), options, providers=["CPUExecutionProvider"])
        squares = [centre_square(decode(path), PREPROCESSING["side"]) for path in paths]
        self._batches = [np.stack(squares[i : i + 8]) for i in range(0, len(squares), 8)]

    def rate(self) -> float:
        """Pictures per second."""
        self._run(self._batches[0])
        start = time.perf_counter()
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            done = list(pool.map(self._run, self._batches))
        return sum(map(len, done)) / (time.perf_counter() - start)

    def _run(self, batch: np.ndarray) -> np.ndarray:
        x = np.ascontiguousarray(batch.transpose(0, 3, 1, 2), np.float32)
        x -= np.float32(127)
        x *= np.float32(1 / 128)
        return self._session.run(["features"], {"images": x})[0]


def measure_index(home: Path, count: int | None) -> None:
    if count is None:
        measure_folder(DATA, home)
        return
    with tempfile.TemporaryDirectory() as folder:  # links: the same files, fewer of them
        paths = sorted(DATA.rglob("*.JPEG"))
        os.mkdir(f"{folder}/pictures")
        for i, path in enumerate(paths[:: len(paths) // count][:count]):
            os.symlink(path, f"{folder}/pictures/{i}.jpg")
        measure_folder(Path(folder, "pictures"), Path(folder, "home"))


def measure_folder(folder: Path, home: Path) -> None:
    paths = find(folder).paths
    peer, library, learning = Bare(paths[:: max(1, len(paths) // BARE)][:BARE]), Library(folder, home), 0.0

    def learn(original: Callable[[], int] = library._learn) -> int:
        nonlocal learning
        start = time.perf_counter()
        learned = original()
        learning = time.perf_counter() - start
        return learned

    library._learn = learn  # type: ignore[method-assign]
    todo, before = len(paths) - len(library), peer.rate()
    took = timed(library.update)
    bare = (before + peer.rate()) / 2
    print(f"{len(library)} pictures: {took:.1f} s, of which learning codes {learning:.1f} s")
    if todo == len(paths):
        rate, whole = todo / (took - learning), todo / took
        print(f"described {rate:.1f} pictures/s, bare onnxruntime {bare:.1f}: ratio {rate / bare:.2f}")
        print(f"with learning {whole:.1f} pictures/s: ratio {whole / bare:.2f}")
    again(folder, library)


def again(folder: Path, library: Library) -> None:
    """A second run beside find, in turn."""
    command = ["find", "-L", str(folder), "-type", "f", "-printf", "%s %T@\n"]
    rounds = [
        (timed(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True)), timed(library.update))
        for _ in range(7)
    ]
    found, updated = (min(column) for column in zip(*rounds, strict=True))
    print(f"second run {updated * 1000:.0f} ms; find {found * 1000:.0f} ms: ratio {updated / found:.2f}")


def timed(work: object) -> float:
    start = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - start


def measure_quality(home: Path) -> None:
    library = Library(DATA, home)
    every = library.catalog.page(Filter(), 0, 100_000)
    queries = [every[i] for i in np.random.default_rng(0).choice(len(every), 1000, replace=False)]
    hits = [np.mean([hit.item.folder == q.folder for hit in library.similar(q.id, 20)]) for q in queries]
    print(f"more like this: precision@20 {np.mean(hits):.3f} over {len(queries)} pictures, learned {library.learned}")
    synsets = {line.split("\t")[0]: i for i, line in enumerate(_rows())}
    right = []
    for folder in sorted({item.folder for item in every}):
        if folder in synsets:
            found = library.catalog.page(Filter(word=words.kinds()[synsets[folder]].names[0]), 0, 20)
            right.append(sum(item.folder == folder for item in found))
    print(f"search by word: {np.mean(right):.1f} of the first 20 are of that class, mean over {len(right)} classes")


def _rows() -> list[str]:
    text = (Path(words.__file__).parent / "words.tsv").read_text("utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


def measure_clients(home: Path) -> None:
    import httpx2 as httpx
    import psutil

    command = [sys.executable, "-m", "isch", "photos", "serve", "--folder", str(DATA), "--index", str(home)]
    with subprocess.Popen([*command, "--no-browser", "--port", "8790"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        server.stdout.readline()
        address, process = "http://127.0.0.1:8790", psutil.Process(server.pid)
        times: list[float] = []
        failures: list[str] = []
        end = time.monotonic() + SECONDS

        def use(seed: int) -> None:
            rng = np.random.default_rng(seed)
            with httpx.Client(base_url=address, timeout=60) as client:
                while time.monotonic() < end:
                    path = f"/api/items/{rng.integers(1, 20_001)}/similar?k=40"
                    start = time.perf_counter()
                    answer = client.get(path)
                    times.append(time.perf_counter() - start)
                    if answer.status_code != 200:
                        failures.append(answer.text)

        httpx.get(f"{address}/api/items/1/similar", timeout=60)
        threads = [threading.Thread(target=use, args=(seed,)) for seed in range(CLIENTS)]
        for thread in threads:
            thread.start()
        memory = []
        for moment in (SECONDS / 4, SECONDS / 2, SECONDS - 1):  # by the first, all threads have what they keep
            time.sleep(max(0.0, end - SECONDS + moment - time.monotonic()))
            memory.append(process.memory_info().rss / 1e6)
        for thread in threads:
            thread.join()
        server.terminate()
    median, worst = np.median(times), np.percentile(times, 99)
    print(f"{CLIENTS} clients, {SECONDS} s: {len(times)} requests, {len(failures)} failed")
    print(f"median {median * 1000:.0f} ms, p99 {worst * 1000:.0f} ms: ratio {worst / median:.1f}")
    print(f"memory after a quarter, half and the whole of the time: {', '.join(f'{m:.0f} MB' for m in memory)}")


PARTS = {"quality": measure_quality, "clients": measure_clients}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=["index", *PARTS, []], default=["index", *PARTS])
    parser.add_argument("--home", type=Path, default=Path(tempfile.gettempdir()) / "isch-photos-benchmark")
    parser.add_argument("--count", type=int, help="index only so many pictures, in a folder of their own")
    options = parser.parse_args()
    for part in options.parts:
        if part == "index":
            measure_index(options.home, options.count)
        else:
            PARTS[part](options.home)
