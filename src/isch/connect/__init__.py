"""Codes in the engines people already run: one small contract, one module per engine.

    store = isch.connect.Postgres("postgresql://…", table="photos", encoder=encoder, create=True)
    store.add(keys, features, metadata)
    store.search(query, k=10, where={"album": "2019"})     # the same results as isch.Index gives

``isch.connect.Local`` is an index of ours behind the same contract. The client of each outside engine is an extra of
its own, imported when the store is opened. What has to be known of an engine before that stands in one table here.
"""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from isch.errors import unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from isch.connect.store import Store

FILE = ("path",)  # the place of engines and formats that are one file or folder
APPROXIMATE = ("ivf", "hnsw")  # kinds of indexes that may miss neighbours


@dataclass(frozen=True)
class Engine:
    """What is known of an engine.

    Parameters
    ----------
    store : str
        The name of its class, in the module that has the engine's name.
    place : tuple of str
        The first arguments of the class, which say where codes are; on the command line options of the same names.
    kinds : tuple of str
        The indexes that it can build, the default first; none where there is no choice.
    columns : bool
        Whether codes that others put there are read, from columns that can be chosen.
    """

    store: str
    place: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    columns: bool = False


@dataclass(frozen=True)
class FileFormat:
    """What is known of a format of files with codes.

    Parameters
    ----------
    suffixes : tuple of str
        How the names of such files end.
    columns : bool
        Whether the columns with codes and keys can be chosen.
    """

    suffixes: tuple[str, ...]
    columns: bool = False


ENGINES = {
    "local": Engine("Local", FILE),
    "faiss": Engine("Faiss", FILE, kinds=("flat", "ivf", "hnsw")),
    "usearch": Engine("Usearch", FILE, kinds=("hnsw", "exact")),
    "postgres": Engine("Postgres", ("url", "table"), kinds=("exact", "hnsw"), columns=True),
    "lancedb": Engine("LanceDB", ("uri", "table")),
    "milvus": Engine("Milvus", ("uri", "collection"), kinds=("flat", "ivf")),
}
FORMATS = {
    "npy": FileFormat((".npy",)),
    "hdf5": FileFormat((".h5", ".hdf5"), columns=True),
    "parquet": FileFormat((".parquet",), columns=True),
}


def engine(name: str) -> "Callable[..., Store]":
    """Return the class of an engine's stores."""
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES)
    found: Callable[..., Store] = getattr(importlib.import_module(f"isch.connect.{name}"), ENGINES[name].store)
    return found


def __getattr__(name: str) -> Any:
    for key, facts in ENGINES.items():
        if name == facts.store:
            return engine(key)
    raise AttributeError(f"module 'isch.connect' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*(facts.store for facts in ENGINES.values()), "ENGINES", "FORMATS", "engine"])
