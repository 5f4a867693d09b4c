"""usearch: an HNSW index over packed bits (b1, Hamming), in one file that usearch reads by itself.

"exact" compares with every code; "hnsw" is approximate. Codes are whole bytes, padding bits are zero.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes, width
from isch.connect import ENGINES
from isch.connect.filestore import FileStore
from isch.connect.sidecar import Ids
from isch.errors import FormatError, require


class Usearch(FileStore):
    """Codes in a file of usearch."""

    facts = ENGINES["usearch"]

    def _empty(self, sample: Codes) -> Any:
        usearch = require("usearch.index", "usearch")
        graph = {"connectivity": 2, "expansion_add": 1} if self.kind == "exact" else {}  # nobody walks along this one
        return usearch.Index(ndim=8 * width(self.n_bits), metric="hamming", dtype="b1", expansion_search=128, **graph)

    def _add(self, engine: Any, ids: Ids, codes: Codes) -> None:
        engine.add(ids.astype(np.uint64), codes)

    def _find(self, engine: Any, codes: Codes, k: int) -> list[tuple[Ids, NDArray[np.int32]]]:
        if not len(engine):
            return [(np.empty(0, np.int64), np.empty(0, np.int32)) for _ in codes]
        found = engine.search(codes, k, exact=self.kind == "exact")
        keys = np.atleast_2d(found.keys)
        distances = np.atleast_2d(found.distances)
        counts = np.atleast_1d(getattr(found, "counts", [keys.shape[1]]))
        return [
            (keys[i, :n].astype(np.int64), distances[i, :n].astype(np.int32)) for i, n in enumerate(counts.tolist())
        ]

    def _write(self, engine: Any, path: Path) -> None:
        engine.save(str(path))

    def _read(self, path: Path) -> Any:
        usearch = require("usearch.index", "usearch")
        try:
            engine = usearch.Index.restore(str(path))
        except (RuntimeError, ValueError, OSError) as error:
            raise FormatError(f"{path}: usearch cannot read it ({error})") from error
        if engine is None:
            raise FormatError(f"{path}: usearch cannot read it")
        return engine
