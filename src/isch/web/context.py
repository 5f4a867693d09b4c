"""What all requests share: the library, its duplicates, thumbnails, the decoder of uploads, the counters."""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import IschError
from isch.photos import words
from isch.photos.catalog import Item
from isch.photos.duplicates import Duplicates, Group
from isch.photos.library import Hit, Library
from isch.web import schemas
from isch.web.decoder import Decoder
from isch.web.metrics import Metrics
from isch.web.settings import Settings
from isch.web.thumbnails import Thumbnails


class Context:
    """What the routes work with."""

    def __init__(self, library: Library, settings: Settings) -> None:
        self.library, self.settings = library, settings
        self.duplicates = Duplicates(library)
        self.thumbnails = Thumbnails(library.home / "thumbnails")
        self.decoder = Decoder(settings.decode_seconds)
        self.metrics = Metrics()
        self.updater = Updater(library)

    def close(self) -> None:
        """Stop what runs beside the requests."""
        self.updater.stop()
        self.decoder.close()

    def pictures(self, items: Sequence[Item]) -> list[schemas.Picture]:
        """Items as the API shows them."""
        return [schemas.Picture(**facts) for facts in self._facts(items)]

    def found(self, hits: Sequence[Hit], start: float, bits: NDArray[np.bool_]) -> schemas.Found:
        """The answer to a search for a picture with these bits that began at ``start``."""
        facts = self._facts([hit.item for hit in hits])
        return schemas.Found(
            items=[
                schemas.Hit(**known, distance=hit.distance, score=hit.score)
                for known, hit in zip(facts, hits, strict=True)
            ],
            searched=len(self.library),
            milliseconds=round((time.perf_counter() - start) * 1000, 2),
            n_bits=self.library.n_bits,
            bits=spelt(bits),
            learned=self.library.learned,
        )

    def copies(self, groups: Sequence[Group]) -> list[schemas.Copies]:
        """Groups of duplicates as the API shows them."""
        return [
            schemas.Copies(items=self.pictures(g.items), keep=g.keep, reason=g.reason, closeness=g.closeness)
            for g in groups
        ]

    def _facts(self, items: Sequence[Item]) -> list[dict[str, Any]]:
        labels = self.library.catalog.labels([item.id for item in items])
        return [
            {
                **{name: getattr(item, name) for name in ("id", "name", "folder", "width", "height", "bytes")},
                **{name: getattr(item, name) for name in ("format", "taken", "camera")},
                "words": [
                    {"name": words.kinds()[kind].names[0], "share": round(share, 3)} for kind, share in labels[item.id]
                ],
            }
            for item in items
        ]


def spelt(bits: NDArray[np.bool_]) -> str:
    """One 0 or 1 per bit."""
    return "".join("01"[int(bit)] for bit in bits)


SHARE = 20  # the pause after a look at the folder is so many times as long: a large folder costs 5 % of a core


class Updater:
    """Keeps the library in step with its folder while the page is open."""

    def __init__(self, library: Library, seconds: float = 10.0) -> None:
        self._library, self._seconds = library, seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="isch-updater", daemon=True)
        self.updating = False

    def start(self) -> None:
        """Begin to look at the folder now and then."""
        self._thread.start()

    def stop(self) -> None:
        """End, when the present picture is done."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(self._seconds)

    def _run(self) -> None:
        try:
            self._look_again_and_again()
        except RuntimeError:  # the program ends, and Python starts no more threads
            if not self._stopping.is_set():
                raise

    def _look_again_and_again(self) -> None:
        with suppress(IschError):
            self._library.warm_up()
        pause = 0.0
        while not self._stopping.wait(pause):
            start, pause, self.updating = time.monotonic(), self._seconds, True
            with suppress(IschError):  # the next look may go better; what fails is listed in the catalog
                if not self._library.update().changes:  # it was nothing but a look
                    pause = max(pause, SHARE * (time.monotonic() - start))
            self.updating = False
