"""The table "meaning or neighbours" of the report, from what benchmarks/meaning.py measured."""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from isch.errors import FormatError
from isch.evaluate.markdown import plain, table
from isch.evaluate.names import number
from isch.files import replacing

FILE = "meaning.csv"
SHOWN_BYTES, SHOWN_OVERSAMPLING = 32, (1, 5)
FLOATS, SIGNS = "2-norm", "signs"  # their size is that of the features
METHODS = ("DiffusionHash", "DistanceHash", "ITQ", "RaBitQ 1 bit", "RaBitQ 2 bit", "PQ", "OPQ")
NAMES = {
    "mnist": "MNIST, pixels",
    "gist": "CIFAR-10, GIST",
    "cnn": "thumbnails, CNN",
    "wordllama": "glosses, wordllama",
    "minilm": "glosses, MiniLM",
}


class Line(NamedTuple):
    """What the codes of one method and size find with one oversampling."""

    data: str
    rows: int
    method: str
    n_bytes: int  # per item, with all factors
    oversample: int  # candidates per result, which are then put in order exactly
    recall: float  # of the 10 true neighbours
    precision: float  # of the first 10 results
    long_precision: float  # of as many results as a fifth of a class has, at most 500, by the codes alone
    fit_seconds: float
    encode_microseconds: float  # per row


def read(folder: Path) -> list[Line]:
    """All lines; none if there is no such file."""
    path = folder / FILE
    if not path.exists():
        return []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        if tuple(head) != Line._fields:
            raise ValueError(f"expected the columns {', '.join(Line._fields)}")
        return [_line(row) for row in rows]
    except (ValueError, TypeError, csv.Error) as error:
        raise FormatError(f"{path}: not a table of meaning and neighbours, or damaged ({error})") from error


def write(folder: Path, lines: list[Line]) -> None:
    """Add lines; those of the same data set, method and size are replaced, also where they had other oversamplings."""
    new = {_place(line) for line in lines}
    every = sorted([line for line in read(folder) if _place(line) not in new] + lines, key=_order)
    with replacing(folder / FILE) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([Line._fields, *every])


def _place(line: Line) -> tuple[str, str, int]:
    return line.data, line.method, line.n_bytes


def _order(line: Line) -> tuple[object, ...]:
    """Sets as in NAMES, others by name; in each the floats, the codes by size and method, the signs."""
    data = list(NAMES).index(line.data) if line.data in NAMES else len(NAMES)
    kind = {FLOATS: 0, SIGNS: 2}.get(line.method, 1)
    method = METHODS.index(line.method) if line.method in METHODS else len(METHODS)
    return data, line.data, kind, line.n_bytes, method, line.method, line.oversample


def _line(row: list[str]) -> Line:
    kinds = Line.__annotations__.values()
    return Line(*(kind(text) for kind, text in zip(kinds, row, strict=True)))


def section(lines: list[Line]) -> str:
    """The table at the top of the report, and what it says."""
    sets = list(dict.fromkeys(line.data for line in lines))
    shown = [line for line in lines if line.n_bytes == SHOWN_BYTES or line.method in (FLOATS, SIGNS)]
    by_place = {(line.method, line.data, line.oversample): line for line in shown}
    methods = list(dict.fromkeys(line.method for line in shown))
    most = max(line.rows for line in lines)
    rows = [[_named(method), *(_cell(by_place, method, data) for data in sets)] for method in methods]
    return "\n\n".join(
        [
            "## Meaning or neighbours",
            f"What {SHOWN_BYTES} bytes per item find, factors included: recall of the 10 true neighbours among 10 "
            f"and among {10 * SHOWN_OVERSAMPLING[1]} candidates · share of same labels in long lists (a fifth of a "
            f"class, at most 500 results), by the codes alone. {most:,} rows at most, 1,000 other queries, real-valued "
            "queries except for signs.",
            table(["method", *(plain(NAMES.get(data, data)) for data in sets)], rows),
            _told(by_place, sets),
        ]
    )


def _named(method: str) -> str:
    return f"{method} (all features)" if method in (FLOATS, SIGNS) else method


def _cell(by_place: dict[tuple[str, str, int], Line], method: str, data: str) -> str:
    found = [by_place.get((method, data, oversample)) for oversample in SHOWN_OVERSAMPLING]
    if any(line is None for line in found):
        return "–"
    lines = [line for line in found if line is not None]
    return f"{' '.join(number(line.recall) for line in lines)} · {number(lines[0].long_precision)}"


def _told(by_place: dict[tuple[str, str, int], Line], sets: list[str]) -> str:
    """Which codes keep meaning and which neighbours, counted from the table."""

    def of(method: str, data: str) -> Line:
        return by_place[method, data, 1]

    better = sum(of("DiffusionHash", data).long_precision > of(FLOATS, data).long_precision for data in sets)
    others = [method for method in ("RaBitQ 1 bit", "RaBitQ 2 bit", "PQ", "OPQ") if (method, sets[0], 1) in by_place]
    rabitq = [method for method in others if method.startswith("RaBitQ")]
    best = {data: max(of(method, data).recall for method in rabitq) for data in sets}
    kept = sum(of("DistanceHash", data).recall >= best[data] for data in sets)
    lost = sum(max(of(method, data).recall for method in others) > of("DiffusionHash", data).recall for data in sets)
    return (
        f"The codes of DiffusionHash retrieve what has the same label better than the floats on {better} of "
        f"{len(sets)} sets. The best of {', '.join(others)} keeps the true neighbours better than they do on {lost} of "
        f"{len(sets)}. `DistanceHash` is for those: with its factors it is not below {' and '.join(rabitq)} on "
        f"{kept} of {len(sets)}. [All sizes, oversampling and costs](neighbours.md)."
    )


def wide(lines: Iterable[Line]) -> Iterator[list[object]]:
    """One row per data set, method and size, with all oversamplings side by side."""
    groups: dict[tuple[str, str, int], list[Line]] = {}
    for line in lines:
        groups.setdefault(_place(line), []).append(line)
    for (data, method, n_bytes), some in groups.items():
        found = [number(line.recall) for line in some] + [number(line.precision) for line in some]
        costs = [f"{some[0].fit_seconds:.3g}", f"{some[0].encode_microseconds:.3g}"]
        yield [data, method, n_bytes, *found, number(some[0].long_precision), *costs]
