"""GIST: how strongly a picture responds to Gabor filters of several scales and orientations, averaged over blocks.

A. Oliva, A. Torralba, "Modeling the shape of the scene", IJCV 2001. Two variants are in use:

A  the original and LEAR's, for web-scale search (Douze et al., CIVR 2009): the picture at 32 × 32, no padding.
B  LMgist of the LabelMe toolbox: the middle square at 256 × 256, stretched to 0–255, 32 pixels of mirror padding.

Values are ordered by channel, filter (scale outer, orientation inner), block column, block row.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from isch.describe.base import Describer
from isch.describe.images import Image, centre_square, grey, resize
from isch.errors import ParameterError
from isch.features import Block
from isch.parameters import POSITIVE, StrOptions

PREFILTER_CYCLES = 4  # the whitening filter's cut-off, cycles per picture
PREFILTER_PADDING = 5
CONTRAST_FLOOR = 0.2
SIDES = {"A": 32, "B": 256}
PADDING = {"A": 0, "B": 32}
CACHED_BYTES = 1 << 20  # of one filter's responses: few enough pictures at once that they stay in the cache

Floats = NDArray[np.float32]
Spectra = NDArray[np.complex64]


class GIST(Describer):
    """GIST descriptor; 512 values with the defaults.

    Parameters
    ----------
    variant : {"A", "B"}
        See the top of this module.
    side : int, optional
        Side of the picture, even; by default that of the variant.
    colour : bool
        Whether to describe each colour channel, which makes vectors three times as long.
    orientations : sequence of int
        Filters per scale, from fine to coarse.
    blocks : int
        Blocks along each side.
    """

    name = "gist"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "variant": [StrOptions({"A", "B"})],
        "side": [POSITIVE, None],
        "colour": ["boolean"],
        "orientations": [list, tuple],
        "blocks": [POSITIVE],
    }

    def __init__(
        self,
        variant: str = "A",
        side: int | None = None,
        colour: bool = False,
        orientations: Sequence[int] = (8, 8, 8, 8),
        blocks: int = 4,
    ) -> None:
        self.variant = variant
        self.side = side
        self.colour = colour
        self.orientations = orientations
        self.blocks = blocks

    @property
    def n_features_out(self) -> int:
        return sum(self.orientations) * self.blocks**2 * (3 if self.colour else 1)

    @property
    def _side(self) -> int:
        return self.side or SIDES[self.variant]

    def _prepare(self, image: Image) -> Floats:
        """Planes (channels, side, side), 0 to 255."""
        side = self._side
        sized = resize(image, side, side) if self.variant == "A" else centre_square(image, side)
        planes = np.moveaxis(sized, 2, 0).astype(np.float32) if self.colour else grey(sized)[None]
        return planes if self.variant == "A" else stretched(planes)

    def _describe(self, batch: Sequence[Floats]) -> Block:
        padding = PADDING[self.variant]
        filters = gabor_filters(self._side + 2 * padding, tuple(self.orientations))
        step = max(1, CACHED_BYTES // (8 * batch[0].shape[0] * filters.shape[-1] ** 2))
        parts = [np.stack(batch[start : start + step]) for start in range(0, len(batch), step)]
        return np.concatenate([gist(part, filters, self.blocks, padding) for part in parts])

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not self.orientations or min(self.orientations) < 1:
            raise ParameterError(f"orientations must be counts of at least 1, one per scale; got {self.orientations!r}")
        if self._side % 2 or self._side < 2 * self.blocks:
            raise ParameterError(
                f"side must be even and at least twice the number of blocks ({self.blocks}); got {self._side}"
            )


def stretched(planes: Floats) -> Floats:
    """Values stretched so that the smallest becomes 0 and the largest 255; a constant picture becomes 0."""
    low, high = planes.min(), planes.max()
    return np.asarray((planes - low) * np.float32(255 / max(high - low, 1e-6)), np.float32)


def gist(planes: Floats, filters: Floats, blocks: int, padding: int = 0) -> Floats:
    """GIST of pictures (n, channels, side, side), float32 (n, channels · filters · blocks²)."""
    white = prefiltered(planes)
    margin = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    spectra = fft.fft2(np.pad(white, margin, "symmetric") if padding else white)
    pool = pooling(planes.shape[-1], blocks, padding)
    out = np.empty((len(planes), planes.shape[1], len(filters), blocks, blocks), np.float32)
    product, modulus = np.empty_like(spectra), np.empty(spectra.shape, np.float32)
    for k, transfer in enumerate(filters):
        np.multiply(spectra, transfer, out=product)
        np.abs(fft.ifft2(product, overwrite_x=True), out=modulus)
        out[:, :, k] = np.swapaxes(modulus @ pool, -1, -2) @ pool
    return out.reshape(len(planes), -1)


def prefiltered(planes: Floats) -> Floats:
    """Log intensities without their low frequencies, divided by the local contrast."""
    side = planes.shape[-1]
    margin = [(0, 0), (0, 0), (PREFILTER_PADDING, PREFILTER_PADDING), (PREFILTER_PADDING, PREFILTER_PADDING)]
    x = np.pad(np.log1p(planes), margin, "symmetric")
    low_pass = gaussian(x.shape[-1])
    x -= smoothed(x, low_pass)
    contrast = np.sqrt(np.abs(smoothed(x.mean(axis=1, keepdims=True) ** 2, low_pass)))
    x /= CONTRAST_FLOOR + contrast
    inner = slice(PREFILTER_PADDING, PREFILTER_PADDING + side)
    return np.ascontiguousarray(x[..., inner, inner])


def smoothed(x: Floats, low_pass: Floats) -> Floats:
    """x filtered by a real, even transfer function given for the frequencies of ``rfft2``."""
    y: Floats = fft.irfft2(fft.rfft2(x) * low_pass, s=x.shape[-2:], overwrite_x=True)
    return y


@lru_cache(maxsize=8)
def pooling(side: int, blocks: int, padding: int) -> Floats:
    """P (side + 2 · padding, blocks), such that v P are the means of v over blocks with edges ⌊i · side / blocks⌋."""
    edges = np.arange(blocks + 1) * side // blocks
    matrix = np.zeros((side + 2 * padding, blocks), np.float32)
    for block, (start, stop) in enumerate(pairwise(edges)):
        matrix[padding + start : padding + stop, block] = 1 / (stop - start)
    return matrix


@lru_cache(maxsize=8)
def gaussian(n: int) -> Floats:
    """The low-pass of the prefilter on the frequencies of an n × n ``rfft2``."""
    fy, fx = fft.fftfreq(n, 1 / n)[:, None], fft.rfftfreq(n, 1 / n)[None]
    width = PREFILTER_CYCLES / np.sqrt(np.log(2))
    return np.asarray(np.exp(-(fx**2 + fy**2) / width**2), np.float32)


@lru_cache(maxsize=8)
def gabor_filters(n: int, orientations: tuple[int, ...]) -> Floats:
    """Transfer functions (filters, n, n) on the frequencies of ``fft2``; one-sided, so responses are complex."""
    fy, fx = fft.fftfreq(n, 1 / n)[:, None], fft.fftfreq(n, 1 / n)[None]
    radius, angle = np.hypot(fx, fy), np.arctan2(fy, fx)
    transfer = []
    for scale, count in enumerate(orientations):
        centre = 0.3 / 1.85**scale
        radial = 10 * 0.35 * (radius / (n * centre) - 1) ** 2
        for j in range(count):
            turned = np.remainder(angle + np.pi * j / count + np.pi, 2 * np.pi) - np.pi
            transfer.append(np.exp(-radial - 2 * np.pi * (16 * count**2 / 32**2) * turned**2))
    return np.array(transfer, np.float32)
