"""From an opened picture, or an array, to 8-bit RGB.

A picture is converted in strips, straight into its upright place in the result. So memory holds only what Pillow
needs (4 bytes per pixel) and the result.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import InputError, require

Image = NDArray[np.uint8]  # decoded: (height, width, 3), RGB

STRIP = 1 << 20  # pixels converted at once
LARGE = 1 << 25  # pixels; larger pictures are decoded one at a time, and shrunk while decoding where that is allowed
ALPHA = frozenset(("RGBA", "LA", "PA", "RGBa", "La"))


class _Turns:
    """Admits one large picture at a time, so that several threads do not use up the memory together."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self._lock = threading.Lock()

    def wait(self, pixels: int) -> AbstractContextManager[Any]:
        return self._lock if pixels > LARGE else nullcontext()


turns = _Turns()


def rgb(image: Any, orientation: int = 1, factor: int = 1) -> Image:
    """An open PIL image as uint8 (height, width, 3), upright; ``factor`` times smaller if it is large."""
    image.load()
    if image.mode == "LAB":
        image = _from_lab(image)
    factor = factor if image.width * image.height > LARGE else 1
    height, width = -(-image.height // factor), -(-image.width // factor)
    out = np.empty((width, height, 3) if orientation in SWAPPED else (height, width, 3), np.uint8)
    place = stored(out, orientation)
    low, high = _range(image, factor) if _is_deep(image) else (0.0, 0.0)
    for top, strip in _strips(image, factor):
        part = _strip(strip, low, high) if factor == 1 else _shrunk(_strip(strip, low, high), factor)
        place[top // factor : top // factor + len(part)] = part
    return out


SWAPPED = frozenset((5, 6, 7, 8))  # EXIF orientations in which height and width change places


def stored(upright: NDArray[Any], orientation: int) -> NDArray[Any]:
    """A view of an upright picture with the rows and columns as the camera stored them."""
    turned = upright.swapaxes(0, 1) if orientation in SWAPPED else upright
    rows = slice(None, None, -1) if orientation in (3, 4, 6, 7) else slice(None)
    columns = slice(None, None, -1) if orientation in (2, 3, 7, 8) else slice(None)
    return turned[rows, columns]


def _strips(image: Any, factor: int) -> Iterator[tuple[int, Any]]:
    """(first row, rows of the picture); every strip but the last has a multiple of ``factor`` rows."""
    rows = max(1, STRIP // image.width // factor) * factor
    if rows >= image.height:
        yield 0, image
        return
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def _shrunk(part: Image, factor: int) -> Image:
    pil = require("PIL.Image", "images")
    return np.asarray(pil.fromarray(part).reduce(factor))


def _is_deep(image: Any) -> bool:
    return image.mode in ("I", "F") or image.mode.startswith("I;")


def _strip(strip: Any, low: float, high: float) -> Image:
    if _is_deep(strip):
        return from_array(_scaled(np.asarray(strip), low, high))
    if strip.mode == "La":
        strip = strip.convert("LA")
    if strip.mode in ALPHA or "transparency" in strip.info:
        return on_white(np.asarray(strip.convert("RGBA")))
    return np.asarray(strip if strip.mode == "RGB" else strip.convert("RGB"))


def _range(image: Any, factor: int) -> tuple[float, float]:
    """The values that become black and white in a grey picture with more than 8 bits or with floats.

    Unsigned 16-bit values keep their upper 8 bits, integers up to 255 stay, and other ranges are stretched.
    """
    extremes = [_extremes(np.asarray(strip)) for _, strip in _strips(image, factor)]
    low, high = min(low for low, _ in extremes), max(high for _, high in extremes)
    if image.mode.startswith("I;16"):
        return 0.0, 65535.0
    if image.mode == "I" and high <= 65535:
        return 0.0, 65535.0 if high > 255 else 255.0
    return low, high


def _extremes(values: NDArray[Any]) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def _scaled(values: NDArray[Any], low: float, high: float) -> Image:
    if high == 65535 and low == 0 and values.dtype.kind in "iu":
        return np.asarray(np.clip(values, 0, 65535) >> 8, np.uint8)
    finite = np.nan_to_num(values.astype(np.float64), nan=low, posinf=high, neginf=low)
    return np.asarray(((np.clip(finite, low, high) - low) * (255 / max(high - low, 1e-12))).round(), np.uint8)


def _from_lab(image: Any) -> Any:
    cms = require("PIL.ImageCms", "images")
    return cms.profileToProfile(image, cms.createProfile("LAB"), cms.createProfile("sRGB"), outputMode="RGB")


def on_white(rgba: Image) -> Image:
    """A picture with transparency, laid on white."""
    alpha = rgba[..., 3:].astype(np.uint16)
    return ((rgba[..., :3] * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)


def from_array(array: NDArray[Any]) -> Image:
    """One picture from an array: grey (h, w) or (h, w, 1), RGB or RGBA; uint8, uint16, bool, or floats from 0 to 1."""
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        raise InputError(f"expected a picture (height, width), or with 1, 3 or 4 channels; got shape {array.shape}")
    bytes_ = _as_bytes(array)
    if bytes_.shape[2] == 4:
        return on_white(bytes_)
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
