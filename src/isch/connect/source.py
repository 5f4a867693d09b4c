"""Codes that can be read from beginning to end, and what travels with them.

A ``ModelTag`` says which model made codes, so that queries of another model are refused; ``ReadOptions`` are what a
user may say of codes that others made.
"""

import hashlib
import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from isch import progress
from isch.codes import Codes, width
from isch.encoder import Encoder
from isch.errors import FormatError, InputError
from isch.search.items import Metadata
from isch.search.reading import Batch

FORMAT = "isch-codes"
BIT_ORDER = "packbits"  # bit i is bit 7 − i % 8 of byte i // 8
BATCH_ROWS = 16_384
_REVERSED = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1), axis=1, bitorder="little")


@dataclass(frozen=True)
class ModelTag:
    """Which model made the codes: its method, the length and order of bits, and the SHA-256 of its file."""

    n_bits: int
    method: str | None = None
    checksum: str | None = None

    @classmethod
    def of(cls, encoder: Encoder | None, n_bits: int | None = None) -> Self:
        """The tag of an encoder's codes, or of codes of some length without one."""
        if encoder is None:
            if n_bits is None:
                raise InputError("a store without an encoder holds codes and needs n_bits")
            return cls(n_bits)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            encoder.save(path)
            return cls(encoder.n_bits, encoder.hasher.name, hashlib.sha256(path.read_bytes()).hexdigest())

    @classmethod
    def parse(cls, text: str | None, where: str) -> Self:
        """The tag that ``str`` wrote."""
        try:
            values = json.loads(text or "")
            if values.pop("format") != FORMAT or values.pop("bit_order") != BIT_ORDER:
                raise ValueError("unknown format or bit order")
            tag = cls(**values)
            if not isinstance(tag.n_bits, int) or tag.n_bits < 1:
                raise ValueError(f"{tag.n_bits!r} bits")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise FormatError(
                f"{where}: it does not say which model made its codes ({error}); was it exported by isch?"
            ) from error
        return tag

    def __str__(self) -> str:
        return json.dumps({"format": FORMAT, "bit_order": BIT_ORDER, **asdict(self)}, sort_keys=True)

    def check(self, other: "ModelTag", where: str) -> None:
        """Refuse codes of another model; codes of no known model fit any of their length."""
        if self.n_bits != other.n_bits:
            raise InputError(f"{where}: holds codes of {self.n_bits} bits; got codes of {other.n_bits} bits")
        if self.checksum and other.checksum and self.checksum != other.checksum:
            raise InputError(
                f"{where}: holds codes of another model ({self.method}, checksum {self.checksum[:12]}…; got "
                f"{other.method}, {other.checksum[:12]}…); distances between codes of two models mean nothing"
            )


class Source(ABC):
    """Codes with keys and metadata that can be read from beginning to end, any number of times."""

    where: str  # how messages call it
    tag: ModelTag  # which model made the codes

    @abstractmethod
    def __len__(self) -> int:
        """How many items there are."""

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """All items, some thousands at a time."""

    def close(self) -> None:  # noqa: B027  # a source without anything to close need not say so
        """Let go of files and connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


@dataclass(frozen=True)
class ReadOptions:
    """How codes are to be read.

    Parameters
    ----------
    n_bits : int, optional
        Bits per code; by default what the source says, else all bits of its bytes.
    code, key : str, optional
        The names of the columns with the codes and the keys; by default those that can be meant.
    """

    n_bits: int | None = None
    code: str | None = None
    key: str | None = None

    def length(self, n_bytes: int, where: str) -> int:
        """Bits per code of codes of some bytes."""
        n_bits = 8 * n_bytes if self.n_bits is None else self.n_bits
        if n_bytes == 0 or width(n_bits) != n_bytes:
            raise InputError(f"{where}: its codes have {n_bytes} bytes; codes of {n_bits} bits have {width(n_bits)}")
        return n_bits

    def tag(self, text: str | None, n_bytes: int, where: str) -> ModelTag:
        """The tag that a source carries as text, or one of the length alone."""
        if text is None:
            return ModelTag(self.length(n_bytes, where))
        tag = ModelTag.parse(text, where)
        if width(tag.n_bits) != n_bytes:
            raise FormatError(f"{where}: says that its codes have {tag.n_bits} bits; they have {n_bytes} bytes")
        if self.n_bits is not None:
            tag.check(ModelTag(self.n_bits), where)
        return tag


class Reversed(Source):
    """A source whose bytes hold their bits in the other order, the lowest first."""

    def __init__(self, source: Source) -> None:
        self.where = source.where
        self.tag = source.tag
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def batches(self) -> Iterator[Batch]:
        """All items with the bits of each byte turned round."""
        return (batch._replace(codes=_turned(batch.codes)) for batch in self._source.batches())


def _turned(codes: Codes) -> Codes:
    return np.ascontiguousarray(_REVERSED[:, 0][codes])


class WithProgress(Source):
    """A source whose reading shows its progress."""

    def __init__(self, source: Source, label: str) -> None:
        self.where = source.where
        self.tag = source.tag
        self._source = source
        self._label = label

    def __len__(self) -> int:
        return len(self._source)

    def batches(self) -> Iterator[Batch]:
        """All items, some thousands at a time."""
        with progress.task(self._label, len(self), "items") as advance:
            for batch in self._source.batches():
                yield batch
                advance(len(batch.keys))


def check_width(code: bytes, n_bits: int, where: str) -> Codes:
    """A code as an engine gives it back."""
    if len(code) != width(n_bits):
        raise FormatError(f"{where}: expected codes of {width(n_bits)} bytes; got {len(code)}")
    return np.frombuffer(code, np.uint8)


def parsed(text: str | None, where: str) -> Metadata:
    """Metadata from the JSON that an engine gives back."""
    try:
        found = None if text is None else json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise FormatError(f"{where}: the metadata of an item are damaged ({error})") from error
    if not (found is None or isinstance(found, dict)):
        raise FormatError(f"{where}: the metadata of an item are damaged (expected a JSON object)")
    return found
