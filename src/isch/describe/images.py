"""Finding pictures in folders, and decoding each to 8-bit RGB.

A picture is a path, the bytes of a file, an array or a PIL image. A decoded picture is uint8 (height, width, 3).
"""

import io
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from isch.describe.decoding import exif, formats, pixels, reader
from isch.describe.decoding.formats import LIMITS as LIMITS
from isch.describe.decoding.formats import Limits as Limits
from isch.describe.decoding.opening import Target, guarded
from isch.describe.decoding.pixels import Image as Image
from isch.describe.decoding.pixels import from_array as from_array
from isch.describe.decoding.reader import Facts as Facts
from isch.errors import FileError, InputError, require
from isch.files import printable, reading

Source = Any  # a path, bytes, an array or a PIL image


@dataclass(frozen=True)
class Failure:
    """A picture that could not be used, and why."""

    name: str
    reason: str


@dataclass
class Listing:
    """The pictures of a folder, and the folders that could not be read."""

    paths: list[str] = field(default_factory=list)
    states: list[tuple[int, int] | None] = field(default_factory=list)  # (bytes, time in ns); None for a dangling link
    failures: list[Failure] = field(default_factory=list)


Entry = os.DirEntry[str]


def find(folder: str | os.PathLike[str], wanted: Callable[[Entry], bool] = lambda _: True) -> Listing:
    """Find all pictures below a folder, sorted.

    A picture is a regular file with a known suffix, or without a suffix but with the first bytes of a picture. Hidden
    files and folders are left out. Links are followed, but each real folder is entered only once, so loops end.

    Parameters
    ----------
    folder : path
        Where to look.
    wanted : function, optional
        Whether a subfolder is entered.
    """
    top = os.fspath(folder)
    if not os.path.isdir(top):
        raise FileError(f"{top}: no such folder")
    listing = Listing()
    seen: set[tuple[int, int]] = set()
    waiting = [top]
    while waiting:
        entries = _enter(waiting.pop(), listing, seen)
        waiting.extend(entry.path for entry in reversed(entries) if _is_folder(entry) and wanted(entry))
    return listing


def _enter(folder: str, listing: Listing, seen: set[tuple[int, int]]) -> list[Entry]:
    """Add the pictures of one folder to the listing; returns what is in it."""
    try:
        info = os.stat(folder)
        if (info.st_dev, info.st_ino) in seen:
            return []
        seen.add((info.st_dev, info.st_ino))
        with os.scandir(folder) as found:
            entries = sorted((entry for entry in found if entry.name[0] != "."), key=attrgetter("name"))
    except OSError as error:
        listing.failures.append(Failure(folder, f"the folder cannot be read ({error.strerror})"))
        return []
    for entry in entries:
        if _is_named_like_picture(entry.name):
            _list(entry, listing)
    return entries


def _is_folder(entry: Entry) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_named_like_picture(name: str) -> bool:
    """Whether a name has the suffix of a picture, or none."""
    _, dot, suffix = name.rpartition(".")
    return not dot or f".{suffix.lower()}" in formats.SUFFIXES


def _list(entry: Entry, listing: Listing) -> None:
    """Add an entry to the listing if it is a picture."""
    state, suffix = None, "." in entry.name
    try:
        info = entry.stat()
        if not stat.S_ISREG(info.st_mode) or not (suffix or _looks_like_picture(entry.path)):
            return
        state = info.st_size, info.st_mtime_ns
    except OSError:  # a dangling link or an unreadable file: decoding will say what is wrong
        if not suffix:
            return
    listing.paths.append(entry.path)
    listing.states.append(state)


def _looks_like_picture(path: str) -> bool:
    with reading(path) as file:
        return formats.recognised(file.read(formats.HEAD)) is not None


def sources(images: Any) -> Iterable[Source]:
    """The pictures in the input: a folder, one picture, an array of pictures, or any iterable of pictures."""
    if isinstance(images, str | os.PathLike):
        return find(images).paths if os.path.isdir(images) else [images]
    if isinstance(images, bytes) or _is_pil(images):
        return [images]
    if isinstance(images, np.ndarray) and images.dtype != object:
        _check_stack(images)
    if isinstance(images, Iterable) or hasattr(images, "__getitem__"):
        return images  # type: ignore[no-any-return]
    raise InputError(f"expected pictures (paths, arrays or PIL images); got a {type(images).__name__}")


def _check_stack(images: NDArray[Any]) -> None:
    if images.ndim == 4 or (images.ndim == 3 and images.shape[2] not in (3, 4)):
        return
    raise InputError(
        f"expected an array of pictures (n, height, width, 3) or (n, height, width), or a list of arrays for one "
        f"picture; got shape {images.shape}"
    )


def groups(items: Iterable[Source], size: int) -> Iterator[tuple[int, list[Source]]]:
    """(position of the first, items) of ``size`` consecutive items; the last group may be shorter."""
    iterator, start = iter(items), 0
    while group := list(islice(iterator, size)):
        yield start, group
        start += len(group)


