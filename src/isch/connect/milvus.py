"""Milvus: a collection (id, code BINARY_VECTOR, metadata JSON), the model tag in its description.

Milvus wants lengths that are multiples of 8: the padding bits are zero on both sides. "flat" is BIN_FLAT, which is
exact; "ivf" is BIN_IVF_FLAT, which is approximate and which Milvus Lite does not have. One search gives at most 16,384
hits. A key becomes the text id "s:KEY", percent-encoded as in a URL because Milvus Lite trips over quotation marks, or
"i:KEY" for an integer.
Milvus Lite cannot give a code back with a hit, so the metadata carry it too, in hexadecimal.
"""

import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, unquote

import numpy as np

from isch.codes import Codes, width
from isch.connect import ENGINES
from isch.connect.remote import check_address, masked
from isch.connect.source import ModelTag, check_width, parsed
from isch.connect.store import Candidate, EngineStore, opening
from isch.errors import FileError, FormatError, InputError, IschError, require
from isch.forks import Lock
from isch.search.catalog import Key
from isch.search.filters import Where
from isch.search.reading import Batch

TYPES = {"flat": "BIN_FLAT", "ivf": "BIN_IVF_FLAT"}  # what Milvus calls the kinds
LISTS = 1024  # of an IVF index
PROBES = 128  # lists of an IVF index that a search reads
MAX_HITS = 16_384
MAX_KEY = 60_000  # bytes
CONNECT_SECONDS = 10
CALL_SECONDS = 60  # that a request may take; the client itself tries again until then when the connection is lost
AT_ONCE = 5_000  # rows per request

_counting = Lock()
_open: Counter[str] = Counter()  # stores per address


