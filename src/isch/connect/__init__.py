"""Codes in the engines people already run: one small contract, one module per engine.

    store = isch.connect.Postgres("postgresql://…", table="photos", encoder=encoder, create=True)
    store.add(keys, features, metadata)
    store.search(query, k=10, where={"album": "2019"})     # the same results as isch.Index gives

``isch.connect.Local`` is an index of ours behind the same contract. The client of each outside engine is an extra of
its own, imported when the store is opened.
"""

import importlib
from typing import TYPE_CHECKING, Any

from isch.errors import unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from isch.connect.store import Store

ENGINES = {  # name: class, whose module has the engine's name
    "local": "Local",
    "faiss": "Faiss",
    "usearch": "Usearch",
    "postgres": "Postgres",
    "lancedb": "LanceDB",
    "milvus": "Milvus",
}


def engine(name: str) -> "Callable[..., Store]":
    """The class of an engine."""
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES)
    found: Callable[..., Store] = getattr(importlib.import_module(f"isch.connect.{name}"), ENGINES[name])
    return found


def __getattr__(name: str) -> Any:
    for module, cls in ENGINES.items():
        if name == cls:
            return engine(module)
    raise AttributeError(f"module 'isch.connect' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*ENGINES.values(), "ENGINES", "engine"])
