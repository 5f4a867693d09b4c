"""Commands that are killed at random moments and begun again, for ``scale.py``: they must end with the same bytes."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import report
from cases import Case, encoding, fitting, made, size_of

OPTIONS = ("--set=n_branches=16", "--set=spectrum=randomized", "--set=block_size=64")
FIT = Case(6000, 4500, "float16", 128, "2GB", OPTIONS)
ENCODE = Case(1_000_000, 1280, "float32", 256, "4GB", ("--method=lsh",))
QUICK_FIT = Case(2000, 200, "float16", 32, "2GB", ("--set=dictionary=hierarchical", "--set=n_branches=8"))
QUICK_ENCODE = Case(20_000, 1280, "float32", 256, "4GB", ("--method=lsh",))
FORMS = {".npy": [], ".zarr": [], "": ["--shards"]}


def measure_kills(folder: Path, quick: bool) -> str:
    """Fits, encodings and workers that are killed."""
    chance = random.Random(0)
    fit, encode = (QUICK_FIT, QUICK_ENCODE) if quick else (FIT, ENCODE)
    rows = [fits_killed(folder, fit, 2 if quick else 20, chance)]
    rows += [
        encoding_killed(folder, encode, form, 1 if quick else 3, chance) for form in list(FORMS)[: 1 if quick else 3]
    ]
    rows += [] if quick else [workers_lost(folder, fit, 4, chance)]  # small passes are over before a worker is killed
    return report.table(["what is killed", "kills", "in which stage", "same bytes as without"], rows)


def fits_killed(folder: Path, case: Case, kills: int, chance: random.Random) -> list[object]:
    """A fit with a checkpoint that is killed, again and again: first once in each stage, then at any moment."""
    data, whole, model = made(folder, case), folder / "whole.safetensors", folder / "killed.safetensors"
    begin = time.monotonic()
    stages = durations(ran(fitting(case, data, whole, "--log-json")))
    seconds = time.monotonic() - begin
    command = fitting(case, data, model, f"--checkpoint={folder / 'stages'}", "--log-json")
    hit, same = Counter[str](), list[bool]()
    while hit.total() < kills or not same:
        missing = [stage for stage in stages if stage not in hit]
        after = chance.choice(missing) if missing else None
        delay = chance.uniform(0, stages[after] if after else seconds) if hit.total() < kills else None
        stage = killed(command, folder / "log", after, delay)
        hit.update([stage] if stage else [])
        same += [] if stage else [model.read_bytes() == whole.read_bytes()]
    text = ", ".join(f"{stage} {hit[stage]}" for stage in dict.fromkeys([*stages, *hit]))
    return printed([f"isch fit --checkpoint, through {len(same)} times, {size_of(case)}", hit.total(), text, yes(same)])


def encoding_killed(folder: Path, case: Case, form: str, kills: int, chance: random.Random) -> list[object]:
    """An encoding that is killed and goes on."""
    data, model = made(folder, case), folder / "lsh.safetensors"
    ran(fitting(case, data, model))
    whole, codes = folder / f"whole{form}", folder / f"killed{form}"
    remove(whole, codes)
    seconds = sum(durations(ran(encoding(data, model, whole, "--log-json", *FORMS[form]))).values())
    command, count = encoding(data, model, codes, "--log-json", *FORMS[form]), 0
    while count < kills and killed(command, folder / "log", "encoding", chance.uniform(0, seconds / 2)):
        count += 1
    missing = sum(event["total"] for event in ran(command) if event["event"] == "begin")
    there = f"the last run found {1 - missing / case.rows:.0%} there"
    name = f"isch encode -o codes{form} {' '.join(FORMS[form])}".strip()
    return printed([f"{name}, {size_of(case)}", count, there, yes([content(codes) == content(whole)])])


def workers_lost(folder: Path, case: Case, count: int, chance: random.Random) -> list[object]:
    """Fits on two workers, one of which is killed in the middle of a pass."""
    from distributed import LocalCluster

    data, whole, model = made(folder, case), folder / "whole.safetensors", folder / "lost.safetensors"
    lost, same = Counter[str](), list[bool]()
    alone = dict(
        os.environ
    )  # a cluster sets OMP_NUM_THREADS in this process; BLAS rounds differently with fewer threads
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as running:
        command = fitting(case, data, model, f"--cluster={running.scheduler_address}", "--log-json")
        while lost.total() < count:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=alone)
            delays = dict[str, float]()
            for event in map(json.loads, process.stderr or ()):
                stage = event["stage"]
                if event["event"] == "begin" and event["unit"] == "rows" and lost.total() < count:
                    delays[stage] = chance.uniform(0, 0.2)
                    time.sleep(delays[stage])
                    os.kill(chance.choice([*running.workers.values()]).process.pid, signal.SIGKILL)
                elif event["event"] == "end" and event["seconds"] > delays.pop(stage, float("inf")):
                    lost[stage] += 1  # the pass was still under way
            same.append(not process.wait() and model.read_bytes() == whole.read_bytes())
    text = ", ".join(f"{stage} {n}" for stage, n in lost.items())
    return printed(["a Dask worker in the middle of a pass of the same fit", lost.total(), text, yes(same)])


def killed(command: list[str], log: Path, after: str | None, delay: float | None) -> str | None:
    """Run a command and kill it: the stage in which that was, or None if the command ended before.

    It is killed so many seconds after it began, or after a stage began; without a delay it is left alone.
    """
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file)
    moment = time.monotonic() + delay if delay is not None and after is None else None
    while process.poll() is None:
        if moment is None and delay is not None and after in begun(log):
            moment = time.monotonic() + delay
        if moment is not None and time.monotonic() >= moment:
            process.kill()
            process.wait()
            return (begun(log) or ["before the first"])[-1]
        time.sleep(0.005)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: {log.read_text()}")
    return None


def begun(log: Path) -> list[str]:
    """The stages that have begun, by the whole lines of a log."""
    lines = log.read_text().rpartition("\n")[0].splitlines()
    return [event["stage"] for event in map(json.loads, lines) if event["event"] == "begin"]


def ran(command: list[str]) -> list[dict[str, Any]]:
    """Run a command: the events of its log."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]


def durations(events: list[dict[str, Any]]) -> dict[str, float]:
    """The seconds of each stage; those of the last time, where it came several times."""
    return {event["stage"]: event["seconds"] for event in events if event["event"] == "end"}


def content(path: Path) -> list[tuple[str, bytes]]:
    """The bytes of a file, or of all files of a folder."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [(str(file.relative_to(path)), file.read_bytes()) for file in files if file.is_file()]


def remove(*paths: Path) -> None:
    """Remove what an earlier run left."""
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def yes(same: list[bool]) -> str:
    """Whether all are the same, in words."""
    return "yes" if all(same) else "NO"


def printed(row: list[object]) -> list[object]:
    """The row, which was printed."""
    print(row, flush=True)
    return row