class Milvus(EngineStore):
    """Codes in a collection of Milvus.

    Parameters
    ----------
    uri : str
        ``http://host:19530``, or the path of a file of Milvus Lite.
    collection : str
        The collection.
    encoder, n_bits, create, replace
        As in every store.
    kind : {"flat", "ivf"}
        The index that a new collection gets.
    """

    facts = ENGINES["milvus"]

    def __init__(
        self,
        uri: str,
        collection: str,
        encoder: Any = None,
        *,
        n_bits: int | None = None,
        kind: str | None = None,
        create: bool = False,
        replace: bool = False,
    ) -> None:
        self._check_kind(kind)
        self._milvus = require("pymilvus", "milvus")
        self._uri = str(uri)
        check_address(self._uri, "/?#")
        self.name = collection
        self.where = f"collection {collection!r}"
        if not (create or replace) and "://" not in self._uri and not os.path.exists(self._uri):
            raise FileError(
                f"{masked(self._uri)}: no such file; expected a database of Milvus Lite, or http://host:port"
            )
        with self._translated():
            self._client = self._milvus.MilvusClient(uri=self._uri, timeout=CONNECT_SECONDS)
        self._closed = False
        with _counting:
            _open[self._uri] += 1
        with opening(self):
            with self._translated():
                exists = bool(self._client.has_collection(collection, timeout=CONNECT_SECONDS))
            existing = self._existing() if exists and not replace else None
            super().__init__(encoder, n_bits, existing, create or replace)
            self.kind = kind or self.facts.kinds[0]
            if existing is None:
                self._create(exists)
            elif (found := self._kind()) != self.kind and kind is not None:
                raise InputError(
                    f"{self.where} has an index of the kind {found}; got {kind}; replace=True or --replace begins anew"
                )
            else:
                self.kind = found

    def __len__(self) -> int:
        with self._translated():
            found = self._client.query(
                self.name,
                filter="",
                output_fields=["count(*)"],
                consistency_level="Strong",
                timeout=CALL_SECONDS,
            )
            return int(found[0]["count(*)"])

    def close(self) -> None:
        """Let go of the server; clients of one address share a connection, so the last store ends it."""
        if self._closed:
            return
        self._closed = True
        with _counting:
            _open[self._uri] -= 1
            if not _open[self._uri]:
                self._client.close()

    def _upsert(self, keys: Sequence[Key], codes: Codes, metadata: Sequence[str | None]) -> None:
        rows = [
            {"id": _id(key), "code": code.tobytes(), "metadata": {"json": note, "code": code.tobytes().hex()}}
            for key, code, note in zip(keys, codes, metadata, strict=True)
        ]
        with self._translated():
            for start in range(0, len(rows), AT_ONCE):
                self._client.upsert(self.name, rows[start : start + AT_ONCE], timeout=CALL_SECONDS)

    def _delete(self, keys: Sequence[Key]) -> None:
        with self._translated():
            self._client.delete(self.name, ids=[_id(key) for key in keys], timeout=CALL_SECONDS)

    def batches(self) -> Iterator[Batch]:
        """All items, some thousands at a time."""
        with self._translated():
            rows = self._client.query_iterator(
                self.name, AT_ONCE, output_fields=["id", "metadata"], timeout=CALL_SECONDS
            )
            while found := rows.next():
                some = [self._candidate(row["id"], row["metadata"], 0) for row in found]
                keys, codes, _, notes = zip(*some, strict=True)
                yield Batch(list(keys), np.stack(codes), list(notes), None)

    def _nearest(self, codes: Codes, k: int, where: Where | None) -> list[list[Candidate]]:
        if k > MAX_HITS:
            raise InputError(f"{self.where}: Milvus gives at most {MAX_HITS} hits; got k = {k} with its candidates")
        with self._translated():
            found = self._client.search(
                self.name,
                data=[code.tobytes() for code in codes],
                limit=k,
                output_fields=["metadata"],
                search_params={"metric_type": "HAMMING", "params": {"nprobe": PROBES} if self.kind == "ivf" else {}},
                consistency_level="Strong",
                timeout=CALL_SECONDS,
            )
        return [
            [self._candidate(hit["id"], hit["entity"]["metadata"], hit["distance"]) for hit in hits] for hits in found
        ]

    def _create(self, replace: bool) -> None:
        types = self._milvus.DataType
        with self._translated():
            if replace:
                self._client.drop_collection(self.name)
            schema = self._client.create_schema(auto_id=False, description=str(self.tag))
            schema.add_field("id", types.VARCHAR, is_primary=True, max_length=65_535)
            schema.add_field("code", types.BINARY_VECTOR, dim=8 * width(self.n_bits))
            schema.add_field("metadata", types.JSON)
            index = self._client.prepare_index_params()
            params = {"nlist": LISTS} if self.kind == "ivf" else {}
            index.add_index("code", index_type=TYPES[self.kind], metric_type="HAMMING", params=params)
            try:
                self._client.create_collection(self.name, schema=schema, index_params=index)
            except self._milvus.MilvusException:
                self._client.drop_collection(self.name)  # which may be there without its index
                raise

    def _others(self) -> list[str]:
        with self._translated():
            return list(self._client.list_collections(timeout=CONNECT_SECONDS))

    def _kind(self) -> str:
        """The kind of the index that the collection has."""
        with self._translated():
            found = self._client.describe_index(self.name, "code", timeout=CALL_SECONDS) or {}
        return "ivf" if found.get("index_type") == TYPES["ivf"] else "flat"

    def _existing(self) -> ModelTag:
        with self._translated():
            found = self._client.describe_collection(self.name)
        names = sorted(field["name"] for field in found["fields"])
        if names != ["code", "id", "metadata"]:
            raise FormatError(
                f"{self.where} exists with another shape: expected fields code, id, metadata; got {', '.join(names)}; "
                "replace=True or --replace overwrites it"
            )
        return ModelTag.parse(found.get("description"), self.where)

    def _candidate(self, name: Any, fields: Any, distance: Any) -> Candidate:
        kind, _, key = str(name).partition(":")
        bits = check_width(bytes.fromhex(fields["code"]), self.n_bits, self.where)
        note = parsed(fields["json"], self.where)
        return Candidate(int(key) if kind == "i" else unquote(key), bits, int(distance), note)

    def _worded(self, error: BaseException) -> str:
        """The words of Milvus on one line, without the password."""
        text = " ".join(str(getattr(error, "message", None) or error).split())
        unreachable = "Milvus cannot be reached: " if "Fail connecting" in text else ""
        return unreachable + text.replace(self._uri, masked(self._uri))[:300]

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            with _silence():
                yield
        except IschError:
            raise
        except (self._milvus.MilvusException, OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
            raise FileError(f"{self.where}: {self._worded(error)}") from None


@contextmanager
def _silence() -> Iterator[None]:
    """Keep the client from logging: whatever it would log is raised too, and its lines show passwords."""
    loggers = [logging.getLogger(name) for name in ("pymilvus", "pymilvus.milvus_client")]
    levels = [log.level for log in loggers]
    try:
        for log in loggers:
            log.setLevel(logging.CRITICAL)
        yield
    finally:
        for log, level in zip(loggers, levels, strict=True):
            log.setLevel(level)


def _id(key: Key) -> str:
    text = f"i:{key}" if isinstance(key, int) else f"s:{quote(key, safe='')}"
    if len(text.encode()) > MAX_KEY:
        raise InputError(f"Milvus takes keys of at most {MAX_KEY} bytes; got one of {len(text.encode())}")
    return text
