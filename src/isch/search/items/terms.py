"""Values of metadata as terms: texts that sort, compare and are stored alike whatever type they have.

A term is the JSON of a value, except that of a text, which is a quotation mark and then the text as it is. Terms are
ordered by kind (null, false, true, numbers, texts, lists and objects), then by value. So each comparison of a ``where``
means a run of terms.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from types import NoneType
from typing import Any

from isch.search.filters import Test
from isch.search.items.contents import Terms
from isch.search.keys import encode

NULL, FALSE, TRUE, NUMBER, TEXT, OTHER = range(6)
SCAN = 16  # values wanted per term from which it is faster to look at each term

Order = tuple[Any, ...]  # kind, and value where the kind has more than one
Span = tuple[int, int]  # of terms, the end not included

_KINDS = {"n": NULL, "f": FALSE, "t": TRUE, '"': TEXT, "[": OTHER, "{": OTHER} | dict.fromkeys("-0123456789", NUMBER)
_WORDS = ("null", "false", "true")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def of(value: Any) -> str:
    """The term of a value."""
    text = encode(value)
    return '"' + json.loads(text) if text[0] == '"' else text


def of_all(values: Sequence[Any]) -> list[str]:
    """The terms of values; most fields have values of one type."""
    kinds = set(map(type, values))
    if kinds == {float} and all(map(isfinite, values)):
        return list(map(float.__repr__, values))
    if len(kinds) == 1:
        return list(map(_QUICK.get(kinds.pop(), of), values))
    return [_QUICK.get(type(value), of)(value) for value in values]


_QUICK: dict[type, Callable[[Any], str]] = {
    str: '"'.__add__,
    int: int.__repr__,
    bool: {False: "false", True: "true"}.__getitem__,
    NoneType: lambda _: "null",
}


def value(term: str) -> Any:
    """The value of a term.

    Raises
    ------
    ValueError, RecursionError
        It is none.
    """
    kind = _KINDS.get(term[:1])
    if kind == TEXT:
        return term[1:]
    if kind == NUMBER and _NUMBER.fullmatch(term):
        return _number(term)
    if kind == OTHER or term in _WORDS:
        return decode(term)
    raise ValueError(f"{term[:20]!r} is not a value")


def _number(term: str) -> float:
    return float(term) if "." in term or "e" in term or "E" in term else int(term)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a value")


decode = json.JSONDecoder(parse_constant=_refuse).decode


def order(term: str) -> Order:
    """What a term is sorted by; equal values of different terms, as 1 and 1.0, are equal."""
    kind, found = _KINDS.get(term[:1]), value(term)
    return (kind, found) if kind in (NUMBER, TEXT) else (kind, term) if kind == OTHER else (kind,)


def wanted(value: Any) -> Order:
    """The same for a value that is looked for."""
    if value is None or isinstance(value, bool):
        return ({None: NULL, False: FALSE, True: TRUE}[value],)
    return (TEXT if isinstance(value, str) else NUMBER, value)


def in_order(terms: Iterable[str]) -> list[str]:
    """Different terms in their order; equal numbers, as 1 and 1.0, stay as they are."""
    kinds: list[list[str]] = [[] for _ in range(6)]
    for term in terms:
        kinds[_KINDS[term[0]]].append(term)
    kinds[NUMBER].sort(key=_number)
    for kind in (TEXT, OTHER):
        kinds[kind].sort()
    return [term for some in kinds for term in some]


def right(known: list[str]) -> bool:
    """Whether a list holds different terms in their order.

    Raises
    ------
    ValueError, RecursionError
        One of them is not a term.
    """
    for term in known:
        if _KINDS.get(term[:1]) != TEXT:
            value(term)
    return len(set(known)) == len(known) and in_order(known) == known


def spans(terms: Terms, test: Test) -> list[Span]:
    """Which terms a test allows, as runs; the terms of what is missing are none."""
    if test.operator == "in":
        return _one_of(terms, {wanted(value) for value in test.value})
    key = wanted(test.value)
    first, last = _span(terms, key)
    if test.operator == "!=":
        return [(0, first), (last, len(terms))]
    start, stop = (bisect_left(terms, (kind,), key=order) for kind in (key[0], key[0] + 1))
    return {"<": [(start, first)], "<=": [(start, last)], ">": [(last, stop)], ">=": [(first, stop)]}[test.operator]


def _one_of(terms: Terms, keys: set[Order]) -> list[Span]:
    if len(keys) * SCAN < len(terms):
        return [_span(terms, key) for key in keys]
    return [(place, place + 1) for place in range(len(terms)) if order(terms[place]) in keys]


def _span(terms: Terms, key: Order) -> Span:
    return bisect_left(terms, key, key=order), bisect_right(terms, key, key=order)
