"""Larger than memory, larger than one machine: peak memory, time against size, a cluster, killed runs.

python benchmarks/scale.py            the sizes of docs/scaling.md; needs 20 GB of disk and an hour or two
python benchmarks/scale.py --quick    the same at small sizes, which records nothing
python benchmarks/scale.py --only memory,formula,speed,size,cluster,kills

Features are random with a decaying spectrum and clusters. Commands run as processes of their own. Their memory is what
only they have (``RssAnon`` of the process and its children), so that the page cache is not counted.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import report
from products import Counter, Products

from isch import codes as packed
from isch.compute import memory

STRENGTHS, BLOCK = 200, 1024
FIGURE = report.DOCUMENT.parent / "figures" / "scale-size.svg"


@dataclass(frozen=True)
class Case:
    """A fit and what it may take."""

    rows: int
    columns: int
    dtype: str
    bits: int
    memory: str
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.rows}-{self.columns}-{self.dtype}.npy"


MEMORY = [
    Case(120_000, 25_600, "float16", 3200, "3GB", ("--set=n_branches=128",)),
    Case(20_000, 105_000, "float16", 3200, "6GB"),
]
FORMULA = [
    Case(20_000, 1280, "float32", 128, "4GB"),
    Case(60_000, 1280, "float32", 256, "4GB"),
    Case(20_000, 8192, "float16", 512, "2GB"),
    Case(20_000, 25_600, "float16", 1024, "3GB"),
]
SPEED = Case(1_000_000, 1280, "float32", 256, "4GB")
SIZES = [Case(n, 1280, "float32", 256, "4GB", (f"--set=max_samples={n}",)) for n in (25_000, 50_000, 100_000, 200_000)]
CLUSTER = Case(200_000, 1280, "float32", 256, "4GB")
KILLS = Case(20_000, 5000, "float16", 512, "2GB")
N_KILLS = 20
QUICK_MEMORY = [Case(6000, 5000, "float16", 320, "1GB", ("--set=n_branches=20",))]
QUICK_FORMULA = [Case(3000, 256, "float32", 64, "1GB")]
QUICK_SPEED = Case(20_000, 1280, "float32", 256, "4GB")
QUICK_SIZES = [Case(n, 256, "float32", 64, "4GB", (f"--set=max_samples={n}",)) for n in (2000, 4000)]
QUICK_CLUSTER = Case(4000, 256, "float32", 64, "4GB")
QUICK_KILLS = Case(3000, 400, "float16", 64, "2GB", ("--set=dictionary=hierarchical", "--set=n_branches=8"))


def made(folder: Path, case: Case) -> Path:
    """The features of a case: 100 clusters in directions of falling strength, and noise of falling strength in all."""
    path = folder / case.name
    if not path.exists():
        rng = np.random.default_rng(0)
        strengths = np.arange(1, STRENGTHS + 1, dtype=np.float32) ** -0.7
        basis = rng.standard_normal((STRENGTHS, case.columns), dtype=np.float32) * strengths[:, None]
        centres = rng.standard_normal((100, STRENGTHS), dtype=np.float32)
        falling = np.arange(1, case.columns + 1, dtype=np.float32) ** -0.35
        noise = np.float32(0.1 * case.columns) ** 0.5 * rng.permutation(falling)
        out = np.lib.format.open_memmap(path, "w+", case.dtype, (case.rows, case.columns))
        for start in range(0, case.rows, BLOCK):
            n = min(BLOCK, case.rows - start)
            inner = centres[rng.integers(100, size=n)] + rng.standard_normal((n, STRENGTHS), dtype=np.float32)
            out[start : start + n] = inner @ basis + noise * rng.standard_normal((n, case.columns), dtype=np.float32)
        out.flush()
    return path


def fitting(case: Case, data: Path, model: Path, *more: str) -> list[str]:
    """The command that learns."""
    options = [f"--bits={case.bits}", f"--memory={case.memory}", *case.options, *more]
    return [sys.executable, "-W", "ignore", "-m", "isch", "fit", str(data), "-o", str(model), "--force", *options]


def encoding(data: Path, model: Path, codes: Path, *more: str) -> list[str]:
    """The command that encodes."""
    return [sys.executable, "-m", "isch", "encode", str(model), str(data), "-o", str(codes), "--force", *more]


def watched(command: list[str], environment: dict[str, str] | None = None) -> tuple[float, float]:
    """(seconds, peak of memory in bytes) of a command and its children."""
    begin, peak = time.perf_counter(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    while process.poll() is None:
        peak = max(peak, anonymous(process.pid))
        time.sleep(0.02)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: {process.stderr.read().decode() if process.stderr else ''}")
    return time.perf_counter() - begin, float(peak)


def anonymous(pid: int) -> int:
    """Bytes that a process and its children have for themselves."""
    total = 0
    try:
        tree = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return 0
    for one in tree:
        try:
            lines = Path(f"/proc/{one}/status").read_text().splitlines()
        except OSError:
            continue
        total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
    return total


def product_seconds(case: Case) -> float:
    """The time of the bare products of encoding, on all cores."""
    X = np.random.default_rng(0).standard_normal((16_384, case.columns), dtype=np.float32)
    L = X[: case.bits].T.copy()
    X @ L
    begin = time.perf_counter()
    for _ in range(4):
        X @ L
    return (time.perf_counter() - begin) / 4 * case.rows / len(X)


def read_seconds(path: Path) -> float:
    """The time to read a file once."""
    begin = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        buffer = bytearray(16 << 20)
        while file.readinto(buffer):
            pass
    return time.perf_counter() - begin


def measure_memory(folder: Path, quick: bool) -> str:
    """Peak memory against the bound, and the share of CPU time in matrix products."""
    rows, counter = list[list[object]](), Counter(folder)
    for case in QUICK_MEMORY if quick else MEMORY:
        data, model = made(folder, case), folder / "model.safetensors"
        for what, command in (
            ("fit", fitting(case, data, model)),
            ("encode", encoding(data, model, folder / "codes.npy", f"--memory={case.memory}")),
        ):
            seconds, peak = watched(command, counter.environment)
            rows.append(memory_row(case, what, peak, counter.read(), seconds))
            print(rows[-1], flush=True)
    return report.table(MEMORY_HEAD, rows)


MEMORY_HEAD = ["features", "what", "bound", "peak", "peak / bound", "CPU time in products", "seconds"]


def memory_row(case: Case, what: str, peak: float, products: Products, seconds: float) -> list[object]:
    """What ``measure_memory`` says of one command."""
    share = peak / memory.n_bytes(case.memory)
    in_products = f"{products.seconds / products.total:.0%}"
    return [size_of(case), what, case.memory, memory.readable(peak), share, in_products, seconds]


def size_of(case: Case) -> str:
    """A case in words."""
    return f"{case.rows:,} × {case.columns:,} {case.dtype}, {case.bits} bits"


def measure_formula(folder: Path, quick: bool) -> str:
    """What --dry-run predicts, against what is then done."""
    rows, counter, read = list[list[object]](), Counter(folder), folder / "read"
    for case in QUICK_FORMULA if quick else FORMULA:
        data, model = made(folder, case), folder / "model.safetensors"
        read_seconds(data)  # into the page cache, for both alike
        command = fitting(case, data, model)
        plan = json.loads(subprocess.run([*command, "--dry-run", "--json"], check=True, capture_output=True).stdout)
        counted = [*command[:3], str(Path(__file__).with_name("counted.py")), str(read), *command[5:]]
        seconds, peak = watched(counted, counter.environment)
        flops = sum(stage["products"] for stage in plan["stages"])
        ratios = counter.read().flops / flops, float(read.read_text()) / plan["read"], peak / plan["least"]
        rows.append([size_of(case), flops / 1e12, plan["read"] / 1e9, *ratios, plan["seconds"], seconds])
        print(rows[-1], flush=True)
    head = ["features", "products, TFLOP", "read, GB", "flops / plan", "bytes / plan", "peak / least memory"]
    return report.table([*head, "seconds planned", "seconds taken"], rows)


def measure_speed(folder: Path, quick: bool) -> str:
    """Encoding against the slower of its two limits."""
    case = QUICK_SPEED if quick else SPEED
    data, model = made(folder, case), folder / "lsh.safetensors"
    subprocess.run([*fitting(case, data, model), "--method=lsh"], check=True, capture_output=True)
    np.save(few := folder / "few.npy", np.load(data, mmap_mode="r")[:BLOCK])
    rows: list[list[object]] = []
    for _ in range(1 if quick else 3):
        products, read = product_seconds(case), read_seconds(data)
        seconds = watched(encoding(data, model, folder / "codes.npy"))[0]
        start_up = watched(encoding(few, model, folder / "codes.npy"))[0]
        limit = max(products, read)
        rows.append([products, read, seconds, start_up, limit / seconds, limit / (seconds - start_up)])
        print(rows[-1], flush=True)
    head = ["products, s", "file read, s", "isch encode, s", f"of {BLOCK} rows, s", "limit / encode"]
    text = report.table([*head, "limit / (encode − start-up)"], rows)
    return (
        f"{case.rows:,} × {case.columns:,} {case.dtype}, {case.bits} bits. The limit is the slower of both.\n\n{text}"
    )


def measure_size(folder: Path, quick: bool) -> str:
    """Time of a fit against its number of rows."""
    rows, taken = list[list[object]](), list[tuple[int, float]]()
    for case in QUICK_SIZES if quick else SIZES:
        seconds, peak = watched(fitting(case, made(folder, case), folder / "model.safetensors"))
        first = float(str(rows[0][1])) * case.rows / int(str(rows[0][0]).replace(",", "")) if rows else seconds
        rows.append([f"{case.rows:,}", seconds, seconds / first, memory.readable(peak)])
        taken.append((case.rows, seconds))
        print(rows[-1], flush=True)
    if not quick:
        draw(taken)
    text = report.table(["rows", "fit, s", "time / linear from the first", "peak"], rows)
    return f"{text}\n\n![Time of a fit against its number of rows](figures/{FIGURE.name})"


def draw(taken: list[tuple[int, float]]) -> None:
    """The time of a fit against its number of rows, beside a line through the first and the origin."""
    from matplotlib.figure import Figure

    rows, seconds = np.array(taken).T
    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axis = figure.subplots()
    axis.plot(np.r_[0, rows], np.r_[0, rows] * seconds[0] / rows[0], "--", color="0.6", label="linear from the first")
    axis.plot(rows, seconds, "o-", label="isch fit")
    axis.set(xlabel="rows", ylabel="seconds", xlim=(0, None), ylim=(0, None))
    axis.legend(frameon=False)
    figure.savefig(FIGURE, metadata={"Date": None})


@contextmanager
def cluster() -> Iterator[str]:
    """The address of two worker processes of one thread each."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as running:
        yield running.scheduler_address


