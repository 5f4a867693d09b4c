"""Milvus: a collection (id, code BINARY_VECTOR, metadata JSON), the mark in its description.

Milvus wants lengths that are multiples of 8: the padding bits are zero on both sides. The index is BIN_FLAT,
which is exact. A key becomes the text id "s:KEY", percent-encoded as in a URL because Milvus Lite trips over
quotation marks, or "i:KEY" for an integer. One search gives at most 16,384 hits.
Milvus Lite cannot give a code back with a hit, so the metadata carry it too, in hexadecimal.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, unquote

from isch.codes import Codes, width
from isch.connect.base import Candidate, Store, check_width, opening, parsed
from isch.connect.mark import Mark
from isch.errors import FileError, FormatError, InputError, IschError, require
from isch.search.catalog import Key
from isch.search.filters import Where

MAX_HITS = 16_384
MAX_KEY = 60_000  # bytes
CONNECT_SECONDS = 10
AT_ONCE = 5_000  # rows per request


class Milvus(Store):
    """Codes in a collection of Milvus.

    Parameters
    ----------
    uri : str
        ``http://host:19530``, or the path of a file of Milvus Lite.
    collection : str
        The collection; made when there is none.
    encoder, n_bits, replace
        As in every store.
    """

    def __init__(
        self,
        uri: str,
        collection: str,
        encoder: Any = None,
        *,
        n_bits: int | None = None,
        replace: bool = False,
    ) -> None:
        self._milvus = require("pymilvus", "milvus")
        self.collection, self.where = collection, f"collection {collection!r}"
        with self._translated():
            self._client = self._milvus.MilvusClient(uri=str(uri), timeout=CONNECT_SECONDS)
            exists = bool(self._client.has_collection(collection))
        with opening(self):
            existing = self._existing() if exists and not replace else None
            super().__init__(encoder, n_bits, existing if encoder is None and n_bits is None else None)
            if existing is not None:
                existing.check(self.mark, self.where)
            else:
                self._create(exists)

    def __len__(self) -> int:
        with self._translated():
            found = self._client.query(
                self.collection, filter="", output_fields=["count(*)"], consistency_level="Strong"
            )
            return int(found[0]["count(*)"])

    def close(self) -> None:
        self._client.close()

    def _upsert(self, keys: Sequence[Key], codes: Codes, metadata: Sequence[str | None]) -> None:
        rows = [
            {"id": _id(key), "code": code.tobytes(), "metadata": {"json": note, "code": code.tobytes().hex()}}
            for key, code, note in zip(keys, codes, metadata, strict=True)
        ]
        with self._translated():
            for start in range(0, len(rows), AT_ONCE):
                self._client.upsert(self.collection, rows[start : start + AT_ONCE])

    def _delete(self, keys: Sequence[Key]) -> None:
        with self._translated():
            self._client.delete(self.collection, ids=[_id(key) for key in keys])

    def _nearest(self, code: Codes, k: int, where: Where | None) -> list[Candidate]:
        if k > MAX_HITS:
            raise InputError(f"{self.where}: Milvus gives at most {MAX_HITS} hits; got k = {k} with its candidates")
        with self._translated():
            found = self._client.search(
                self.collection,
                data=[code.tobytes()],
                limit=k,
                output_fields=["metadata"],
                search_params={"metric_type": "HAMMING"},
                consistency_level="Strong",
            )[0]
        return [self._candidate(hit) for hit in found]

    def _create(self, replace: bool) -> None:
        types = self._milvus.DataType
        with self._translated():
            if replace:
                self._client.drop_collection(self.collection)
            schema = self._client.create_schema(auto_id=False, description=str(self.mark))
            schema.add_field("id", types.VARCHAR, is_primary=True, max_length=65_535)
            schema.add_field("code", types.BINARY_VECTOR, dim=8 * width(self.n_bits))
            schema.add_field("metadata", types.JSON)
            index = self._client.prepare_index_params()
            index.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
            self._client.create_collection(self.collection, schema=schema, index_params=index)

    def _existing(self) -> Mark:
        with self._translated():
            found = self._client.describe_collection(self.collection)
        names = sorted(field["name"] for field in found["fields"])
        if names != ["code", "id", "metadata"]:
            raise FormatError(
                f"{self.where} exists with another shape: expected fields code, id, metadata; got {', '.join(names)}; "
                "replace=True or --replace overwrites it"
            )
        return Mark.parse(found.get("description"), self.where)

    def _candidate(self, hit: Any) -> Candidate:
        kind, _, key = str(hit["id"]).partition(":")
        fields = hit["entity"]["metadata"]
        bits = check_width(bytes.fromhex(fields["code"]), self.n_bits, self.where)
        note = parsed(fields["json"], self.where)
        return Candidate(int(key) if kind == "i" else unquote(key), bits, int(hit["distance"]), note)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except IschError:
            raise
        except (self._milvus.MilvusException, OSError, ValueError, RuntimeError) as error:
            raise FileError(f"{self.where}: {' '.join(str(error).split())[:300]}") from error


def _id(key: Key) -> str:
    text = f"i:{key}" if isinstance(key, int) else f"s:{quote(key, safe='')}"
    if len(text.encode()) > MAX_KEY:
        raise InputError(f"Milvus takes keys of at most {MAX_KEY} bytes; got one of {len(text.encode())}")
    return text
