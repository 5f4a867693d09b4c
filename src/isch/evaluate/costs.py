"""What a run costs: seconds, memory, and on which machine."""

import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import isch
from isch import compute

STATUS = Path("/proc/self/status")
LIBRARIES = {"numpy", "scipy", "scikit-learn", "numba", "faiss-cpu"}  # whose versions a result notes
CLEAR_PEAK = "5"  # written to clear_refs, it makes Linux forget the peak so far


class Meter:
    """Seconds by name, and the memory taken since the meter was made."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = _memory("VmRSS") if _forget_peak() else None

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        """Time the block: NAME_seconds by the clock, NAME_cpu_seconds of the processors."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.seconds[f"{name}_seconds"] = round(time.perf_counter() - wall, 4)
        self.seconds[f"{name}_cpu_seconds"] = round(time.process_time() - cpu, 4)

    def peak(self) -> float | None:
        """The largest amount of memory in use beyond that at the start; None if the system does not tell."""
        highest = _memory("VmHWM")
        return None if self._start is None or highest is None else float(max(0, highest - self._start))


def _forget_peak() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text(CLEAR_PEAK)
    except OSError:
        return False
    return True


def _memory(field: str) -> int | None:
    if not STATUS.exists():
        return None
    lines = [line.split() for line in STATUS.read_text().splitlines()]
    return next((int(line[1]) * 1024 for line in lines if line and line[0] == f"{field}:"), None)


def context() -> dict[str, object]:
    """Versions, machine and date of a result."""
    return {
        "isch": isch.__version__,
        "versions": {d.name: d.version for d in metadata.distributions() if d.name in LIBRARIES},
        "python": platform.python_version(),
        "processor": processor(),
        "threads": compute.n_threads(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def processor() -> str:
    """The name of the processor."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