def measure_cluster(folder: Path, quick: bool) -> str:
    """Two workers of one thread against two threads here: time, and bits that differ."""
    case = QUICK_CLUSTER if quick else CLUSTER
    data, rows, found = made(folder, case), list[list[object]](), {}
    with cluster() as address:
        for place, more in (("here", []), ("there", [f"--cluster={address}"])):
            model, codes = folder / f"{place}.safetensors", folder / f"{place}.npy"
            seconds = watched(fitting(case, data, model, *more))[0], watched(encoding(data, model, codes, *more))[0]
            found[place] = (*seconds, packed.unpack(np.load(codes), case.bits))
    differing = float((found["here"][2] != found["there"][2]).mean())
    for i, what in enumerate(("fit", "encode")):
        here, there = found["here"][i], found["there"][i]
        rows.append([what, here, there, there / here, differing])
        print(rows[-1], flush=True)
    return report.table(["what", "here, s", "workers, s", "workers / here", "share of bits that differ"], rows)


def measure_kills(folder: Path, quick: bool) -> str:
    """Fits with a checkpoint, killed at random moments; a fit on workers that die: the same bytes."""
    case, kills, chance = QUICK_KILLS if quick else KILLS, 3 if quick else N_KILLS, random.Random(0)
    data, whole, model = made(folder, case), folder / "whole.safetensors", folder / "killed.safetensors"
    seconds = watched(fitting(case, data, whole))[0]
    model.unlink(missing_ok=True)
    command = fitting(case, data, model, f"--checkpoint={folder / 'stages'}")
    killed, ends = 0, list[str]()
    while killed < kills or not ends:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(chance.uniform(0.1, 0.6) * seconds if killed < kills else None)
            ends.append(same_bytes(model, whole))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
    rows: list[list[object]] = [[f"isch fit --checkpoint, through {len(ends)} times", killed, min(ends)]]
    print(rows[-1], flush=True)
    lost = 1 if quick else 4
    rows.append([f"Dask workers in the middle of a pass, {size_of(case)}", lost, workers_lost(case, folder, lost)])
    print(rows[-1], flush=True)
    return report.table(["what is killed", "kills", "same bytes as without"], rows)


