"""Filters against the same conditions in plain Python."""

import json
import operator
import sqlite3
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isch.errors import InputError, ParameterError
from isch.search.filters import condition
from isch.search.filters import tests as parsed

numbers = st.one_of(st.integers(-5, 5), st.sampled_from([0.5, -2.5, 3.0]))
texts = st.sampled_from(["", "a", "1", "b'c", 'q"uote', "é", "[1]", "true"])
scalars = st.one_of(numbers, texts, st.booleans(), st.none())
values = st.one_of(scalars, st.lists(numbers, max_size=2), st.dictionaries(texts, numbers, max_size=1))
rows = st.lists(st.one_of(st.none(), st.dictionaries(st.sampled_from(["f", "g", "a b", "$.x", "é.ü"]), values)))
ranges = st.one_of(
    st.dictionaries(st.sampled_from(["<", "<=", ">", ">="]), st.one_of(numbers, texts), min_size=1),
    st.dictionaries(st.just("!="), scalars, min_size=1),
)
wheres = st.dictionaries(
    st.sampled_from(["f", "g", "a b", "$.x", "é.ü"]), st.one_of(scalars, st.lists(scalars), ranges), max_size=2
)
COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def kind(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def equal(value: Any, wanted: Any) -> bool:
    return bool(kind(value) == kind(wanted) and value == wanted)


def compared(value: Any, sign: str, wanted: Any) -> bool:
    if sign == "!=":
        return not equal(value, wanted)
    if kind(value) != kind(wanted):
        return False
    return bool(COMPARE[sign](*(v.encode() if isinstance(v, str) else v for v in (value, wanted))))


def meets(row: dict[str, Any] | None, where: dict[str, Any]) -> bool:
    for field, wanted in where.items():
        if row is None or field not in row:
            return False
        value = row[field]
        if isinstance(wanted, dict):
            if not all(compared(value, sign, other) for sign, other in wanted.items()):
                return False
        elif not any(equal(value, w) for w in (wanted if isinstance(wanted, list) else [wanted])):
            return False
    return True


@given(rows, wheres)
@settings(max_examples=300, deadline=None)
def test_filters_mean_what_python_means(items: list[dict[str, Any] | None], where: dict[str, Any]) -> None:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, metadata TEXT)")
    stored = [(i, None if row is None else json.dumps(row, ensure_ascii=False)) for i, row in enumerate(items)]
    database.executemany("INSERT INTO items VALUES (?, ?)", stored)
    sql, parameters = condition(parsed(where))
    found = [i for (i,) in database.execute(f"SELECT id FROM items WHERE {sql} ORDER BY id", parameters)]
    database.close()
    assert found == [i for i, row in enumerate(items) if meets(row, where)]


def test_all_of_several_must_hold() -> None:
    both = condition(parsed([{"f": 1}, {"f": {"!=": 2}}, {"f": {"!=": 3}}]))
    one = [condition(parsed({"f": 1})), condition(parsed({"f": {"!=": 2}})), condition(parsed({"f": {"!=": 3}}))]
    assert both[1] == [value for _, values in one for value in values]
    assert both[0].count("AND") >= 2


def test_a_list_may_be_long() -> None:
    sql, parameters = condition(parsed({"f": list(range(100_000))}))
    assert sql.count("?") == len(parameters) == 3


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"f": {"~": 1}}, "unknown operator of where field 'f'"),
        ({"f": {"<": None}}, "needs text or a number"),
        ({"f": {"<": True}}, "needs text or a number"),
        ({"f": object()}, "expected text, a number"),
        ({"f": [[1]]}, "expected text, a number"),
        ({"f": 2**63}, "does not fit 64 bits"),
        ({"f": float("nan")}, "expected a finite number"),
        ({"f": [float("inf"), 3]}, "expected a finite number"),
        ({'f"g': 1}, "without quotation marks"),
        ({"a\\b": 1}, "without quotation marks, backslashes"),
        ({3: 1}, "must be a string"),
        (["f"], "must be a dictionary"),
    ],
)
def test_bad_filters_are_refused(where: Any, message: str) -> None:
    with pytest.raises((InputError, ParameterError), match=message):
        condition(parsed(where))
