"""Features of any size for ``scale.py``, random with a decaying spectrum and clusters, and commands that use them."""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

STRENGTHS, BLOCK = 200, 1024


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


def size_of(case: Case) -> str:
    """A case in words."""
    return f"{case.rows:,} × {case.columns:,} {case.dtype}, {case.bits} bits"
