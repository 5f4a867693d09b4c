"""Pictures as they are found: finding them in folders, and decoding each to 8-bit RGB.

A picture is a path, the bytes of a file, an array or a PIL image; decoded it is uint8 (height, width, 3).
"""

import io
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import FileError, FormatError, InputError, require
from isch.files import printable, reading

Image = NDArray[np.uint8]  # decoded: (height, width, 3), RGB
Source = Any  # a path, bytes, an array or a PIL image

MAX_PIXELS = 178_956_970  # Pillow's own limit against decompression bombs
SUFFIXES = frozenset(
    f".{suffix}"
    for suffix in (
        *("jpg", "jpeg", "jpe", "jfif", "png", "apng", "gif", "bmp", "dib", "tif", "tiff", "webp", "avif", "heic"),
        *("heif", "ppm", "pgm", "pbm", "pnm", "tga", "ico", "jp2", "j2k", "pcx"),
    )
)
SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"RIFF", b"P5", b"P6")


@dataclass(frozen=True)
class Failure:
    """A picture that could not be used, and why."""

    name: str
    reason: str


@dataclass
class Listing:
    """The pictures of a folder, and the folders that could not be read."""

    paths: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


def find(folder: str | os.PathLike[str]) -> Listing:
    """All pictures below a folder, sorted.

    A picture is a regular file with a usual suffix, or without suffix and with a picture's first bytes. Hidden files
    and folders are left out. Links are followed, each real folder is entered once, so loops end.
    """
    top = os.fspath(folder)
    if not os.path.isdir(top):
        raise FileError(f"{top}: no such folder")
    listing = Listing()
    seen: set[tuple[int, int]] = set()
    waiting = [top]
    while waiting:
        waiting.extend(reversed(_enter(waiting.pop(), listing, seen)))
    return listing


def _enter(folder: str, listing: Listing, seen: set[tuple[int, int]]) -> list[str]:
    """Add the pictures of one folder to the listing; gives its subfolders."""
    try:
        info = os.stat(folder)
        if (info.st_dev, info.st_ino) in seen:
            return []
        seen.add((info.st_dev, info.st_ino))
        with os.scandir(folder) as found:
            entries = sorted((entry for entry in found if not entry.name.startswith(".")), key=lambda e: e.name)
    except OSError as error:
        listing.failures.append(Failure(folder, f"the folder cannot be read ({error.strerror})"))
        return []
    folders = [entry.path for entry in entries if _is_folder(entry)]
    listing.paths.extend(entry.path for entry in entries if _is_picture(entry))
    return folders


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_picture(entry: os.DirEntry[str]) -> bool:
    suffix = os.path.splitext(entry.name)[1].lower()
    if suffix and suffix not in SUFFIXES:
        return False
    try:
        if not stat.S_ISREG(entry.stat().st_mode):
            return False
        return bool(suffix) or _looks_like_picture(entry.path)
    except OSError:  # a dangling link or an unreadable file: decoding will say what is wrong
        return bool(suffix)


def _looks_like_picture(path: str) -> bool:
    with reading(path) as file:
        return file.read(8).startswith(SIGNATURES)


def sources(images: Any) -> Iterable[Source]:
    """The pictures in what a user gave: a folder, one picture, an array of pictures, or any iterable of pictures."""
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
    """``n`` items drawn without replacement, in their order; one pass over an iterator, holding ``n`` at a time."""
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


def decode(source: Source, side: int | None = None) -> Image:
    """The picture as uint8 (height, width, 3).

    ``side``: a JPEG whose sides are more than twice as long may be decoded at a half, quarter or eighth of its size.
    Orientation is applied, transparency lies on white, of an animation the first frame is taken.
    """
    if isinstance(source, str | os.PathLike):
        return _read_file(source, side)
    if isinstance(source, bytes):
        return _read(io.BytesIO(source), "the picture", side)
    if _is_pil(source):
        return _from_pil(source)
    if hasattr(source, "__array__"):
        return from_array(np.asarray(source))
    raise InputError(f"expected a path, bytes, an array or a PIL image; got a {type(source).__name__}")


def _is_pil(source: Source) -> bool:
    return type(source).__module__.startswith("PIL.") and hasattr(source, "convert")


def _read_file(path: str | os.PathLike[str], side: int | None) -> Image:
    with reading(path) as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise FormatError(f"{printable(path)}: the file is empty")
        return _read(file, printable(path), side)


