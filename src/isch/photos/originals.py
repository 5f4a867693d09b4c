"""What the pixels of copies tell about which of them is the original.

    evidence = examine(catalog, groups)      # looks, and which pictures are enlargements; kept in the catalog
    look(picture)                            # share, detail, colour, earlier quality of one picture
    enlarged(small, large)                   # whether the larger one shows nothing that the smaller does not

Both need pictures at full size, so they are asked only of copies among which their headers do not decide.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch import compute, progress
from isch.describe.decoding.reader import Trait
from isch.describe.images import Image, decode, grey
from isch.errors import IschError, require
from isch.files import reading
from isch.photos import borders
from isch.photos.catalog import Catalog, Item, Look
from isch.photos.fingerprint import SIDE, square

VERSION = 1  # raise it when pictures are measured differently
TILE = 256  # pixels a side of the parts of a picture that are looked at
MOST_TILES = 24
FLOOR = 4.0  # power of what rounding and a good JPEG leave; detail is what rises above it
BANDS = 32
STEPS = np.geomspace(1.7, 40.0, 70)  # of quantisation that are tried
STANDARD = {(0, 1): 11, (1, 0): 12, (1, 1): 12, (2, 0): 14, (0, 2): 10, (1, 2): 14, (2, 1): 13, (3, 0): 14, (0, 3): 16}
LEAST_VALUES = 150  # coefficients from which a comb is seen
COMB = 0.35  # how clearly coefficients must lie on multiples of a step
LEAST_COMBS = 4  # frequencies at which they must
MARGIN = 1.05  # times the resolution of the smaller picture: from there on the larger one is alone
SPAN = 1.7  # times the same: interpolation leaves its traces below this
EXPLAINED = 0.4  # correlation of these traces from which they are interpolation
NOTHING = 2.0  # residual power (a JPEG of good quality leaves as much) from which the larger one shows more
CLEARLY = 1.45  # times larger: below, pictures have too little in common beyond the smaller one's resolution
_KERNELS = ("BICUBIC", "LANCZOS", "BILINEAR", "NEAREST")
_LEAST_SCALE = 1.15  # times larger: below, an enlargement does no harm
_ASPECT = 0.015  # the share by which the shapes of two versions may differ
_SHARE = 0.03  # by which the shares inside the borders may differ
_PLAIN = 3  # grey levels that a plain border may differ from its colour
_PLAIN_SHARE = 0.8
_MOST = 4  # smaller versions with which a picture is compared
_AT_ONCE = 32  # looks that are stored together
_TURN = np.pi / 16 * np.outer(np.arange(8), 2 * np.arange(8) + 1)
_DCT = np.asarray(np.cos(_TURN) * np.where(np.arange(8) == 0, 1 / np.sqrt(8), 0.5)[:, None], np.float32)


class Evidence(NamedTuple):
    """What is known of the copies in some groups."""

    looks: dict[str, Look]  # by content
    enlarged: set[str]  # the contents that show nothing that a smaller version in their group does not


def examine(catalog: Catalog, groups: Sequence[Sequence[Item]]) -> Evidence:
    """Look at the copies in those groups whose headers do not say which is the original."""
    doubtful = [group for group in groups if _is_doubtful(group)]
    items = {item.digest: item for group in doubtful for item in group}
    looks = catalog.looks(sorted(items), VERSION)
    missing = [item for digest, item in items.items() if digest not in looks]
    for start in range(0, len(missing), _AT_ONCE):
        some = missing[start : start + _AT_ONCE]
        with progress.task("comparing copies", len(missing), "pictures") as advance:
            advance(start)
            found = {item.digest: seen for item, seen in zip(some, compute.parallel(_seen, some), strict=True) if seen}
        catalog.keep_looks(found, VERSION)
        looks.update(found)
    pairs = [pair for group in doubtful for pair in _pairs(group, looks)]
    return Evidence(looks, {large.digest for small, large in pairs if _is_enlarged(catalog, small, large)})


def _is_doubtful(group: Sequence[Item]) -> bool:
    """Whether the headers leave open which copy is the original."""
    if len({item.digest for item in group}) == 1:
        return False
    untouched = {i.digest: i for i in group if i.camera and not i.traits & (Trait.EDITED | Trait.RESIZED)}
    if len(untouched) != 1:
        return True
    (one,) = untouched.values()
    return one.width * one.height < max(item.width * item.height for item in group)


def _pixels(item: Item) -> Image | None:
    """A picture at full size; None if it is no longer the one in the catalog, or cannot be read."""
    try:
        with reading(item.path) as file:
            content = file.read()
        return decode(content) if hashlib.sha256(content).hexdigest() == item.digest else None
    except IschError:
        return None


def _seen(item: Item) -> Look | None:
    picture = _pixels(item)
    return None if picture is None else look(picture)


def _pairs(group: Sequence[Item], looks: dict[str, Look]) -> Iterator[tuple[Item, Item]]:
    """(smaller, larger) version of a picture, of which the larger may be an enlargement."""
    known = {item.digest: item for item in group if item.digest in looks}
    for large in known.values():
        smaller = [small for small in known.values() if large.width >= _LEAST_SCALE * small.width]
        alike = [s for s in smaller if abs(s.width * large.height / (s.height * large.width) - 1) <= _ASPECT]
        framed = [s for s in alike if abs(looks[s.digest].share - looks[large.digest].share) <= _SHARE]
        yield from ((small, large) for small in sorted(framed, key=lambda s: (-s.width, s.id))[:_MOST])


def _is_enlarged(catalog: Catalog, small: Item, large: Item) -> bool:
    known = catalog.enlarged(small.digest, large.digest, VERSION)
    if known is None:
        pictures = _pixels(small), _pixels(large)
        if pictures[0] is None or pictures[1] is None:
            return False
        known = enlarged(pictures[0], pictures[1])
        catalog.keep_enlarged(small.digest, large.digest, VERSION, known)
    return known


def look(picture: Image) -> Look:
    """What one decoded picture, at full size, tells of itself."""
    inside = _inside(picture)
    share = inside.shape[0] * inside.shape[1] / (picture.shape[0] * picture.shape[1])
    return Look(share, _detail(inside), _colour(inside), earlier_quality(picture))


def _inside(picture: Image) -> Image:
    """The part of a picture inside borders that somebody added: those are plain, a dark background is not."""
    top, bottom, left, right = borders.content(np.rint(grey(square(picture))).astype(np.uint8)) / np.float64(SIDE)
    height, width = picture.shape[:2]
    rows = [round(top * height), round(bottom * height)]
    columns = [round(left * width), round(right * width)]
    middle = picture[rows[0] : rows[1]]
    if not _is_plain(picture[: rows[0]]):
        rows[0] = 0
    if not _is_plain(picture[rows[1] :]):
        rows[1] = height
    if not _is_plain(middle[:, : columns[0]]):
        columns[0] = 0
    if not _is_plain(middle[:, columns[1] :]):
        columns[1] = width
    return picture[rows[0] : rows[1], columns[0] : columns[1]]


def _is_plain(strip: Image) -> bool:
    """Whether nearly all of a strip has one colour; the rest may be writing, or what is left of the picture."""
    if not strip.size:
        return True
    some = strip[:: max(1, strip.shape[0] // TILE), :: max(1, strip.shape[1] // TILE)].reshape(-1, 3).astype(np.int16)
    near = np.abs(some - np.median(some, axis=0)).max(axis=1) <= _PLAIN
    return bool(near.mean() >= _PLAIN_SHARE)


def _colour(picture: Image) -> float:
    """How far the channels are apart on average, in grey levels."""
    some = picture[:: max(1, picture.shape[0] // TILE), :: max(1, picture.shape[1] // TILE)].astype(np.int16)
    return float((some.max(axis=2) - some.min(axis=2)).mean())


def _detail(picture: Image) -> float:
    """The finest detail as a share of what so many pixels can show."""
    frequency = _frequency(TILE)
    band = np.minimum((frequency * BANDS).astype(int), BANDS - 1).ravel()
    power = np.zeros(BANDS)
    tiles = list(_tiles(*picture.shape[:2]))
    for top, left in tiles:
        spectrum = np.abs(_spectrum(_tile(picture, top, left))) ** 2
        power += np.bincount(band, spectrum.ravel(), BANDS) / np.bincount(band, minlength=BANDS)
    seen = np.flatnonzero(power > FLOOR * len(tiles))
    return float(seen[-1] + 1) / BANDS if len(seen) else 1.0


def earlier_quality(picture: Image) -> int:
    """The quality of the JPEG that a picture once was, by the steps on which its frequencies lie; 0 if none is seen."""
    blocks = _blocks(picture)
    if len(blocks) < LEAST_VALUES:
        return 0
    found = []
    for (down, across), standard in STANDARD.items():
        step = _step(np.abs(blocks[:, down, across]))
        if step:
            found.append(step / standard)
    if len(found) < LEAST_COMBS:
        return 0
    scale = 100 * float(np.median(found))
    return max(1, min(100, round(100 - scale / 2 if scale <= 100 else 5000 / scale)))


def _blocks(picture: Image) -> NDArray[np.float32]:
    """The frequencies of the blocks of 8 × 8 pixels, without those that are clipped."""
    height, width = (min(side, 1024) // 8 * 8 for side in picture.shape[:2])
    bright = picture[:height, :width].astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32) - 128
    blocks = bright.reshape(height // 8, 8, width // 8, 8).transpose(0, 2, 1, 3).reshape(-1, 8, 8)
    inside = (blocks.max(axis=(1, 2)) < 126) & (blocks.min(axis=(1, 2)) > -127)
    return np.asarray(_DCT @ blocks[inside] @ _DCT.T)


def _step(values: NDArray[np.float32]) -> float:
    """The largest step of which the values are multiples; 0 if there is none."""
    found = 0.0
    for step in STEPS:
        some = values[values > 0.6 * step]
        if len(some) < LEAST_VALUES:
            break
        if np.cos(2 * np.pi * some / step).mean() > COMB:
            found = float(step)
    return found


def enlarged(small: Image, large: Image) -> bool:
    """Whether the larger of two versions of a picture was made from the smaller, or shows nothing more.

    What the larger one has beyond the resolution of the smaller one is compared with what interpolation of the smaller
    one gives there.
    """
    pil = require("PIL.Image", "images")
    source = pil.fromarray(np.rint(grey(small)).astype(np.uint8))
    height, width = large.shape[:2]
    scale = width / small.shape[1]
    frequency = _frequency(TILE) * scale
    beyond = (frequency > MARGIN) & (frequency < min(SPAN, scale))
    tiles = list(_tiles(height, width))
    if not tiles or not beyond.any():
        return False
    theirs = np.stack([_spectrum(_tile(large, top, left))[beyond] for top, left in tiles])
    down, across = small.shape[0] / height, small.shape[1] / width
    best, residual = 0.0, np.inf
    for name in _KERNELS:
        parts = []
        for top, left in tiles:
            box = (left * across, top * down, (left + TILE) * across, (top + TILE) * down)
            part = source.resize((TILE, TILE), pil.Resampling[name], box=box)
            parts.append(_spectrum(np.asarray(part, np.float32))[beyond])
        ours = np.stack(parts)
        together = np.sqrt((np.abs(theirs) ** 2).sum() * (np.abs(ours) ** 2).sum())
        best = max(best, float((theirs * ours.conj()).real.sum() / max(together, 1e-9)))
        residual = min(residual, float((np.abs(theirs - ours) ** 2).mean()))
    return best >= EXPLAINED or (residual < NOTHING and scale >= CLEARLY)


def _tiles(height: int, width: int) -> Iterator[tuple[int, int]]:
    """(top, left) of tiles spread over a picture; none if it is smaller than one."""
    every = [(top, left) for top in range(0, height - TILE + 1, TILE) for left in range(0, width - TILE + 1, TILE)]
    return iter(every[:: max(1, len(every) // MOST_TILES)])


def _tile(picture: Image, top: int, left: int) -> NDArray[np.float32]:
    return grey(picture[top : top + TILE, left : left + TILE])


def _frequency(side: int) -> NDArray[np.float64]:
    """How high each frequency of a tile is, from 0 to 1."""
    down = np.abs(np.fft.fftfreq(side))[:, None] * 2
    return np.asarray(np.maximum(down, np.fft.rfftfreq(side)[None] * 2))


def _spectrum(tile: NDArray[np.float32]) -> NDArray[np.complex128]:
    """The spectrum of a tile with soft edges; white noise of variance 1 has power 1 everywhere."""
    edge = np.hanning(len(tile))
    window = np.outer(edge, edge)
    return np.asarray(np.fft.rfft2((tile - tile.mean()) * window) / np.sqrt((window**2).sum()))
