"""``where``: which items may be found, as a condition on their metadata. Values reach SQL as parameters only.

{"album": "2019"}                  equal
{"album": ["2018", "2019"]}        one of
{"year": {">=": 2010, "<": 2020}}  in a range; also "!="
{"a": 1, "b": None}                all conditions hold
[{"a": 1}, {"a": 2}]               all of several hold
"""

import json
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from isch.errors import InputError, unknown

Where = Mapping[str, Any] | Sequence[Mapping[str, Any]]
Condition = tuple[str, list[Any]]  # SQL with question marks, and what they stand for

OPERATORS = ("<", "<=", ">", ">=", "!=")
_VALUE = "json_extract(metadata, ?)"
_TYPE = "json_type(metadata, ?)"
_TEXT, _NUMBER = "('text')", "('integer', 'real')"


class Test(NamedTuple):
    """One condition on a field: an operator and a value, or ``in`` and a list of values."""

    field: str
    operator: str
    value: Any


def tests(where: Where) -> list[Test]:
    """The conditions that a ``where`` stands for, checked; all must hold."""
    if isinstance(where, list | tuple):
        return [test for one in where for test in tests(one)]
    if not isinstance(where, Mapping):
        raise InputError(f"where must be a dictionary from field to value, or several; got {type(where).__name__}")
    return [test for name, wanted in where.items() for test in _field(name, wanted)]


def condition(tests: Iterable[Test]) -> Condition:
    """The same for SQLite."""
    return _all(map(_sql, tests))


def fits(metadata: Mapping[str, Any] | None, where: Where) -> bool:
    """Whether metadata fulfils a ``where``; a field that is missing fulfils nothing."""
    return all(
        metadata is not None and test.field in metadata and _holds(metadata[test.field], test) for test in tests(where)
    )


def _field(name: str, wanted: Any) -> list[Test]:
    _path(name)
    if isinstance(wanted, Mapping):
        return [_comparison(name, operator, value) for operator, value in wanted.items()]
    if isinstance(wanted, list | tuple | set | frozenset | range):
        return [Test(name, "in", [_plain(name, value) for value in wanted])]
    return [Test(name, "in", [_plain(name, wanted)])]


def _comparison(name: str, operator: str, value: Any) -> Test:
    if operator not in OPERATORS:
        raise unknown(f"operator of where field {name!r}:", operator, OPERATORS)
    value = _plain(name, value)
    if operator != "!=" and (value is None or isinstance(value, bool)):
        raise InputError(f"where field {name!r}: {operator} needs text or a number; got {value!r}")
    return Test(name, operator, value)


def _holds(value: Any, test: Test) -> bool:
    if test.operator == "in":
        return any(_same(value, one) for one in test.value)
    if test.operator == "!=":
        return not _same(value, test.value)
    compare = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[test.operator]
    return _kind(value) == _kind(test.value) and bool(compare(value, test.value))


def _same(one: Any, other: Any) -> bool:
    return _kind(one) == _kind(other) and bool(one == other)


def _kind(value: Any) -> str:
    """What JSON calls a value; integers and floats are both numbers."""
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _sql(test: Test) -> Condition:
    path = _path(test.field)
    if test.operator == "in":
        return _one_of(path, test.value) if len(test.value) != 1 else _equal(path, test.value[0])
    return _compared(path, test.operator, test.value)


def _path(name: str) -> str:
    """The JSON path of a top-level field. SQLite compares it letter by letter with the JSON text, escapes and all."""
    if not isinstance(name, str) or json.dumps(name, ensure_ascii=False) != f'"{name}"':
        raise InputError(
            f"a where field must be a string without quotation marks, backslashes or controls; got {name!r}"
        )
    return f'$."{name}"'


def _plain(name: str, value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    if value is not None and not isinstance(value, str | int | float):
        raise InputError(f"where field {name!r}: expected text, a number, true, false or null; got {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"where field {name!r}: expected a finite number; got {value!r}")
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        raise InputError(f"where field {name!r}: the integer {value} does not fit 64 bits")
    return value


def _equal(path: str, value: Any) -> Condition:
    if value is None or isinstance(value, bool):
        return f"{_TYPE} = ?", [path, json.dumps(value)]
    return f"({_TYPE} IN {_types(value)} AND {_VALUE} = ?)", [path, path, value]


def _one_of(path: str, values: list[Any]) -> Condition:
    """Texts and numbers go in as one JSON array each, so their number has no limit."""
    odd = [value for value in values if value is None or isinstance(value, bool)]
    parts = [_equal(path, value) for value in odd]
    for types, members in ((_TEXT, str), (_NUMBER, (int, float))):
        chosen = [value for value in values if isinstance(value, members) and not isinstance(value, bool)]
        if chosen:
            sql = f"({_TYPE} IN {types} AND {_VALUE} IN (SELECT value FROM json_each(?)))"
            parts.append((sql, [path, path, json.dumps(chosen)]))
    return _joined(parts, " OR ", "0")


def _compared(path: str, operator: str, value: Any) -> Condition:
    if operator == "!=":
        sql, parameters = _equal(path, value)
        return f"({_TYPE} IS NOT NULL AND NOT {sql})", [path, *parameters]
    return f"({_TYPE} IN {_types(value)} AND {_VALUE} {operator} ?)", [path, path, value]


def _types(value: str | float) -> str:
    return _TEXT if isinstance(value, str) else _NUMBER


def _all(conditions: Iterable[Condition]) -> Condition:
    return _joined(list(conditions), " AND ", "1")


def _joined(parts: list[Condition], word: str, nothing: str) -> Condition:
    if not parts:
        return nothing, []
    return f"({word.join(sql for sql, _ in parts)})", [value for _, values in parts for value in values]
