"""The catalog of an index: one small file that says which segments there are. docs/formats.md describes it.

The files of segments never change. A change of the index writes new files and then replaces the catalog in one step. A
reader reads the catalog once and sees that moment for as long as it has the files open. Readers take no locks.
"""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isch.errors import FormatError
from isch.files import plain, replacing

VERSION = 3  # 2 is the same, except that all its items are in SQLite files
WITH_FACTORS = 4  # as 3, and older programs do not know that factors may be kept
READABLE = (2, 3, 4)
FILE = "catalog.json"
LARGEST_BYTES = 64 << 20  # of a catalog: some hundred thousand segments
FACTORS = "factors"
KEPT = ("float16", "float32", FACTORS)
N_FACTORS = 2  # per item, in half precision

Key = str | int


@dataclass(frozen=True)
class DeadRow:
    """What the catalog knows of the deleted rows of a segment."""

    name: str
    count: int
    digest: str  # SHA-256 of the header of its file


@dataclass(frozen=True)
class SegmentRow:
    """What the catalog knows of a segment."""

    name: str
    n_rows: int
    codes: str  # SHA-256 of the header of its codes file
    features: str | None  # the same of its features, where they are kept
    items: str  # SHA-256 of the header of its items file; of all of the file if it is SQLite
    items_bytes: int
    dead: DeadRow | None = None

    @property
    def n_live(self) -> int:
        """Rows that are not deleted."""
        return self.n_rows - (0 if self.dead is None else self.dead.count)

    @property
    def content(self) -> tuple[object, ...]:
        """What distinguishes its files from all others; a deletion does not change it."""
        return self.name, self.codes, self.features, self.items

    @property
    def files(self) -> list[str]:
        """The names of its files."""
        kinds = ("codes", "items") if self.features is None else ("codes", "items", "features")
        return [f"{self.name}.{kind}" for kind in kinds] + ([f"{self.dead.name}.dead"] if self.dead else [])


@dataclass(frozen=True)
class Catalog:
    """What an index is at one moment."""

    id: str  # set when it is created; distinguishes indexes of the same name
    n_bits: int
    n_features: int | None
    keep_features: str | None
    model: str | None  # SHA-256 of the model file
    generation: int = 0  # changes so far
    added: int = 0  # rows ever added, from which rows without keys are numbered
    segments: tuple[SegmentRow, ...] = ()

    @property
    def moment(self) -> tuple[str, int]:
        """What distinguishes this state from every other."""
        return self.id, self.generation

    @property
    def version(self) -> int:
        """The version of the format that can say all of it."""
        return WITH_FACTORS if self.keep_features == FACTORS else VERSION

    @property
    def keeps_vectors(self) -> bool:
        """Whether whole feature vectors are kept."""
        return self.keep_features not in (None, FACTORS)

    @property
    def kept_columns(self) -> tuple[int, str]:
        """(how many, of which type) of what is kept per item."""
        if self.keep_features == FACTORS:
            return N_FACTORS, "float16"
        return self.n_features or 0, self.keep_features or "float32"

    @property
    def n_items(self) -> int:
        """Items that can be found."""
        return sum(row.n_live for row in self.segments)

    @property
    def files(self) -> set[str]:
        """The names of the files of all segments."""
        return {name for row in self.segments for name in row.files}


def kept_by_all(kinds: list[str | None]) -> str | None:
    """What several indexes keep: vectors of any precision, or factors; None if they do not all keep the same."""
    alike = None not in kinds and len({kind == FACTORS for kind in kinds}) == 1
    return kinds[0] if alike else None


def write(folder: Path, catalog: Catalog) -> None:
    """Replace the catalog of a folder: at this moment a change takes effect."""
    with replacing(folder / FILE) as temporary:
        temporary.write_bytes(encoded(catalog))


def read(folder: Path) -> Catalog:
    """The catalog of a folder."""
    path = plain(folder / FILE)
    with path.open("rb") as file:
        content = file.read(LARGEST_BYTES + 1)
    return decoded(content, path)


def encoded(catalog: Catalog, version: int | None = None) -> bytes:
    """The bytes of a catalog, in which no byte can change unnoticed."""
    segments = [{**vars(row), "dead": row.dead and vars(row.dead)} for row in catalog.segments]
    content = {"format": "ISCH index", "version": version or catalog.version, **vars(catalog), "segments": segments}
    return _text({**content, "checksum": hashlib.sha256(_text(content)).hexdigest()})


