"""Larger than memory, larger than one machine: peak memory, time against size, a cluster, killed runs.

python benchmarks/scale.py            the sizes of docs/scaling.md; needs 20 GB of disk and an hour or two
python benchmarks/scale.py --quick    the same at small sizes, which records nothing
python benchmarks/scale.py --only memory,wide,formula,speed,size,cluster,kills

Features are random with a decaying spectrum and clusters. Commands run as processes of their own. Their memory is what
only they have (``RssAnon`` of the process and its children), so that the page cache is not counted.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import report
from cases import BLOCK, Case, encoding, fitting, made, size_of
from kills import measure_kills
from products import Counter, Products

from isch import codes as packed
from isch.compute import memory
from isch.fitting.plan import PROGRAM

FIGURE = report.DOCUMENT.parent / "figures" / "scale-size.svg"

MEMORY = Case(120_000, 25_600, "float16", 3200, "3GB", ("--set=n_branches=128",))
WIDE = Case(20_000, 105_000, "float16", 3200, "6GB")
FORMULA = [
    Case(20_000, 1280, "float32", 128, "4GB"),
    Case(60_000, 1280, "float32", 256, "4GB"),
    Case(20_000, 8192, "float16", 512, "2GB"),
    Case(20_000, 25_600, "float16", 1024, "3GB"),
]
SPEED = Case(1_000_000, 1280, "float32", 256, "4GB")
SIZES = [Case(n, 1280, "float32", 256, "4GB", (f"--set=max_samples={n}",)) for n in (25_000, 50_000, 100_000, 200_000)]
CLUSTER = Case(1_000_000, 1280, "float32", 1536, "4GB", ("--set=max_samples=30000", "--set=block_size=128"))
TREE = ("--set=dictionary=hierarchical", "--set=n_branches=8")
QUICK_MEMORY = Case(2000, 1000, "float16", 64, "1GB", TREE)
QUICK_WIDE = Case(300, 6000, "float16", 32, "1GB", TREE)
QUICK_FORMULA = [Case(3000, 256, "float32", 64, "1GB")]
QUICK_SPEED = Case(20_000, 1280, "float32", 256, "4GB")
QUICK_SIZES = [Case(n, 64, "float32", 16, "4GB", (f"--set=max_samples={n}",)) for n in (1000, 2000)]
QUICK_CLUSTER = Case(3000, 64, "float32", 16, "4GB")


def watched(command: list[str], environment: dict[str, str] | None = None) -> tuple[float, float]:
    """(seconds, peak of memory in bytes) of a command and its children."""
    with tempfile.TemporaryFile("w+") as errors:
        begin, peak = time.perf_counter(), 0
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, env=environment)
        while process.poll() is None:
            peak = max(peak, anonymous(process.pid))
            time.sleep(0.05)
        seconds = time.perf_counter() - begin
        if process.returncode:
            errors.seek(0)
            raise SystemExit(f"{' '.join(command)}: {errors.read()}")
    return seconds, float(peak)


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


def timed(command: list[str]) -> float:
    """The seconds of a command, of which nothing is watched."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begin