def choose(items: Iterable[Source], n: int, rng: np.random.Generator) -> list[Source]:
    """``n`` items drawn without replacement, in order; reads an iterator once, with ``n`` items in memory."""
    if isinstance(items, Sequence | np.ndarray):
        rows = np.sort(rng.choice(len(items), n, replace=False)) if n < len(items) else range(len(items))
        return [items[row] for row in rows]
    kept: dict[int, Source] = {}  # slot: (position, item); reservoir sampling
    for position, item in enumerate(items):
        slot = position if position < n else int(rng.integers(position + 1))
        if slot < n:
            kept[slot] = (position, item)
    return [item for _, item in sorted(kept.values(), key=lambda pair: pair[0])]


def name_of(source: Source, position: int) -> str:
    """What messages call a picture."""
    return printable(source) if isinstance(source, str | os.PathLike) else f"picture {position}"


def decode(source: Source, side: int | None = None, limits: Limits = LIMITS) -> Image:
    """Decode a picture to uint8 (height, width, 3).

    The picture is turned upright, transparent parts become white, and of an animation the first frame is used.

    Parameters
    ----------
    source
        A path, the bytes of a file, an array or a PIL image.
    side
        The side to which the picture will be shrunk, if known. A JPEG more than twice as large may then be decoded at
        1/2, 1/4 or 1/8 of its size, and a large picture of another format may be shrunk while it is decoded.
    limits
        How much the picture may cost; checked before anything is decoded.

    Returns
    -------
    ndarray of uint8, (height, width, 3)

    Raises
    ------
    FileError
        The file cannot be read; ``FormatError`` if it is not a picture, is damaged, or is too large.
    InputError
        The source is of another type, or is an array that is not a picture.
    """
    return _decoded(source, Target(side), limits)


def thumbnail(source: Source, side: int, limits: Limits = LIMITS) -> Image:
    """The picture with its longer side shrunk to ``side``; a smaller picture does not change."""
    image = _decoded(source, Target(side, longer=True), limits)
    height, width = image.shape[:2]
    scale = side / max(height, width)
    return image if scale >= 1 else resize(image, max(1, round(height * scale)), max(1, round(width * scale)))


def facts(source: Source, limits: Limits = LIMITS) -> Facts:
    """Size, format, date taken and camera of a picture file (a path or bytes), without decoding it.

    Raises
    ------
    FileError
        As for ``decode``.
    """
    if not isinstance(source, str | os.PathLike | bytes):
        raise InputError(f"expected a path or the bytes of a file; got a {type(source).__name__}")
    with _opened(source) as (file, where):
        return reader.facts(file, where, limits)


def _decoded(source: Source, target: Target, limits: Limits) -> Image:
    if isinstance(source, str | os.PathLike | bytes):
        with _opened(source) as (file, where):
            return reader.read(file, where, target, limits)
    if _is_pil(source):
        with guarded("the picture"):
            return pixels.rgb(source, exif.orientation(exif.of_image(source)))
    if hasattr(source, "__array__"):
        return from_array(np.asarray(source))
    raise InputError(f"expected a path, bytes, an array or a PIL image; got a {type(source).__name__}")


def with_facts(file: BinaryIO, path: str, side: int | None = None, limits: Limits = LIMITS) -> tuple[Image, Facts]:
    """``decode`` and ``facts`` of a file that is open, or in memory, for little more than ``decode`` alone."""
    return reader.read_with_facts(file, printable(path), Target(side), limits)


@contextmanager
def _opened(source: str | os.PathLike[str] | bytes) -> Iterator[tuple[BinaryIO, str]]:
    """(the open file, what messages call it)."""
    if isinstance(source, bytes):
        yield io.BytesIO(source), "the picture"
        return
    with reading(source) as file:
        yield file, printable(source)


def _is_pil(source: Source) -> bool:
    return type(source).__module__.startswith("PIL.") and hasattr(source, "convert")


def grey(image: Image) -> NDArray[np.float32]:
    """The mean of the channels, 0 to 255, (height, width)."""
    red, green, blue = np.moveaxis(image, 2, 0)  # NumPy's mean over so short an axis takes five times as long
    return np.asarray((red.astype(np.float32) + green + blue) / np.float32(3))


def resize(image: Image, height: int, width: int) -> Image:
    """The picture at another size, smoothed when it shrinks (bilinear)."""
    pil = require("PIL.Image", "images")
    if image.shape[:2] == (height, width):
        return image
    return np.asarray(pil.fromarray(image).resize((width, height), pil.Resampling.BILINEAR))


def centre_square(image: Image, side: int, fraction: float = 1.0) -> Image:
    """The middle square, ``fraction`` of the shorter side, resized to ``side``, smoothed when it shrinks (bilinear)."""
    from isch.describe.resampling import resampled

    height, width = image.shape[:2]
    edge = fraction * min(height, width)
    left, top = (width - edge) / 2, (height - edge) / 2
    box = np.array([left, top, left + edge, top + edge], np.float32)
    square: Image = resampled(np.ascontiguousarray(image), box, side, side)
    return square
