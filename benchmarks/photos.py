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
from pathlib import Path

import numpy as np

from isch.describe.cnn import network
from isch.describe.efficientnet import PREPROCESSING, model
from isch.describe.images import centre_square, decode
from isch.photos import words
from isch.photos.catalog import Filter
from isch.photos.library import Library

DATA = Path(os.environ.get("ISCH_DATA", "~/.cache/isch/datasets")).expanduser() / "tiny-imagenet-20k"
BARE = 1024  # pictures that bare onnxruntime describes
SECONDS = 60
CLIENTS = 8


def bare_rate(paths: list[str]) -> float:
    """Pictures per second of onnxruntime on decoded and prepared pictures, on all cores."""
    from isch import compute

    squares = [centre_square(decode(path), PREPROCESSING["side"]) for path in paths]
    run = network(model(), "features", 0).run
    mean, std = np.full(3, 127, np.float32), np.full(3, 128, np.float32)
    batches = [np.stack(squares[i : i + 8]) for i in range(0, len(squares), 8)]
    run(batches[0], mean, std)
    start = time.perf_counter()
    for _ in compute.parallel(lambda batch: run(batch, mean, std), batches):
        pass
    return len(squares) / (time.perf_counter() - start)


def measure_index(home: Path) -> None:
    paths = sorted(str(path) for path in DATA.rglob("*.JPEG"))
    bare = bare_rate(paths[:: len(paths) // BARE][:BARE])
    library = Library(DATA, home)
    todo = len(paths) - len(library)
    start = time.perf_counter()
    report = library.update()
    took = time.perf_counter() - start
    print(f"first run: {report}; {took:.0f} s, codes learned from {report.learned}")
    if todo == len(paths):
        rate = todo / took
        print(
            f"described {rate:.1f} pictures/s, learning included; bare onnxruntime {bare:.1f}: ratio {rate / bare:.2f}"
        )
    command = ["find", str(DATA), "-type", "f", "-printf", "%s %T@\n"]
    found = min(timed(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True)) for _ in range(5))
    again = min(timed(library.update) for _ in range(5))
    print(f"second run {again * 1000:.0f} ms; find {found * 1000:.0f} ms: ratio {again / found:.2f}")


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
        before = process.memory_info().rss
        threads = [threading.Thread(target=use, args=(seed,)) for seed in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        grown = process.memory_info().rss - before
        server.terminate()
    median, worst = np.median(times), np.percentile(times, 99)
    print(f"{CLIENTS} clients, {SECONDS} s: {len(times)} requests, {len(failures)} failed")
    print(f"median {median * 1000:.0f} ms, p99 {worst * 1000:.0f} ms: ratio {worst / median:.1f}")
    print(f"memory grew by {grown / 1e6:.0f} MB from {before / 1e6:.0f} MB")


PARTS = {"index": measure_index, "quality": measure_quality, "clients": measure_clients}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--home", type=Path, default=Path(tempfile.gettempdir()) / "isch-photos-benchmark")
    options = parser.parse_args()
    for part in options.parts:
        PARTS[part](options.home)
