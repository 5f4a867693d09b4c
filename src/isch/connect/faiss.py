"""faiss: IndexBinaryFlat, IndexBinaryIVF or IndexBinaryHNSW, with ids, in one file that faiss reads by itself.

Codes are whole bytes: the padding bits of other lengths are zero on both sides and change no distance. "flat" is exact;
"ivf" and "hnsw" are approximate. Binary indexes of others are read, too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes, width
from isch.connect import ENGINES
from isch.connect.filestore import FileStore
from isch.connect.sidecar import Ids
from isch.connect.source import BATCH_ROWS, ModelTag, ReadOptions, Source
from isch.errors import FormatError, require
from isch.files import printable, regular
from isch.search.reading import Batch

NEIGHBOURS = 32  # links per item of an HNSW index
EF = 128  # candidates that an HNSW search keeps
PROBES = 1 / 8  # the share of its lists that an IVF search reads
ROWS_PER_LIST = 1000


class Faiss(FileStore):
    """Codes in a file of faiss."""

    facts = ENGINES["faiss"]

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


class FaissFile(Source):
    """The codes of a file of faiss; its ids are the keys."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.where = printable(path)
        index = read(path)
        self._ids, self._codes = _content(index, self.where)
        if self._codes.size != len(self._ids) * index.code_size or len(self._ids) != index.ntotal:
            raise FormatError(f"{self.where}: damaged ({len(self._ids)} ids and {self._codes.size} bytes of codes)")
        self._codes = self._codes.reshape(-1, index.code_size)
        self.tag = ModelTag(options.length(index.code_size, self.where))

    def __len__(self) -> int:
        return len(self._ids)

    def batches(self) -> Iterator[Batch]:
        """All items, some thousands at a time."""
        for start in range(0, len(self), BATCH_ROWS):
            keys = self._ids[start : start + BATCH_ROWS].tolist()
            yield Batch(keys, self._codes[start : start + BATCH_ROWS], [None] * len(keys), None)


def read(path: Path) -> Any:
    """A binary index from a file of faiss."""
    faiss = require("faiss", "faiss")
    size = regular(path).stat().st_size
    try:
        with _no_larger_than(faiss, size):
            return faiss.read_index_binary(str(path))
    except (RuntimeError, MemoryError) as error:
        words = " ".join(str(error).split()).rpartition("Error: ")[2][:120]
        raise FormatError(f"{printable(path)}: not a binary index of faiss, or damaged ({words})") from error


@contextmanager
def _no_larger_than(faiss: Any, size: int) -> Iterator[None]:
    """No array of a file is larger than the file; without the limit a crafted one could ask for all memory."""
    if not hasattr(faiss, "set_deserialization_vector_byte_limit"):  # faiss before 1.14
        yield
        return
    before = faiss.get_deserialization_vector_byte_limit()
    faiss.set_deserialization_vector_byte_limit(max(size, 1))
    try:
        yield
    finally:
        faiss.set_deserialization_vector_byte_limit(before)


def _content(index: Any, where: str) -> tuple[Ids, Codes]:
    """(ids, the bytes of all codes)."""
    faiss = require("faiss", "faiss")
    match index:
        case faiss.IndexBinaryIDMap():
            ids = faiss.vector_to_array(index.id_map)
            return ids, _content(faiss.downcast_IndexBinary(index.index), where)[1]
        case faiss.IndexBinaryIVF():
            return _lists(faiss, index, where)
        case faiss.IndexBinaryHNSW():
            return _content(faiss.downcast_IndexBinary(index.storage), where)
        case faiss.IndexBinaryFlat():
            codes = faiss.vector_to_array(index.xb)
            return np.arange(codes.size // max(index.code_size, 1)), codes
    raise FormatError(f"{where}: expected a flat, IVF or HNSW index of faiss; got {type(index).__name__}")


def _lists(faiss: Any, index: Any, where: str) -> tuple[Ids, Codes]:
    """All lists of an IVF index, in the order of the ids."""
    lists = _in_memory(faiss, index, where)
    ids = [np.empty(0, np.int64)]
    codes = [np.empty((0, index.code_size), np.uint8)]
    for number in range(lists.nlist):
        if size := lists.list_size(number):
            ids.append(faiss.rev_swig_ptr(lists.get_ids(number), size).copy())
            flat = faiss.rev_swig_ptr(lists.get_codes(number), size * index.code_size)
            codes.append(flat.copy().reshape(size, -1))
    numbers = np.concatenate(ids)
    order = np.argsort(numbers, kind="stable")
    return numbers[order], np.concatenate(codes)[order].ravel()


def _in_memory(faiss: Any, index: Any, where: str) -> Any:
    """The lists of an IVF index. Those that only name another file are refused: reading could crash, or leak it."""
    lists = None if index.invlists is None else faiss.downcast_InvertedLists(index.invlists)
    if not isinstance(lists, faiss.ArrayInvertedLists):
        got = "none" if lists is None else type(lists).__name__
        raise FormatError(f"{where}: expected an IVF index whose lists are in the file; got {got}")
    if lists.code_size != index.code_size:
        raise FormatError(f"{where}: damaged (its lists have codes of {lists.code_size} bytes, not {index.code_size})")
    return lists
