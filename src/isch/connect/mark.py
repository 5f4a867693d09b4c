"""What travels with codes into an engine, so that a query encoded with another model is refused."""

import hashlib
import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from isch.encoder import Encoder
from isch.errors import FormatError, InputError

FORMAT = "isch-codes"
BIT_ORDER = "packbits"  # bit i is bit 7 − i % 8 of byte i // 8


@dataclass(frozen=True)
class Mark:
    """Which model made the codes: its method, the length and order of bits, and the SHA-256 of its file."""

    n_bits: int
    method: str | None = None
    checksum: str | None = None

    @classmethod
    def of(cls, encoder: Encoder | None, n_bits: int | None = None) -> Self:
        """The mark of an encoder's codes, or of codes of some length without one."""
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
        """The mark that ``str`` wrote."""
        try:
            values = json.loads(text or "")
            if values.pop("format") != FORMAT or values.pop("bit_order") != BIT_ORDER:
                raise ValueError("unknown format or bit order")
            mark = cls(**values)
            if not isinstance(mark.n_bits, int) or mark.n_bits < 1:
                raise ValueError(f"{mark.n_bits!r} bits")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise FormatError(
                f"{where}: it does not say which model made its codes ({error}); was it exported by isch?"
            ) from error
        return mark

    def __str__(self) -> str:
        return json.dumps({"format": FORMAT, "bit_order": BIT_ORDER, **asdict(self)}, sort_keys=True)

    def check(self, other: "Mark", where: str) -> None:
        """Refuse codes of another model; codes of no known model fit any of their length."""
        if self.n_bits != other.n_bits:
            raise InputError(f"{where}: holds codes of {self.n_bits} bits; got codes of {other.n_bits} bits")
        if self.checksum and other.checksum and self.checksum != other.checksum:
            raise InputError(
                f"{where}: holds codes of another model ({self.method}, checksum {self.checksum[:12]}…; got "
                f"{other.method}, {other.checksum[:12]}…); distances between codes of two models mean nothing"
            )
