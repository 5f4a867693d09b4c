"""faiss: IndexBinaryFlat, IndexBinaryIVF or IndexBinaryHNSW, with ids, in one file that faiss reads by itself.

Codes are whole bytes: the padding bits of other lengths are zero on both sides and change no distance. "flat" is exact;
"ivf" and "hnsw" are approximate.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes, width
from isch.connect.filestore import FileStore
from isch.connect.sidecar import Ids
from isch.errors import FormatError, require

NEIGHBOURS = 32  # links per item of an HNSW index
EF = 128  # candidates that an HNSW search keeps
PROBES = 1 / 8  # the share of its lists that an IVF search reads
ROWS_PER_LIST = 1000


class Faiss(FileStore):
    """Codes in a file of faiss."""

    kinds = ("flat", "ivf", "hnsw")

    @property
    def _learns(self) -> bool:
        return self.kind == "ivf"

    def _empty(self, sample: Codes) -> Any:
        faiss = require("faiss", "faiss")
        bits = 8 * width(self.n_bits)
        if self.kind == "hnsw":
            engine = faiss.IndexBinaryHNSW(bits, NEIGHBOURS)
            engine.hnsw.efSearch = EF
            return faiss.IndexBinaryIDMap2(engine)
        if self.kind == "ivf" and len(sample):
            return self._ivf(faiss, bits, sample)
        return faiss.IndexBinaryIDMap2(faiss.IndexBinaryFlat(bits))

    def _ivf(self, faiss: Any, bits: int, sample: Codes) -> Any:
        lists = max(1, min(len(sample) // 40, -(-len(self) // ROWS_PER_LIST)))
        engine = faiss.IndexBinaryIVF(faiss.IndexBinaryFlat(bits), bits, lists)
        engine.nprobe = max(1, int(np.ceil(PROBES * lists)))
        engine.cp.verbose = False
        engine.train(sample)
        return engine

    def _add(self, engine: Any, ids: Ids, codes: Codes) -> None:
        engine.add_with_ids(codes, ids)

    def _find(self, engine: Any, codes: Codes, k: int) -> list[tuple[Ids, NDArray[np.int32]]]:
        distances, ids = engine.search(codes, k)
        found = ids >= 0
        return [(ids[i][found[i]], distances[i][found[i]]) for i in range(len(codes))]

    def _write(self, engine: Any, path: Path) -> None:
        require("faiss", "faiss").write_index_binary(engine, str(path))

    def _read(self, path: Path) -> Any:
        try:
            return require("faiss", "faiss").read_index_binary(str(path))
        except (RuntimeError, MemoryError) as error:
            raise FormatError(f"{path}: faiss cannot read it ({error})") from error
