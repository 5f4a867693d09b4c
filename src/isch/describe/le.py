"""LE, the learning-based descriptor: codes of ring-sampled neighbourhoods, counted over a grid of patches.

Z. Cao, Q. Yin, X. Tang, J. Sun, "Face recognition with learning-based descriptor", CVPR 2010. The picture is filtered
by a difference of Gaussians. For each pixel, its value and the values on rings of radius 1 and 2 form a vector of unit
length. A random-projection tree of depth 8, learned without labels, maps the vector to one of 256 codes. The codes are
counted over 9 × 9 patches: 81 × 256 = 20,736 values.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from isch.describe.base import Describer, unit_rows
from isch.describe.images import Image, Source, choose, grey
from isch.errors import InputError
from isch.features import Block
from isch.learned import Array, Expected
from isch.parameters import POSITIVE

INNER, OUTER = 2.0, 4.0  # standard deviations of the two Gaussians
RADII = (1, 2)
SAMPLES = 1 + 8 * sum(RADII)  # per neighbourhood: its centre and the rings
MARGIN = 3  # pixels that bilinear samples on the largest ring can reach
DEPTH = 8
N_CODES = 1 << DEPTH

Floats = NDArray[np.float32]


class LE(Describer):
    """Histograms of learned local codes over ``grid`` × ``grid`` patches; unit length.

    Parameters
    ----------
    grid : int
        Patches along each side.
    n_images : int
        The largest number of pictures to learn from.
    vectors_per_image : int
        Neighbourhoods per picture to learn from.
    random_state : int, RandomState or None
        Seed of the random choices.
    """

    name = "le"
    learns = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "grid": [POSITIVE],
        "n_images": [POSITIVE],
        "vectors_per_image": [POSITIVE],
        "random_state": ["random_state"],
    }

    _learns: ClassVar[Expected] = {
        "directions_": Array("float32", N_CODES - 1, SAMPLES),
        "thresholds_": Array("float32", N_CODES - 1),
    }
    directions_: Floats  # one per node; the children of node i are 2i + 1 and 2i + 2
    thresholds_: Floats

    def __init__(
        self, grid: int = 9, n_images: int = 1000, vectors_per_image: int = 200, random_state: int | None = 0
    ) -> None:
        self.grid = grid
        self.n_images = n_images
        self.vectors_per_image = vectors_per_image
        self.random_state = random_state

    @property
    def n_features_out(self) -> int:
        return N_CODES * self.grid**2

    def _fit(self, pictures: Iterable[Source]) -> None:
        rng = self._rng()
        parts = []
        for filtered in self._prepared(choose(pictures, self.n_images, rng), "sampling neighbourhoods"):
            height, width = (size - 2 * MARGIN for size in filtered.shape)
            pixels = rng.integers(0, (height, width), (self.vectors_per_image, 2))
            parts.append(sampled(filtered, pixels, *ring_taps()))
        self.directions_, self.thresholds_ = grow(np.concatenate(parts), rng)

    def _prepare(self, image: Image) -> Floats:
        if min(image.shape[:2]) < self.grid:
            raise InputError(
                f"expected at least {self.grid} × {self.grid} pixels; got {image.shape[1]} × {image.shape[0]}"
            )
        return band_passed(grey(image))

    def _describe(self, batch: Sequence[Floats]) -> Block:
        counts = [patch_histograms(self._codes(filtered), self.grid).ravel() for filtered in batch]
        return unit_rows(np.stack(counts).astype(np.float32))

    def _codes(self, filtered: Floats) -> NDArray[np.uint8]:
        leaves: NDArray[np.uint8] = codes(filtered, *ring_taps(), self.directions_, self.thresholds_)
        return leaves


def band_passed(image: Floats) -> Floats:
    """The difference of two Gaussian blurs, with the edge repeated for ``MARGIN`` pixels on each side."""
    difference = gaussian_filter(image, INNER, mode="nearest") - gaussian_filter(image, OUTER, mode="nearest")
    return np.pad(difference, MARGIN, "edge")


@lru_cache(maxsize=1)
def ring_taps() -> tuple[NDArray[np.int64], Floats]:
    """Bilinear samples of the centre and the rings: upper left pixels (25, 2) and 2 × 2 weights (25, 4)."""
    points = [(0.0, 0.0)]
    for radius in RADII:
        angles = 2 * np.pi * np.arange(8 * radius) / (8 * radius)
        points += list(zip(radius * np.sin(angles), radius * np.cos(angles), strict=True))
    exact = np.round(points, 12)  # so that points on the axes lie on pixels
    corner = np.floor(exact)
    fy, fx = (exact - corner).T
    weights = np.column_stack([(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx])
    return corner.astype(np.int64), weights.astype(np.float32)


def grow(vectors: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """A random-projection tree: each node splits its vectors at the median along a random unit direction."""
    directions = unit_rows(rng.standard_normal((N_CODES - 1, vectors.shape[1])))
    thresholds = np.zeros(N_CODES - 1, np.float32)
    members = {0: np.arange(len(vectors))}
    for node in range(N_CODES - 1):
        rows = members.pop(node)
        projected = vectors[rows] @ directions[node]
        thresholds[node] = np.median(projected) if len(rows) else 0
        right = projected >= thresholds[node]
        members[2 * node + 1], members[2 * node + 2] = rows[~right], rows[right]
    return directions, thresholds


def patch_histograms(codes: NDArray[np.uint8], grid: int) -> NDArray[np.int64]:
    """Counts (grid², 256); pixel row y of h is in patch row floor(y · grid / h)."""
    height, width = codes.shape
    patches = (np.arange(height) * grid // height)[:, None] * grid + np.arange(width) * grid // width
    return np.bincount((patches * N_CODES + codes).ravel(), minlength=grid**2 * N_CODES).reshape(-1, N_CODES)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _sample(
    image: Floats, y: int, x: int, corner: NDArray[np.int64], weights: Floats, out: Floats
) -> None:  # pragma: no cover
    """The unit vector of samples around a pixel inside the margin; zero if all samples are zero."""
    total = np.float32(0)
    for k in range(len(corner)):
        top, left = y + MARGIN + corner[k, 0], x + MARGIN + corner[k, 1]
        upper = weights[k, 0] * image[top, left] + weights[k, 1] * image[top, left + 1]
        lower = weights[k, 2] * image[top + 1, left] + weights[k, 3] * image[top + 1, left + 1]
        out[k] = upper + lower
        total += out[k] * out[k]
    if total > 0:
        out /= np.sqrt(total)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def sampled(
    image: Floats, pixels: NDArray[np.int64], corner: NDArray[np.int64], weights: Floats
) -> Floats:  # pragma: no cover
    """The unit vectors around some pixels."""
    out = np.empty((len(pixels), len(corner)), np.float32)
    for i in range(len(pixels)):
        _sample(image, pixels[i, 0], pixels[i, 1], corner, weights, out[i])
    return out


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def codes(
    image: Floats, corner: NDArray[np.int64], weights: Floats, directions: Floats, thresholds: Floats
) -> NDArray[np.uint8]:  # pragma: no cover
    """The leaf of the tree that each pixel's vector falls into."""
    height, width = image.shape[0] - 2 * MARGIN, image.shape[1] - 2 * MARGIN
    out = np.empty((height, width), np.uint8)
    vector = np.empty(len(corner), np.float32)
    for y in range(height):
        for x in range(width):
            _sample(image, y, x, corner, weights, vector)
            node = 0
            for _ in range(DEPTH):
                projected = np.float32(0)
                for k in range(len(vector)):
                    projected += directions[node, k] * vector[k]
                node = 2 * node + (2 if projected >= thresholds[node] else 1)
            out[y, x] = node - (N_CODES - 1)
    return out
