"""Camera RAW: the preview that the camera stored in the file; without one, the sensor's values at half size."""

import io
from contextlib import suppress
from typing import BinaryIO, Self

import numpy as np

from isch.describe.decoding import pixels
from isch.describe.decoding.formats import RAW, Limits
from isch.describe.decoding.pixels import Image
from isch.errors import require

ENOUGH = 512  # pixels; a preview is too small if its shorter side is below this or below the side wanted
ORIENTATIONS = {0: 1, 3: 3, 5: 8, 6: 6}  # LibRaw's numbers for turns, as EXIF's


class Raw:
    """An open camera RAW file; only its header is read at first."""

    def __init__(self, file: BinaryIO, limits: Limits) -> None:
        self._rawpy = require("rawpy", RAW.extra)
        self.errors = (self._rawpy.LibRawError, self._rawpy.NotSupportedError)
        file.seek(0)
        self._raw = self._rawpy.imread(io.BytesIO(file.read()))  # from memory: by name, LibRaw opens other files too
        sizes = self._raw.sizes
        RAW.check(sizes.raw_width, sizes.raw_height, limits)
        self.width, self.height = sizes.width, sizes.height  # as the sensor lies
        self.orientation = ORIENTATIONS.get(sizes.flip, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def preview(self) -> bytes | Image | None:
        """A JPEG file (LibRaw adds an EXIF block if it has none), an upright array, or None."""
        with suppress(*self.errors):
            found = self._raw.extract_thumb()
            if found.format is self._rawpy.ThumbFormat.JPEG:
                return bytes(found.data)
            return self._upright(pixels.from_array(found.data))
        return None

    def developed(self) -> Image:
        """The picture at half size, upright."""
        with pixels.turns.wait(self.width * self.height):
            image: Image = self._raw.postprocess(half_size=True, use_camera_wb=True, output_bps=8)
        return pixels.from_array(image)

    def _upright(self, preview: Image) -> Image:
        height, width = preview.shape[:2]
        out = np.empty((width, height, 3) if self.orientation in pixels.SWAPPED else (height, width, 3), np.uint8)
        pixels.stored(out, self.orientation)[...] = preview
        return out
