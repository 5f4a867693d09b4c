"""Dense SIFT: gradient histograms of patches on a regular grid, at several sizes of the image.

Lowe, *Distinctive image features from scale-invariant keypoints* (2004). The grid and the bins follow VLFeat's dsift
(Vedaldi and Fulkerson 2010): 4 × 4 spatial bins with centres on whole pixels and 8 orientations, interpolated linearly
in all three directions; each pixel is weighted by a Gaussian window, two bins wide, around the middle of the patch.
Values are ordered by bin row, bin column and orientation, the last fastest. RootSIFT: Arandjelović and Zisserman,
*Three things everyone should know to improve object retrieval* (2012).
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch.errors import require

N_BINS = 4
N_ORIENTATIONS = 8
LENGTH = N_BINS * N_BINS * N_ORIENTATIONS
CLIP = 0.2
# Abramowitz and Stegun 4.4.49: atan z = z p(z²) on [0, 1] to 1e-5; here in units of one orientation, 45 degrees.
ATAN = tuple(np.float32(a * 4 / math.pi) for a in (0.9998660, -0.3302995, 0.1801410, -0.0851330, 0.0208351))

kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
summing_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})


class Local(NamedTuple):
    """Local descriptors of one image."""

    values: NDArray[np.float32]  # (n, 128)
    positions: NDArray[np.float32]  # (n, 2): (x, y) of the middle of each patch as fractions of the image, in (0, 1]


def dense_sift(image: NDArray[np.float32], patch: int = 20, step: int = 10) -> Local:
    """SIFT of all ``patch`` × ``patch`` squares of a grey image, ``step`` pixels apart."""
    height, width = image.shape
    rows, columns = grid(height, patch, step), grid(width, patch, step)
    values = np.empty((len(rows) * len(columns), LENGTH), np.float32)
    _histograms(orientation_planes(np.ascontiguousarray(image, np.float32)), rows, columns, window(patch), values)
    _normalise(values)
    # The middle of the patch lies 1.5 bins right of the first bin's centre; positions count pixels from 1.
    x, y = (first + 1 + 1.5 * (patch // N_BINS) for first in (columns, rows))
    positions = np.stack(np.meshgrid(x / width, y / height), axis=-1).reshape(-1, 2)
    return Local(values, positions.astype(np.float32))


def multiscale(image: NDArray[np.float32], patch: int, step: int, scales: Sequence[float]) -> Local:
    """Dense SIFT of the image at several sizes; sizes too small for a patch are left out."""
    height, width = image.shape
    sizes = [(max(1, round(height * scale)), max(1, round(width * scale))) for scale in scales]
    parts = [dense_sift(resized(image, *size), patch, step) for size in sizes]
    return Local(np.concatenate([p.values for p in parts]), np.concatenate([p.positions for p in parts]))


def root(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """RootSIFT: the square root of each L1-normalised descriptor, so that inner products are Hellinger kernels."""
    return np.asarray(np.sqrt(values / np.maximum(values.sum(axis=1, keepdims=True), 1e-12)))


def grid(length: int, patch: int, step: int) -> NDArray[np.intp]:
    """Centres of the first bin of each patch along one side. All bins lie inside the image; margins are equal."""
    room = length - 1 - (N_BINS - 1) * (patch // N_BINS)
    if room < 0:
        return np.empty(0, np.intp)
    return np.arange(room % step // 2, room + 1, step, dtype=np.intp)


def window(patch: int) -> NDArray[np.float32]:
    """Weights (4, 2 s − 1) of the pixels around each bin's centre along one side; s = patch / 4 is the bin's size."""
    size = patch // N_BINS
    offset = np.arange(1 - size, size)
    bins = (np.arange(N_BINS) - 1.5)[:, None] * size
    return ((1 - abs(offset) / size) * np.exp(-0.5 * ((bins + offset) / (2 * size)) ** 2)).astype(np.float32)


def resized(image: NDArray[np.float32], height: int, width: int) -> NDArray[np.float32]:
    """The image at another size: averaged when it shrinks, interpolated when it grows."""
    if image.shape == (height, width):
        return image
    cv2: Any = require("cv2", "images")
    shrinks = height * width < image.size
    result: NDArray[np.float32] = cv2.resize(
        image, (width, height), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
    )
    return result


def fitted(image: NDArray[np.float32], min_side: int, max_side: int) -> NDArray[np.float32]:
    """The image, shrunk or enlarged so that its longer side lies between ``min_side`` and ``max_side``."""
    longer = max(image.shape)
    factor = min(max_side, max(min_side, longer)) / longer
    return resized(image, *(max(1, round(side * factor)) for side in image.shape))


@kernel  # type: ignore[untyped-decorator]
def orientation_planes(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """Gradient magnitudes (height, width, 8), each shared between the two orientations nearest to its own."""
    height, width = image.shape
    planes = np.zeros((height, width, N_ORIENTATIONS), np.float32)
    dx, dy = np.empty(width, np.float32), np.empty(width, np.float32)
    magnitude, angle = np.empty(width, np.float32), np.empty(width, np.float32)
    for y in range(height):
        _gradient(image, y, dx, dy)
        _polar(dx, dy, magnitude, angle)
        for x in range(width):
            first = int(angle[x])
            share = magnitude[x] * (angle[x] - np.float32(first))
            planes[y, x, first & 7] += magnitude[x] - share
            planes[y, x, (first + 1) & 7] += share
    return planes


@kernel  # type: ignore[untyped-decorator]
def _gradient(image: NDArray[np.float32], y: int, dx: NDArray[np.float32], dy: NDArray[np.float32]) -> None:
    """Central differences along row ``y``, one-sided at the borders."""
    height, width = image.shape
    above, below = max(y - 1, 0), min(y + 1, height - 1)
    scale = np.float32(1 / max(below - above, 1))
    for x in range(width):
        dy[x] = (image[below, x] - image[above, x]) * scale
    for x in range(1, width - 1):
        dx[x] = (image[y, x + 1] - image[y, x - 1]) * np.float32(0.5)
    dx[0] = image[y, min(1, width - 1)] - image[y, 0]
    dx[width - 1] = image[y, width - 1] - image[y, max(width - 2, 0)]


@kernel  # type: ignore[untyped-decorator]
def _polar(
    dx: NDArray[np.float32], dy: NDArray[np.float32], magnitude: NDArray[np.float32], angle: NDArray[np.float32]
) -> None:
    """Length and angle of gradients, the angle in orientations, 0 to 8."""
    for i in range(len(dx)):
        width, height = abs(dx[i]), abs(dy[i])
        z = min(width, height) / max(width, height, np.float32(1e-20))
        z2 = z * z
        octant = z * (ATAN[0] + z2 * (ATAN[1] + z2 * (ATAN[2] + z2 * (ATAN[3] + z2 * ATAN[4]))))
        quadrant = octant if height <= width else np.float32(2) - octant
        half = quadrant if dx[i] >= 0 else np.float32(4) - quadrant
        angle[i] = half if dy[i] >= 0 else np.float32(8) - half
        magnitude[i] = math.sqrt(width * width + height * height)


@kernel  # type: ignore[untyped-decorator]
def _histograms(
    planes: NDArray[np.float32],
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
    weights: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Weighted sums of the planes over the bins, first down the columns, then along the rows.

    The intermediate values are ordered by image column, so that both sums run over long contiguous rows.
    """
    height, width, _ = planes.shape
    down = np.empty((width, len(rows) * N_BINS * N_ORIENTATIONS), np.float32)
    line = np.empty(width * N_ORIENTATIONS, np.float32)
    flat = planes.reshape(height, width * N_ORIENTATIONS)
    for i in range(len(rows) * N_BINS):
        _weighted_sum(flat, rows[i // N_BINS], i % N_BINS, weights, line)
        for x in range(width):
            for o in range(N_ORIENTATIONS):
                down[x, i * N_ORIENTATIONS + o] = line[x * N_ORIENTATIONS + o]
    across = np.empty(down.shape[1], np.float32)
    for j in range(len(columns)):
        for c in range(N_BINS):
            _weighted_sum(down, columns[j], c, weights, across)
            for i in range(len(rows)):
                for b in range(N_BINS):
                    for o in range(N_ORIENTATIONS):
                        value = across[(i * N_BINS + b) * N_ORIENTATIONS + o]
                        out[i * len(columns) + j, (b * N_BINS + c) * N_ORIENTATIONS + o] = value


@kernel  # type: ignore[untyped-decorator]
def _weighted_sum(
    lines: NDArray[np.float32], first: int, index: int, weights: NDArray[np.float32], out: NDArray[np.float32]
) -> None:
    """The sum of the lines around bin ``index`` of the patch whose first bin lies at ``first``; none lie outside."""
    size = (weights.shape[1] + 1) // 2
    centre = first + index * size
    out[:] = 0
    for y in range(max(centre - size + 1, 0), min(centre + size, len(lines))):
        weight, line = weights[index, y - centre + size - 1], lines[y]
        for x in range(len(out)):
            out[x] += weight * line[x]


@summing_kernel  # type: ignore[untyped-decorator]
def _normalise(values: NDArray[np.float32]) -> None:
    """L2-normalise each row in place, clip at 0.2, L2-normalise again; rows without any gradient stay zero."""
    for i in range(len(values)):
        row = values[i]
        for clip in (CLIP, 1.0):
            total = np.float32(0)
            for j in range(LENGTH):
                total += row[j] * row[j]
            scale = np.float32(1 / max(math.sqrt(total), 1e-6))
            for j in range(LENGTH):
                row[j] = min(row[j] * scale, np.float32(clip))
