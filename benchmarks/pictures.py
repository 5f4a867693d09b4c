"""What one picture costs: memory beside the 1.2 GB that docs/descriptors.md states, and time beside bare Pillow.

python benchmarks/pictures.py                # 40 million pixels each; time needs $ISCH_DATA
python benchmarks/pictures.py MEGAPIXELS     # other sizes; prints only

Each picture is read in a process of its own. Memory beyond that of the started process grows with the pixels, so the
peak at the format's limit is the bytes per pixel times the limit.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image as Pil
from report import machine, section, table

from isch.describe.decoding import formats
from isch.describe.images import decode, find

DATA = Path(os.environ.get("ISCH_DATA", "datasets"))
STATED = 1.2  # GB
MEGAPIXELS = 40.0
SIDE = 224
CHILD = r"""
import io, re, sys
from pathlib import Path
from PIL import Image
from isch.describe import images
small = io.BytesIO()
Image.new("RGB", (80, 80)).save(small, "png")
images.decode(small.getvalue(), 64)  # so that libraries are loaded and do not count
def peak(): return 1024 * int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
before = peak()
images.decode(sys.argv[1], eval(sys.argv[2]))
print(peak() - before)
"""


def pictures(folder: Path, megapixels: float) -> list[tuple[str, Path, formats.Format]]:
    """(name, file, format) of the same picture in formats that decode differently."""
    import pillow_heif

    side = int((megapixels * 1e6) ** 0.5)
    noise = np.random.default_rng(0).integers(0, 256, (side // 64, side // 64, 3), dtype=np.uint8)
    picture = Pil.fromarray(noise).resize((side, side), Pil.Resampling.BILINEAR)
    ways = [
        ("JPEG", "a.jpg", formats.JPEG, {}),
        ("JPEG, progressive 4:4:4", "p.jpg", formats.JPEG, {"progressive": True, "subsampling": 0}),
        ("PNG", "a.png", formats.PNG, {"compress_level": 1}),
        ("TIFF, deflate", "a.tif", formats.TIFF, {"compression": "tiff_deflate"}),
        ("WebP", "a.webp", formats.WEBP, {"method": 0}),
        ("AVIF", "a.avif", formats.AVIF, {"speed": 10}),
        ("JPEG 2000", "a.jp2", formats.JPEG2000, {}),
    ]
    for _, name, _, options in ways:
        picture.save(folder / name, **options)
    pillow_heif.from_pillow(picture).save(folder / "a.heic", quality=30)
    return [(title, folder / name, format) for title, name, format, _ in ways] + [
        ("HEIC", folder / "a.heic", formats.HEIF)
    ]


def peak(path: Path, side: int | None) -> float:
    """Bytes that reading the picture adds to the process."""
    command = [sys.executable, "-c", CHILD, str(path), str(side)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def memory(megapixels: float) -> str:
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, path, format in pictures(folder, megapixels):
            for side in (None, SIDE):
                per_pixel = peak(path, side) / (megapixels * 1e6)
                limit = formats.PROGRESSIVE_PIXELS if "progressive" in title else format.pixels
                most = per_pixel * limit / 1e9
                decoded = "whole" if side is None else f"for {side} × {side}"
                rows.append([title, decoded, per_pixel, limit // 10**6, most, most / STATED])
                print(*rows[-1], sep=" | ", flush=True)
    header = ["format", "decoded", "bytes per pixel", "limit, million pixels", "GB at the limit", f"of {STATED} GB"]
    return table(header, rows)


def rate(read: Callable[[str], object], paths: list[str]) -> float:
    """Pictures per second, the best of three runs."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        for path in paths:
            read(path)
        seconds.append(time.perf_counter() - start)
    return len(paths) / min(seconds)


def bare(path: str) -> object:
    with Pil.open(path) as picture:
        picture.draft(None, (2 * SIDE, 2 * SIDE))
        return np.asarray(picture.convert("RGB"))


def speed() -> str:
    rows: list[list[object]] = []
    for title, folder, n in (("thumbnails", "tiny-imagenet-20k", 2000), ("photographs", "flowers-400", 100)):
        paths = find(DATA / folder).paths[:n]
        ours, theirs = rate(lambda path: decode(path, SIDE), paths), rate(bare, paths)
        rows.append([title, ours, theirs, ours / theirs])
        print(*rows[-1], sep=" | ", flush=True)
    return table(["JPEGs", "isch, pictures/s", "bare Pillow, pictures/s", "ratio"], rows)


def main() -> None:
    parts = ["## What one picture costs", memory(float(sys.argv[1]) if len(sys.argv) > 1 else MEGAPIXELS)]
    if (DATA / "flowers-400").exists():
        parts.append(speed())
    parts.append(machine("pillow", "pillow-heif"))
    if len(sys.argv) == 1:
        section("pictures", "\n\n".join(parts))


if __name__ == "__main__":
    main()