def _read(file: Any, where: str, side: int | None) -> Image:
    pil = require("PIL.Image", "images")
    try:
        with pil.open(file) as image:
            if image.width * image.height > MAX_PIXELS:
                raise pil.DecompressionBombError
            if side is not None:
                image.draft(None, (2 * side, 2 * side))
            return _from_pil(image)
    except pil.UnidentifiedImageError as error:
        raise FormatError(f"{where}: not a picture, or in a format that Pillow does not read") from error
    except pil.DecompressionBombError as error:
        raise FormatError(f"{where}: more than {MAX_PIXELS // 1_000_000} million pixels") from error
    except MemoryError as error:
        raise FormatError(f"{where}: too large for the memory there is") from error
    except Exception as error:  # decoders of damaged files raise nearly anything
        raise FormatError(f"{where}: damaged ({error})") from error


def _from_pil(image: Any) -> Image:
    image = _upright(image)
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
        return from_array(_deep(np.asarray(image)))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        return _on_white(np.asarray(image.convert("RGBA")))
    return np.asarray(image.convert("RGB"))


def _upright(image: Any) -> Any:
    """The picture turned as its EXIF orientation says; damaged EXIF says nothing."""
    ops = require("PIL.ImageOps", "images")
    image.load()
    try:
        return ops.exif_transpose(image)
    except Exception:  # an EXIF block of a stranger's camera
        return image


def _deep(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Grey values of more than 8 bits, or floats, as bytes: 16 bits keep the upper 8, other ranges are stretched."""
    top = values.max(initial=0)
    if values.dtype.kind in "iu" and (top <= 65535 or values.dtype == np.uint16):
        deep = values.dtype == np.uint16 or top > 255
        return np.asarray(np.maximum(values, 0) >> (8 if deep else 0), np.uint8)
    finite = np.nan_to_num(values.astype(np.float64))
    low, high = finite.min(), finite.max()
    return np.asarray(((finite - low) * (255 / max(high - low, 1e-12))).round(), np.uint8)


def _on_white(rgba: Image) -> Image:
    alpha = rgba[..., 3:].astype(np.uint16)
    return ((rgba[..., :3] * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)


def from_array(array: NDArray[Any]) -> Image:
    """An array of one picture: grey (h, w) or (h, w, 1), RGB, RGBA; bytes, 16 bits, booleans, floats from 0 to 1."""
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        raise InputError(f"expected a picture (height, width), or with 1, 3 or 4 channels; got shape {array.shape}")
    bytes_ = _as_bytes(array)
    if bytes_.shape[2] == 4:
        return _on_white(bytes_)
    return np.repeat(bytes_, 3, axis=2) if bytes_.shape[2] == 1 else bytes_


def _as_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.uint16:
        return (array >> 8).astype(np.uint8)
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if array.dtype.kind == "f" and array.min() >= 0 and array.max() <= 1:
        return (array * 255).round().astype(np.uint8)
    raise InputError(
        f"expected a picture of uint8, uint16, booleans, or floats from 0 to 1; got {array.dtype} "
        f"from {array.min()} to {array.max()}"
    )


def grey(image: Image) -> NDArray[np.float32]:
    """The mean of the channels, 0 to 255, (height, width)."""
    red, green, blue = np.moveaxis(image, 2, 0)  # added plainly: a mean over so short an axis takes five times as long
    return np.asarray((red.astype(np.float32) + green + blue) / np.float32(3))


def resize(image: Image, height: int, width: int) -> Image:
    """The picture at another size, smoothed when it shrinks (bilinear)."""
    pil = require("PIL.Image", "images")
    if image.shape[:2] == (height, width):
        return image
    return np.asarray(pil.fromarray(image).resize((width, height), pil.Resampling.BILINEAR))


def centre_square(image: Image, side: int, fraction: float = 1.0) -> Image:
    """The middle square, ``fraction`` of the shorter side, resized to ``side``."""
    pil = require("PIL.Image", "images")
    height, width = image.shape[:2]
    edge = fraction * min(height, width)
    left, top = (width - edge) / 2, (height - edge) / 2
    box = (left, top, left + edge, top + edge)
    return np.asarray(pil.fromarray(image).resize((side, side), pil.Resampling.BILINEAR, box=box))
