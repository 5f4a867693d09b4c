"""usearch: an HNSW index over packed bits (b1, Hamming), in one file that usearch reads by itself.

"exact" compares with every code; "hnsw" is approximate. Codes are whole bytes, padding bits are zero.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes, width
from isch.connect.filestore import FileStore
from isch.connect.sidecar import Ids
from isch.errors import FormatError, require


class Usearch(FileStore):
    """Codes in a file of usearch."""

    kinds = ("hnsw", "exact")

    def _empty(self, sample: Codes) -> Any:
        usearch = require("usearch.index", "usearch")
        return usearch.Index(ndim=8 * width(self.n_bits), metric="hamming", dtype="b1", expansion_search=128)

    def _add(self, engine: Any, ids: Ids, codes: Codes) -> None:
        engine.add(ids.astype(np.uint64), codes)

    def _find(self, engine: Any, code: Codes, k: int) -> tuple[Ids, NDArray[np.int32]]:
        if not len(engine):
            return np.empty(0, np.int64), np.empty(0, np.int32)
        found = engine.search(code, k, exact=self.kind == "exact")
        return found.keys.astype(np.int64), found.distances.astype(np.int32)

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