def product_seconds(case: Case) -> float:
    """The time of the bare products of encoding, on all cores, of rows that are in memory."""
    X = np.random.default_rng(0).standard_normal((16_384, case.columns), dtype=np.float32)
    L = X[: case.bits].T.copy()
    out, rounds = X @ L, max(1, case.rows // len(X))
    begin = time.perf_counter()
    for _ in range(rounds):
        np.matmul(X, L, out=out)
    return (time.perf_counter() - begin) / rounds * case.rows / len(X)


def read_seconds(path: Path) -> float:
    """The time to read a file once."""
    begin = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        buffer = bytearray(16 << 20)
        while file.readinto(buffer):
            pass
    return time.perf_counter() - begin


def measure_memory(folder: Path, quick: bool) -> str:
    """A fit and an encoding of many rows within their memory."""
    return bounded(folder, QUICK_MEMORY if quick else MEMORY)


def measure_wide(folder: Path, quick: bool) -> str:
    """A fit and an encoding of wide rows within their memory."""
    return bounded(folder, QUICK_WIDE if quick else WIDE)


def bounded(folder: Path, case: Case) -> str:
    """Peak memory against the bound, and the share of CPU time in matrix products."""
    rows, counter, stages = list[list[object]](), Counter(folder), folder / f"{case.name}.stages"
    data, model = made(folder, case), folder / f"{case.name}.safetensors"
    continued = "fit, the rest of an interrupted one" if stages.exists() else "fit"
    for what, command in (
        (continued, fitting(case, data, model, f"--checkpoint={stages}")),
        ("encode", encoding(data, model, folder / "codes.npy", f"--memory={case.memory}")),
    ):
        seconds, peak = watched(command, counter.environment)
        rows.append(bounded_row(case, what, peak, counter.read(), seconds))
        print(rows[-1], flush=True)
    head = ["what", "bound", "peak", "peak / bound", "CPU time in products", "CPU seconds", "seconds"]
    return f"{size_of(case)}. CPU seconds are those of all cores.\n\n{report.table(head, rows)}"


def bounded_row(case: Case, what: str, peak: float, products: Products, seconds: float) -> list[object]:
    """What ``bounded`` says of one command."""
    share = peak / memory.n_bytes(case.memory)
    in_products = f"{products.seconds / products.total:.0%}"
    times = f"{products.total:,.0f}", f"{seconds:,.0f}"
    return [what, case.memory, memory.readable(peak), share, in_products, *times]


def measure_formula(folder: Path, quick: bool) -> str:
    """What --dry-run predicts, against what is then done within the least memory that it names."""
    rows, counter, read = list[list[object]](), Counter(folder), folder / "read"
    for case in QUICK_FORMULA if quick else FORMULA:
        data, model = made(folder, case), folder / "model.safetensors"
        read_seconds(data)  # into the page cache, for both alike
        plan = planned(fitting(case, data, model))
        command = fitting(replace(case, memory=str(plan["least"])), data, model)
        counted = [*command[:3], str(Path(__file__).with_name("counted.py")), str(read), *command[5:]]
        seconds, peak = watched(counted, counter.environment)
        flops = sum(stage["products"] for stage in plan["stages"])
        products = [flops / 1e12, counter.read().flops / flops]
        bytes_read = [plan["read"] / 1e9, float(read.read_text()) / plan["read"]]
        least = plan["least"] + plan["program"]
        held = [memory.readable(least), memory.readable(peak), peak / least]
        rows.append([size_of(case), *products, *bytes_read, *held, plan["seconds"], seconds, seconds / plan["seconds"]])
        print(rows[-1], flush=True)
    return f"{report.table(FORMULA_HEAD, rows)}\n\n{loaded(folder)}"


FORMULA_HEAD = [
    "features",
    "products, TFLOP",
    "done / planned",
    "read, GB",
    "done / planned",
    "memory",
    "peak",
    "peak / planned",
]
FORMULA_HEAD += ["seconds planned", "taken", "taken / planned"]


def planned(command: list[str]) -> dict[str, Any]:
    """What --dry-run says of a fit."""
    plan: dict[str, Any] = json.loads(
        subprocess.run([*command, "--dry-run", "--json"], check=True, capture_output=True).stdout
    )
    return plan


def loaded(folder: Path) -> str:
    """What a process takes before it reads any feature."""
    case = Case(300, 16, "float32", 8, "1GB")
    peak = watched(fitting(case, made(folder, case), folder / "model.safetensors"))[1]
    return f"""The fit was given the memory that the plan names as the least, so what is larger lay in files. To
it come {memory.readable(PROGRAM)} for the program itself; a fit of {size_of(case)} takes {memory.readable(peak)}. A
long fit measures speeds first, by reading for .3 seconds: those bytes count as read, too."""


def measure_speed(folder: Path, quick: bool) -> str:
    """Encoding against the slower of its two limits."""
    case = QUICK_SPEED if quick else SPEED
    data, model = made(folder, case), folder / "lsh.safetensors"
    subprocess.run([*fitting(case, data, model), "--method=lsh"], check=True, capture_output=True)
    np.save(few := folder / "few.npy", np.load(data, mmap_mode="r")[:BLOCK])
    rows: list[list[object]] = []
    for _ in range(1 if quick else 3):
        products, read = product_seconds(case), read_seconds(data)
        seconds = timed(encoding(data, model, folder / "codes.npy"))
        start_up = timed(encoding(few, model, folder / "codes.npy"))
        limit = max(products, read)
        rows.append([products, read, seconds, start_up, limit / seconds, limit / (seconds - start_up)])
        print(rows[-1], flush=True)
    head = ["products, s", "file read, s", "isch encode, s", f"of {BLOCK:,} rows, s", "limit / encode"]
    text = report.table([*head, "limit / (encode − start-up)"], rows)
    return f"{size_of(case)}.\n\n{SPEED_TEXT}\n\n{text}"


SPEED_TEXT = f"""The limit is the slower of two: the products alone, by NumPy on all cores, of rows in memory;
and reading the file once, which is in the page cache here. Start-up is the time of the same command for {BLOCK:,} rows:
it loads Python, the packages and the model."""


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
            seconds = timed(fitting(case, data, model, *more)), timed(encoding(data, model, codes, *more))
            found[place] = (*seconds, packed.unpack(np.load(codes), case.bits))
    differing = float((found["here"][2] != found["there"][2]).mean())
    for i, what in enumerate(("fit", "encode")):
        here, there = found["here"][i], found["there"][i]
        rows.append([what, here, there, there / here, differing])
        print(rows[-1], flush=True)
    text = report.table(["what", "here, s", "workers, s", "workers / here", "share of bits that differ"], rows)
    return f"{size_of(case)}, {' '.join(case.options)}.\n\n{text}"


PARTS = {
    "memory": ("Peak memory against the bound, many rows", measure_memory),
    "wide": ("Peak memory against the bound, wide rows", measure_wide),
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
                record(name, f"{title}\n\n{text}\n\n{report.machine('dask')}")


def record(name: str, text: str) -> None:
    """Write a section: what formulas say goes beside the formulas."""
    if name == "formula":
        report.section(f"scale-{name}", f"### {text}", report.DOCUMENT.with_name("scaling.md"))
    else:
        report.section(f"scale-{name}", f"## {text}")


if __name__ == "__main__":
    main()