def same_bytes(one: Path, other: Path) -> str:
    """Whether two files are equal, in words."""
    return "yes" if one.read_bytes() == other.read_bytes() else "NO"


def workers_lost(case: Case, folder: Path, count: int) -> str:
    """A fit on two workers, one of which is killed each time a pass is under way."""
    from distributed import LocalCluster

    data, whole, model = made(folder, case), folder / "whole.safetensors", folder / "lost.safetensors"
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as running:
        command = fitting(case, data, model, f"--cluster={running.scheduler_address}", "--log-json")
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in process.stderr or ():
            begun = line.startswith('{"event": "begin"') and '"unit": "rows"' in line
            if begun and count:
                time.sleep(0.3)
                victim = next(iter(running.workers.values())).process
                os.kill(victim.pid, signal.SIGKILL)
                count -= 1
        return "NO" if process.wait() or count else same_bytes(model, whole)


PARTS = {
    "memory": ("Peak memory against the bound", measure_memory),
    "formula": ("What `isch fit --dry-run` says against what is then done", measure_formula),
    "speed": ("Encoding against the slower of product and read", measure_speed),
    "size": ("Time of a fit against the number of rows", measure_size),
    "cluster": ("Two Dask workers of one thread against two threads", measure_cluster),
    "kills": ("SIGKILL at random moments", measure_kills),
}


def main() -> None:
    """Print and record the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is recorded")
    parser.add_argument("--only", default=",".join(PARTS), help="some of %(default)s")
    parser.add_argument("--folder", help="where the features lie and stay; by default a temporary folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(given.folder or temporary)
        folder.mkdir(exist_ok=True)
        os.environ.setdefault("TMPDIR", str(folder))
        for name in given.only.split(","):
            title, measured = PARTS[name]
            text = measured(folder, given.quick)
            if not given.quick:
                report.section(f"scale-{name}", f"## {title}\n\n{text}\n\n{report.machine('dask')}")


if __name__ == "__main__":
    main()
