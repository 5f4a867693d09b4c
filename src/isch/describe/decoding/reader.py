"""Reading a picture, or the facts about it, from an open file of any format."""

import io
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntFlag
from typing import BinaryIO

from isch.describe.decoding import exif, formats, pixels
from isch.describe.decoding.formats import Format, Limits
from isch.describe.decoding.opening import ANY, Opened, Target, guarded, identify, opened
from isch.describe.decoding.pixels import Image
from isch.describe.decoding.raw import ENOUGH, Raw
from isch.describe.decoding.tiff import Directory
from isch.errors import require

EDITORS = re.compile(
    "photoshop|lightroom|gimp|snapseed|picasa|instagram|canva|affinity|paint|pixelmator|vsco|darktable|rawtherapee|"
    "photoscape|acdsee|imagemagick|xnview|irfanview|luminar|capture one|picsart|polarr|meitu|fotor|pixlr|krita|topaz|"
    "gigapixel|upscal|photo editor|faststone|windows photo|ffmpeg|pillow",
    re.IGNORECASE,
)
TILES = re.compile(rb"infe.{8}grid", re.DOTALL)  # in the header of a HEIC: it is put together from tiles
HEADER = 1 << 16
STANDARD_TABLE = 3689  # the sum of JPEG's standard quantisation table for brightness, which is that of quality 50


class Trait(IntFlag):
    """What tells an original from its copies, as far as a header shows it."""

    NONE = 0
    DATED = 1  # EXIF says when it was taken
    EDITED = 2  # EXIF names a program that edits pictures
    RESIZED = 4  # EXIF speaks of another size
    TILED = 8  # HEIC made of tiles, as cameras write it and converters do not
    FRAMES = 16  # an animation, or several pages


@dataclass(frozen=True)
class Facts:
    """What a picture's header says. Texts are untrusted and cut to one line of at most 100 characters."""

    width: int  # upright, in pixels
    height: int
    format: str
    orientation: int  # as stored: 1 to 8, EXIF's numbers; 1 is upright
    taken: datetime | None  # in the camera's local time
    make: str
    model: str
    traits: Trait = Trait.NONE
    quality: int = 0  # of a JPEG, 1 to 100, by its quantisation; 0: unknown


def read(file: BinaryIO, where: str, target: Target, limits: Limits) -> Image:
    """The picture as uint8 (height, width, 3), upright; messages call it ``where``."""
    require("PIL.Image", "images")
    with guarded(where):
        format = identify(file, where, limits)
        return _read_raw(file, target, limits) if format is formats.RAW else _read(file, format, target, limits)


def facts(file: BinaryIO, where: str, limits: Limits) -> Facts:
    """The facts about a picture, without decoding it."""
    require("PIL.Image", "images")
    with guarded(where):
        format = identify(file, where, limits)
        if format is formats.RAW:
            return _raw_facts(file, limits)
        with opened(file, format, limits, ANY) as picture:
            return _opened_facts(file, format, picture)


def read_with_facts(file: BinaryIO, where: str, target: Target, limits: Limits) -> tuple[Image, Facts]:
    """The picture as ``read`` gives it, and the facts about it, from one look at its header."""
    require("PIL.Image", "images")
    with guarded(where):
        format = identify(file, where, limits)
        if format is formats.RAW:
            return _read_raw(file, target, limits), _raw_facts(file, limits)
        with opened(file, format, limits, target) as picture, pixels.turns.wait(picture.held):
            known = _opened_facts(file, format, picture)
            return _pixels(picture, format, known.orientation, target), known


def _opened_facts(file: BinaryIO, format: Format, picture: Opened) -> Facts:
    found = exif.of_file(file) if format is formats.TIFF else exif.of_image(picture.image)
    width, height = picture.width, picture.height  # already upright for a TIFF, which Pillow turns itself
    if format is not formats.TIFF and exif.orientation(found) in pixels.SWAPPED:
        width, height = height, width
    known = _facts(width, height, format, found)
    traits = known.traits | _shape(file, format, picture)
    return replace(known, traits=traits, quality=_quality(picture))


