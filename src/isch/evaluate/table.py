"""The table of an experiment: one CSV file, one line per run, which any spreadsheet and ``pandas.read_csv`` open.

    RESULTS/EXPERIMENT.csv            what was run, its measures, its costs, what was learned, where it was made
    RESULTS/EXPERIMENT.safetensors    the values of every query, and the curves (values.py)

Columns are ``mean.MEASURE.TIES``, ``cost.NAME``, ``learned.NAME``; what has parts of its own is JSON in one column.
Lines are sorted, so that a new run is a new line and nothing else changes. The values are written before the table,
so every line that a reader sees has its values.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from isch.errors import FormatError
from isch.evaluate import values
from isch.evaluate.runs import Result, checked_numbers, checked_run
from isch.files import content, replacing

VERSION = 1
LARGEST = 256 << 20  # bytes of a table; 1,000 runs take about 1 MB
FIRST = ("version", "key", "label", "method", "bits", "seed", "revision", "date")
NUMBERS = ("mean", "cost", "learned")
JSON = ("parameters", "data", "split", "measures", "context")

Line = dict[str, str]


def write(path: Path, results: Iterable[Result]) -> None:
    """Write the values, then the table, each whole or not at all."""
    ordered = sorted(results, key=lambda r: (r.run.label, r.run.bits or 0, r.run.seed, r.run.key))
    values.write(_values_path(path), ordered)
    lines = [_line(result) for result in ordered]
    numbers = {column for line in lines for column in line} - {*FIRST, *JSON}
    between = sorted(numbers, key=lambda column: (NUMBERS.index(column.partition(".")[0]), column))
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*FIRST, *between, *JSON], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def read(path: Path) -> list[Result]:
    """The results of a table; none if there is no table.

    Raises
    ------
    FormatError
        The table or its values are damaged, of another version, or do not belong together.
    """
    if not path.exists():
        return []
    lines = list(_lines(path))
    known = values.read(_values_path(path)) if lines else {}
    return [_result(path, number, line, known) for number, line in lines]


def revisions(path: Path) -> dict[str, str]:
    """The revision of each run of a table, by its key; the values are not read."""
    return {line["key"]: line["revision"] for _, line in _lines(path)} if path.exists() else {}


def _values_path(path: Path) -> Path:
    return path.with_suffix(".safetensors")


def _line(result: Result) -> Line:
    run, context = result.run, {k: v for k, v in result.context.items() if k != "date"}
    line = {
        "version": str(VERSION),
        "key": run.key,
        "label": run.label,
        "method": run.method,
        "bits": "" if run.bits is None else str(run.bits),
        "seed": str(run.seed),
        "revision": result.revision,
        "date": result.date,
    }
    for measure, by_ties in result.means.items():
        line |= {f"mean.{measure}.{ties}": _number(round(value, 6)) for ties, value in by_ties.items()}
    for kind, numbers in (("cost", result.costs), ("learned", result.learned)):
        line |= {f"{kind}.{name}": _number(value) for name, value in numbers.items()}
    parts = (run.parameters, run.data, run.split, run.measures, context)
    return line | {c: json.dumps(part, sort_keys=True) for c, part in zip(JSON, parts, strict=True)}


def _number(value: float) -> str:
    """The shortest text that is read as the same number."""
    return repr(float(value)).removesuffix(".0")


def _lines(path: Path) -> Iterator[tuple[int, Line]]:
    """(line number, line) of a table of this version."""
    raw = content(path, LARGEST, "a table of results")
    try:
        reader = csv.DictReader(io.StringIO(raw.decode("utf-8"), newline=""), strict=True)
        missing = {*FIRST, *JSON} - set(reader.fieldnames or ())
        if missing:
            raise ValueError(f"the columns {', '.join(sorted(missing))} are missing")
        for line in reader:
            if None in line or None in line.values():
                raise ValueError(f"line {reader.line_num} has another number of fields than the first line")
            if line["version"] != str(VERSION):
                raise ValueError(f"it is of version {line['version']!r}; this ISCH reads version {VERSION}")
            yield reader.line_num, line
    except (csv.Error, ValueError) as error:
        raise FormatError(f"{path}: not a table of results, or damaged ({error})") from error


def _result(path: Path, number: int, line: Line, known: dict[str, values.Values]) -> Result:
    try:
        parts = {column: json.loads(line[column]) for column in JSON}
        context = parts.pop("context") | {"date": line["date"]}
        bits = int(line["bits"]) if line["bits"] else None
        run = checked_run(parts | {n: line[n] for n in ("label", "method")} | {"bits": bits, "seed": int(line["seed"])})
        if run.key != line["key"]:
            raise ValueError("the key is not that of what was run")
        if run.key not in known:
            raise ValueError(f"{_values_path(path).name} lacks its values")
        own = known[run.key]
        costs, learned = (_numbers(line, kind) for kind in ("cost", "learned"))
        return Result(run, _means(line), own.curves, costs, own.per_query, learned, line["revision"], context)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{path}: line {number} is not a result, or damaged ({error})") from error


def _numbers(line: Line, kind: str) -> dict[str, float]:
    found = {c.removeprefix(f"{kind}."): float(text) for c, text in line.items() if text and c.startswith(f"{kind}.")}
    return checked_numbers(found, kind)


def _means(line: Line) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, value in _numbers(line, "mean").items():
        measure, _, ties = name.rpartition(".")
        found.setdefault(measure, {})[ties] = value
    return found
