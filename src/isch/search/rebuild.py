"""A catalog made anew: from what a damaged one still says, where the files agree with it, and else from the segments.

The headers of segments say what they hold. They are taken in the order in which they were written.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch.encoder import Encoder
from isch.errors import FormatError, IschError
from isch.files import plain
from isch.search import catalog as catalogs
from isch.search.catalog import FACTORS, KEPT, LARGEST_BYTES, N_FACTORS, Catalog, DeadRow, SegmentRow
from isch.search.folder import MODEL, SEGMENT_FILE, SEGMENTS, digest
from isch.search.sealed import CODES, DEAD, FEATURES, ITEMS, Header, SegmentFile, read_header
from isch.search.segments import write_dead

KINDS = {"codes": CODES, "features": FEATURES, "items": ITEMS, "dead": DEAD}

Headers = dict[str, tuple[Header, str]]  # by the kind of file: header and digest
Marks = NDArray[np.bool_]


class Rebuilt(NamedTuple):
    """A catalog, sentences on what is missing from it, and files that belong to nothing in it."""

    catalog: Catalog
    found: list[str]
    damaged: list[Path]


def refuse_newer(folder: Path, error: IschError) -> None:
    """Raise the error again if the catalog is not damaged but of a newer version."""
    version = _values(folder).get("version")
    if type(version) is int and version > max(catalogs.READABLE) and "format version" in str(error):
        raise error


def rebuilt(folder: Path) -> Rebuilt:
    """The catalog of an index whose catalog is damaged or missing."""
    values, old = _values(folder), folder / catalogs.FILE
    headers = _all_headers(folder / SEGMENTS)
    settings = _settings(folder, values, headers.values())
    listed, whole = _listed(values, old)
    damaged = [old] if old.exists() else []
    if whole and all(_agree(row, headers) for row in listed):
        rows, found = listed, list[str]()
    else:
        rows, found, left = _from_headers(folder / SEGMENTS, headers, settings, listed)
        damaged += left
    added = max(_whole(values, "added"), sum(row.n_rows for row in rows))
    catalog = Catalog(**settings, generation=_whole(values, "generation"), added=added, segments=tuple(rows))
    return Rebuilt(catalog, found, damaged)


def _values(folder: Path) -> dict[str, Any]:
    """What the damaged catalog says; nothing of it is believed."""
    with suppress(OSError, ValueError, RecursionError), plain(folder / catalogs.FILE).open("rb") as file:
        values = json.loads(file.read(LARGEST_BYTES))
        if isinstance(values, dict):
            return values
    return {}


def _listed(values: dict[str, Any], path: Path) -> tuple[list[SegmentRow], bool]:
    """The segments that the damaged catalog lists, and whether these are all of them."""
    rows = list[SegmentRow]()
    entries = values.get("segments")
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        with suppress(IschError):
            rows.append(catalogs.segment(entry, number, path))
    return rows, isinstance(entries, list) and len({row.name for row in rows}) == len(entries)


def _all_headers(segments: Path) -> dict[str, Headers]:
    """The headers of all files that have a right one, by the names of segments."""
    found: dict[str, Headers] = {}
    for path in segments.iterdir():
        if SEGMENT_FILE.fullmatch(path.name):
            name, _, kind = path.name.partition(".")
            headers = found.setdefault(name, {})
            with suppress(IschError, OSError):
                header, sealed = read_header(path)
                if header.kind == KINDS[kind]:
                    headers[kind] = header, sealed
    return found


def _agree(row: SegmentRow, headers: dict[str, Headers]) -> bool:
    """Whether the files of a segment have the headers that the damaged catalog lists."""
    digests = {kind: sealed for kind, (_, sealed) in headers.get(row.name, {}).items()}
    dead = row.dead is None or headers.get(row.dead.name, {}).get("dead", (None, ""))[1] == row.dead.digest
    return dead and (digests.get("codes"), digests.get("features"), digests.get("items")) == (
        row.codes,
        row.features,
        row.items,
    )


def _settings(folder: Path, values: dict[str, Any], headers: Iterable[Headers]) -> dict[str, Any]:
    """What a catalog says besides its segments."""
    path = folder / MODEL
    encoder = Encoder.load(path) if path.exists() else None
    if encoder is None and isinstance(values.get("model"), str):
        raise FormatError(f"{path}: the model of the index is missing")
    lengths = Counter(each["codes"][0].n_columns for each in headers if "codes" in each)
    if encoder is None and not lengths:
        raise FormatError(f"{folder}: neither a segment nor a model is left to make a catalog from")
    name = values.get("id")
    return {
        "id": name if isinstance(name, str) and catalogs.IDENTITY(name) else token_hex(16),
        "n_bits": lengths.most_common(1)[0][0] if encoder is None else encoder.n_bits,
        "n_features": None if encoder is None else encoder.n_features,
        "model": None if encoder is None else digest(path),
        "keep_features": _kept(folder, values, headers, encoder),
    }


def _kept(folder: Path, values: dict[str, Any], headers: Iterable[Headers], encoder: Encoder | None) -> str | None:
    """What the index keeps of features, by the files there are; by the damaged catalog if there are none."""
    kept = Counter(
        (each["features"][0].n_columns, each["features"][0].item_bytes) for each in headers if "features" in each
    )
    if not kept:
        said = values.get("keep_features")
        return said if encoder is not None and said in KEPT and not any("codes" in each for each in headers) else None
    if encoder is None:
        raise FormatError(f"{folder / MODEL}: the model is missing, which an index that keeps features needs")
    (columns, n_bytes), _ = kept.most_common(1)[0]
    if columns != encoder.n_features and (columns, n_bytes) == (N_FACTORS, 2):
        return FACTORS
    return "float16" if n_bytes == 2 else "float32"


def _from_headers(
    segments: Path, headers: dict[str, Headers], settings: dict[str, Any], listed: Sequence[SegmentRow]
) -> tuple[list[SegmentRow], list[str], list[Path]]:
    """The segments on disk in the order in which they were written."""
    rows, found, left = list[SegmentRow](), list[str](), list[Path]()
    catalog = Catalog(**settings)
    for name in sorted(headers, key=lambda name: _written(segments, name)):
        paths = [path for kind in ("codes", "features", "items") if (path := segments / f"{name}.{kind}").exists()]
        row = _row(name, headers[name], catalog)
        if row is not None:
            rows.append(row)
        elif paths:
            counts = [header.n_rows for header, _ in headers[name].values()]
            count = f"up to {max(counts)}" if counts else "an unknown number of"
            found.append(f"segment {name} is lost with {count} items: files of it are missing or damaged")
            left += paths
    there = {row.name for row in rows}
    known = {row.name: row.dead for row in listed if row.dead is not None and row.name in there}
    return _with_dead(segments, rows, known, headers, found, left)


def _written(segments: Path, name: str) -> tuple[int, str]:
    times = [path.stat().st_mtime_ns for kind in KINDS if (path := segments / f"{name}.{kind}").exists()]
    return max(times), name


def _row(name: str, headers: Headers, catalog: Catalog) -> SegmentRow | None:
    """What a catalog says of a segment, if its files belong together and to this index."""
    if "codes" not in headers or "items" not in headers:
        return None
    (codes, codes_digest), (items, items_digest) = headers["codes"], headers["items"]
    features, features_digest = headers.get("features", (None, None))
    shapes = [(codes.n_rows, codes.n_columns) == (items.n_rows, catalog.n_bits), codes.n_rows > 0]
    if catalog.keep_features is None:
        features_digest = None
    else:
        shapes.append(features is not None and features.n_rows == codes.n_rows)
        shapes.append(features is not None and features.n_columns == catalog.kept_columns[0])
    if not all(shapes):
        return None
    return SegmentRow(name, codes.n_rows, codes_digest, features_digest, items_digest, items.file_bytes)


def _with_dead(
    segments: Path,
    rows: list[SegmentRow],
    known: dict[str, DeadRow],
    headers: dict[str, Headers],
    found: list[str],
    left: list[Path],
) -> tuple[list[SegmentRow], list[str], list[Path]]:
    """The segments with their deleted rows: those the catalog names, or all that fit this segment and no other."""
    named = {dead.name for dead in known.values()}
    free = {name: each["dead"][0].n_rows for name, each in headers.items() if "dead" in each and name not in named}
    sizes = Counter(row.n_rows for row in rows if row.name not in known)
    out = list[SegmentRow]()
    for row in rows:
        if row.name in known:
            out.append(replace(row, dead=known[row.name]))
            continue
        fitting = [segments / f"{name}.dead" for name, n_rows in free.items() if n_rows == row.n_rows]
        if fitting and sizes[row.n_rows] == 1:
            marks = _union(fitting, row.n_rows)
            out.append(replace(row, dead=write_dead(segments, token_hex(8), marks)) if marks.any() else row)
            continue
        if fitting:
            found.append(f"segment {row.name}: items that were deleted can be found again, unless they were replaced")
            left += [path for path in fitting if path not in left]
        out.append(row)
    return out, found, left


def _union(paths: Iterable[Path], n_rows: int) -> Marks:
    """The rows that any undamaged file says are deleted: deletions are never taken back."""
    marks = np.zeros(n_rows, np.bool_)
    for path in paths:
        with suppress(IschError, OSError):
            file = SegmentFile(path, DEAD, (n_rows, 1), read_header(path)[1])
            file.check()
            marks |= np.unpackbits(file.array("u1", (-(-n_rows // 8),)), count=n_rows).view(np.bool_)
    return marks


def _whole(values: dict[str, Any], name: str) -> int:
    """A number that the damaged catalog says, or 0."""
    value = values.get(name)
    return value if type(value) is int and 0 <= value < 2**62 else 0
