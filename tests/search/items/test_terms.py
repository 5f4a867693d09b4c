import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isch.search.filters import Test as Condition
from isch.search.filters import fits
from isch.search.items import terms
from isch.search.items.table import Known

numbers = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, 0.0, -0.0, 1, 1.0, -1, 2**53, 2**53 + 1, float(2**53), 1e300, 5e-324, 2**63 - 1, -(2**63)]),
)
texts = st.one_of(st.text(max_size=4), st.sampled_from(["", "null", '"', "1", "[", "é", "\0", "a b", "a!", "a"]))
scalars = st.one_of(numbers, texts, st.booleans(), st.none())
values = st.one_of(
    scalars, st.recursive(st.lists(scalars, max_size=2), lambda s: st.dictionaries(texts, s, max_size=2))
)


def bounded(value: Any) -> bool:
    return not isinstance(value, int) or -(2**63) <= value < 2**63


conditions = st.one_of(
    st.builds(Condition, st.just("f"), st.just("in"), st.lists(scalars.filter(bounded), max_size=4)),
    st.builds(Condition, st.just("f"), st.just("!="), scalars.filter(bounded)),
    st.builds(
        Condition, st.just("f"), st.sampled_from(["<", "<=", ">", ">="]), st.one_of(numbers.filter(bounded), texts)
    ),
)


@given(values)
def test_a_term_has_its_value(value: Any) -> None:
    term = terms.of(value)
    assert json.dumps(terms.value(term)) == json.dumps(value)
    assert terms.of_all([value, value]) == [term, term]


def as_where(test: Condition) -> dict[str, Any]:
    return {"f": test.value if test.operator == "in" else {test.operator: test.value}}


@given(st.lists(values, max_size=20), conditions)
@settings(max_examples=300, deadline=None)
def test_runs_of_terms_are_what_python_compares(some: list[Any], test: Condition) -> None:
    known = Known(terms.in_order(set(terms.of_all(some))))
    assert terms.right(known)
    spans = terms.spans(known, test)
    chosen = {known[place] for start, stop in spans for place in range(start, stop)}
    assert chosen == {term for term in known if fits({"f": terms.value(term)}, as_where(test))}


def test_many_values_are_looked_for_by_reading_all_terms() -> None:
    known = Known(terms.in_order(terms.of_all(range(1000))))
    few, many = [3, 5.0, -1], [*range(0, 2000, 2), "4"]
    assert sorted(terms.spans(known, Condition("f", "in", few)))[1:] == [(3, 4), (5, 6)]
    places = [start for start, _ in terms.spans(known, Condition("f", "in", many))]
    assert sorted(int(known[place]) for place in places) == list(range(0, 1000, 2))


@pytest.mark.parametrize("term", ["", "x", "nul", "null ", "NaN", "Infinity", "-Infinity", "1x", "{", "'a'", "-"])
def test_what_is_not_a_term_is_refused(term: str) -> None:
    with pytest.raises(ValueError, match="."):
        terms.value(term)
    with pytest.raises(ValueError, match="."):
        terms.right([term])


@pytest.mark.parametrize("known", [["2", "1"], ['"b', '"a'], ['"a', "1"], ["1", "1"], ["true", "false"]])
def test_other_orders_are_seen(known: list[str]) -> None:
    assert not terms.right(known)


def test_deep_terms_are_refused() -> None:
    with pytest.raises(RecursionError):
        terms.value("[" * 200_000)