def _pixels(picture: Opened, format: Format, orientation: int, target: Target) -> Image:
    upright = 1 if format is formats.TIFF else orientation
    return pixels.rgb(picture.image, upright, target.factor(*picture.image.size))


def _facts(width: int, height: int, format: Format, found: Directory | None) -> Facts:
    make, model = exif.text(found, exif.MAKE), exif.text(found, exif.MODEL)
    traits = _traits(width, height, found)
    return Facts(width, height, format.name, exif.orientation(found), exif.taken(found), make, model, traits)


def _traits(width: int, height: int, found: Directory | None) -> Trait:
    """What EXIF tells of the way from the camera to this file."""
    traits = Trait.NONE
    if exif.shot(found):
        traits |= Trait.DATED
    if EDITORS.search(exif.text(found, exif.SOFTWARE)):
        traits |= Trait.EDITED
    recorded = exif.size(found)
    if recorded and sorted(recorded) != sorted((width, height)):
        traits |= Trait.RESIZED
    return traits


def _shape(file: BinaryIO, format: Format, picture: Opened) -> Trait:
    """What the structure of the file tells."""
    traits = Trait.NONE
    with suppress(Exception):  # the first frame may be fine where the next is damaged
        if getattr(picture.image, "is_animated", False):
            traits |= Trait.FRAMES
    if format is formats.HEIF:
        file.seek(0)
        if TILES.search(file.read(HEADER)):
            traits |= Trait.TILED
    return traits


def _quality(picture: Opened) -> int:
    """The quality of a JPEG on the scale of the Independent JPEG Group; 0 for other formats."""
    table = (getattr(picture.image, "quantization", None) or {}).get(0)
    if not table:
        return 0
    scale = 100 * sum(table) / STANDARD_TABLE
    quality = 100 - scale / 2 if scale <= 100 else 5000 / scale
    return int(min(100, max(1, round(quality))))


def _read(file: BinaryIO, format: Format, target: Target, limits: Limits) -> Image:
    with opened(file, format, limits, target) as picture, pixels.turns.wait(picture.held):
        return _pixels(picture, format, exif.orientation(exif.of_image(picture.image)), target)


def _read_raw(file: BinaryIO, target: Target, limits: Limits) -> Image:
    """The preview if it is large enough, otherwise the developed picture if that works."""
    with Raw(file, limits) as raw:
        preview = _preview(raw, target, limits)
        enough = min(target.side or ENOUGH, raw.width // 2, raw.height // 2)
        if preview is not None and min(preview.shape[:2]) >= enough:
            return preview
        try:
            return raw.developed()
        except raw.errors:
            if preview is None:
                raise
            return preview


def _preview(raw: Raw, target: Target, limits: Limits) -> Image | None:
    found = raw.preview()
    if not isinstance(found, bytes):
        return found
    file = io.BytesIO(found)
    with suppress(Exception):  # the preview is damaged, but the rest of the file may be fine
        return _read(file, identify(file, "", limits), target, limits)
    return None


def _raw_facts(file: BinaryIO, limits: Limits) -> Facts:
    """The camera's name is at the beginning of the file, or in the preview."""
    with Raw(file, limits) as raw:
        found = exif.of_file(file)
        preview = raw.preview() if found is None or exif.MAKE not in found.entries else None
        if isinstance(preview, bytes):
            with suppress(Exception), opened(io.BytesIO(preview), formats.JPEG, limits, ANY) as picture:
                found = exif.of_image(picture.image)
        turned = raw.orientation in pixels.SWAPPED
        width, height = (raw.height, raw.width) if turned else (raw.width, raw.height)
        return replace(_facts(width, height, formats.RAW, found), orientation=raw.orientation)