def decoded(content: bytes, path: Path) -> Catalog:
    """A catalog from its bytes, every value of which is what it may be."""
    if len(content) > LARGEST_BYTES:
        raise FormatError(f"{path}: expected a catalog of at most {LARGEST_BYTES} bytes")
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: the catalog is damaged or not a catalog ({error})") from error
    if not isinstance(values, dict) or values.pop("format", None) != "ISCH index":
        raise FormatError(f"{path}: not the catalog of an ISCH index")
    version = values.pop("version", None)
    if type(version) is int and version > max(READABLE):
        raise FormatError(
            f"{path}: the index has format version {version}; this ISCH reads up to version {max(READABLE)}"
        )
    values.pop("checksum", None)
    try:
        catalog = checked(values, path)
        unchanged = version in READABLE and encoded(catalog, version) == content
    except RecursionError as error:
        raise FormatError(f"{path}: the catalog is damaged ({error})") from error
    if not unchanged:
        raise FormatError(f"{path}: the catalog is damaged (it does not match its checksum)")
    if version < catalog.version == WITH_FACTORS:
        raise FormatError(f"{path}: factors need format version {WITH_FACTORS}; the catalog says {version}")
    return catalog


def checked(values: dict[str, Any], where: Path) -> Catalog:
    """A catalog from plain values, each of which is checked."""
    _check(values, _CATALOG, "", where)
    rows = tuple(segment(row, number, where) for number, row in enumerate(values["segments"]))
    names = [name for row in rows for name in row.files]
    if len(set(names)) < len(names):
        raise FormatError(f"{where}: the catalog is damaged (a segment is listed twice)")
    catalog = Catalog(**{**values, "segments": rows})
    if (catalog.model is None) != (catalog.n_features is None) or (catalog.keep_features and not catalog.model):
        raise FormatError(f"{where}: the catalog is damaged (features need a model)")
    if any((row.features is None) != (catalog.keep_features is None) for row in rows):
        raise FormatError(f"{where}: the catalog is damaged (features of some segments only)")
    return catalog


def segment(values: Any, number: int, where: Path) -> SegmentRow:
    """What a catalog says of a segment, from plain values."""
    name = f"segment {number}: "
    _check(values, _SEGMENT, name, where)
    dead = values["dead"]
    if dead is not None:
        _check(dead, _DEAD, name, where)
        if dead["count"] > values["n_rows"]:
            raise FormatError(f"{where}: the catalog is damaged ({name}more rows are deleted than there are)")
        dead = DeadRow(**dead)
    return SegmentRow(**{**values, "dead": dead})


def _check(values: Any, rules: "dict[str, Callable[[Any], bool]]", name: str, where: Path) -> None:
    if not isinstance(values, dict) or values.keys() != rules.keys():
        raise FormatError(f"{where}: the catalog is damaged ({name}expected the entries {', '.join(rules)})")
    for field, right in rules.items():
        if not right(values[field]):
            raise FormatError(f"{where}: the catalog is damaged ({name}{field} is {str(values[field])[:80]!r})")


def _whole(least: int, greatest: int = 2**62) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= greatest


def _hexadecimal(digits: int) -> Callable[[Any], bool]:
    pattern = re.compile(f"[0-9a-f]{{{digits}}}")
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _or_none(right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or right(value)


IDENTITY = _hexadecimal(32)
_CATALOG = {
    "id": IDENTITY,
    "n_bits": _whole(1, 2**31),
    "n_features": _or_none(_whole(1, 2**31)),
    "keep_features": lambda value: value is None or value in KEPT,
    "model": _or_none(_hexadecimal(64)),
    "generation": _whole(0),
    "added": _whole(0),
    "segments": lambda value: isinstance(value, list),
}
_SEGMENT = {
    "name": _hexadecimal(16),
    "n_rows": _whole(1, 2**48),
    "codes": _hexadecimal(64),
    "features": _or_none(_hexadecimal(64)),
    "items": _hexadecimal(64),
    "items_bytes": _whole(1),
    "dead": lambda value: value is None or isinstance(value, dict),
}
_DEAD = {"name": _hexadecimal(16), "count": _whole(1, 2**48), "digest": _hexadecimal(64)}


def _text(content: dict[str, Any]) -> bytes:
    return (json.dumps(content) + "\n").encode()
