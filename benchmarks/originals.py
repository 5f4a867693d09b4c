"""Which copy of a photograph is kept: the original beside each copy that people make of it, and beside all at once.

    python benchmarks/originals.py ~/photos --pictures 12

Each photograph is stored once more as a camera would, and copied in every way below; EXIF is the original's alone
(``camera``), goes along into every copy that can have it (``kept``), or is nowhere (``none``). The copies then lie in a
library of their own, and the default rules choose. The table counts how often the original is kept. As in life, copies
are written later; with --no-times that says nothing, since they then claim to be older.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import alterations
import pillow_heif
from PIL import Image
from PIL.Image import Resampling
from report import table

from isch.describe.images import find
from isch.photos.catalog import Filter
from isch.photos.duplicates import Preference
from isch.photos.library import Library
from isch.photos.originals import examine

QUALITY = 88  # of the camera
STATES = ("camera", "kept", "none")
Save = Callable[[Image.Image, Path, dict[str, Any]], None]


def saved(alter: alterations.Alter, suffix: str, **options: Any) -> tuple[str, Save]:
    """A copy in a format."""

    def save(image: Image.Image, path: Path, exif: dict[str, Any]) -> None:
        alter(image).save(path, **options, **exif)

    return suffix, save


def same(image: Image.Image) -> Image.Image:
    return image


def larger(scale: float, resampling: Resampling) -> alterations.Alter:
    return lambda image: image.resize((round(scale * image.width), round(scale * image.height)), resampling)


COPIES: Mapping[str, tuple[str, Save]] = {
    "screenshot of a telephone": saved(
        alterations.screenshot((1170, 2532), "black", "white", "Back Share Edit"), "png"
    ),
    "HEIC": saved(same, "heic", quality=90),
    "enlarged, bicubic": saved(larger(2, Resampling.BICUBIC), "jpg", quality=92),
    "enlarged, Lanczos": saved(larger(2, Resampling.LANCZOS), "jpg", quality=92),
    "enlarged by half": saved(larger(1.5, Resampling.LANCZOS), "png"),
    "PNG": saved(same, "png"),
    "saved again, quality 97": saved(same, "jpg", quality=97),
    "saved again, quality 60": saved(same, "jpg", quality=60),
    "filter: sepia": saved(alterations.sepia, "jpg", quality=93),
    "filter: contrast": saved(alterations.contrast(1.2), "jpg", quality=93),
    "watermark": saved(alterations.written("SAMPLE", (0.5, 0.5), 0.15, (255, 255, 255, 130)), "jpg", quality=93),
    "border": saved(alterations.bordered(0.06, "white"), "jpg", quality=93),
    "grey": saved(alterations.grey, "jpg", quality=93),
    "crop": saved(alterations.all_round(0.06), "jpg", quality=93),
    "thumbnail": saved(alterations.fitted(240), "jpg", quality=93),
}


def exif() -> dict[str, Any]:
    """What a camera writes."""
    block = Image.Exif()
    block[0x010F] = "Camera Works"
    block[0x0110] = "Model 5"
    block.get_ifd(0x8769)[0x9003] = "2019:08:07 06:05:04"
    return {"exif": block}


def make(source: Path, folder: Path, state: str, chosen: Sequence[str], older: bool = False) -> None:
    """Write one photograph as a camera would, and copies of it, which may claim to be older."""
    folder.mkdir(parents=True)
    with Image.open(source) as opened:
        image = opened.convert("RGB").resize((opened.width * 9 // 10, opened.height * 9 // 10), Resampling.LANCZOS)
    image.save(folder / "original.jpg", quality=QUALITY, **({} if state == "none" else exif()))
    with Image.open(folder / "original.jpg") as opened:
        image = opened.convert("RGB")
    for name in chosen:
        suffix, save = COPIES[name]
        save(image, folder / f"{name}.{suffix}", exif() if state == "kept" else {})
        moment = (folder / "original.jpg").stat().st_mtime + (-60 if older else 60)
        os.utime(folder / f"{name}.{suffix}", (moment, moment))


def kept(folder: Path, home: Path) -> Iterator[tuple[str, str, str]]:
    """(photograph, copy, the file kept of it and the original), for each copy and for all together ("all")."""
    library = Library(folder, home)
    library.update()
    rules = Preference()
    for number in sorted(path.name for path in folder.iterdir()):
        pages = library.catalog.page
        items = {Path(item.path).stem: item for item in pages(Filter(folder=number), 0, 100)}
        original = items.pop("original")
        for name, group in [
            *((name, [original, item]) for name, item in items.items()),
            ("all", [original, *items.values()]),
        ]:
            choice = rules.choose(group, examine(library.catalog, [group]))
            yield number, name, Path(group[choice.index].path).stem
    library.close()


def main() -> int:
    """Make the copies, choose, print."""
    pillow_heif.register_heif_opener()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("photographs", type=Path, help="a folder of photographs of at least 500 pixels")
    parser.add_argument("--pictures", type=int, default=12)
    parser.add_argument("--no-times", action="store_true", help="let the copies claim to be older")
    chosen = parser.parse_args()
    every = find(chosen.photographs).paths
    sources = every[:: max(1, len(every) // chosen.pictures)][: chosen.pictures]
    rows: dict[str, list[int]] = {name: [0] * len(STATES) for name in (*COPIES, "all")}
    for column, state in enumerate(STATES):
        with tempfile.TemporaryDirectory() as folder:
            for number, source in enumerate(sources):
                make(Path(source), Path(folder) / "photos" / f"{number:03}", state, list(COPIES), chosen.no_times)
            for number, name, stem in kept(Path(folder) / "photos", Path(folder) / "home"):
                rows[name][column] += stem == "original"
                if stem != "original":
                    print(f"{state}: {stem} kept of {sources[int(number)]} and {name}", file=sys.stderr)
    head = [f"EXIF: {state}" for state in STATES]
    print(
        table(["copy", *head], [[name, *(f"{n} of {len(sources)}" for n in counts)] for name, counts in rows.items()])
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
