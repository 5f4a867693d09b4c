"""Queries and database: disjoint, complete, balanced, repeatable."""

import numpy as np
import pytest

from isch.errors import InputError, ParameterError
from isch.evaluate.datasets import DISTRACTOR, Dataset
from isch.evaluate.splits import SplitRule, split

LABELS = np.array([0] * 5 + [1] * 4 + [2] * 6 + [DISTRACTOR] * 3)
DATA = Dataset("toy", len(LABELS), LABELS, classes=("ant", "bee", "cat"))


@pytest.mark.parametrize("rule", [SplitRule(per_class=2), SplitRule(total=7)])
def test_queries_and_database_share_nothing_and_miss_nothing(rule: SplitRule) -> None:
    parts = split(DATA, rule, seed=3)
    both = np.concatenate([parts.queries, parts.database])
    assert sorted(both.tolist()) == list(range(len(LABELS)))
    assert (np.diff(parts.queries) > 0).all()
    assert (LABELS[parts.queries] != DISTRACTOR).all()


def test_queries_of_each_class_are_equally_many() -> None:
    queries = split(DATA, SplitRule(per_class=3), seed=0).queries
    assert np.bincount(LABELS[queries]).tolist() == [3, 3, 3]


def test_the_seed_decides() -> None:
    same = [split(DATA, SplitRule(total=5), seed).queries.tolist() for seed in (1, 1, 2)]
    assert same[0] == same[1] != same[2]


def test_official_queries() -> None:
    data = Dataset("toy", 4, np.array([0, 0, 1, 1]), queries=np.array([2, 0]))
    assert split(data, SplitRule(official=True), 0).queries.tolist() == [0, 2]
    with pytest.raises(InputError, match="no official queries"):
        split(DATA, SplitRule(official=True), 0)


def test_a_class_smaller_than_the_queries_asked_is_named() -> None:
    with pytest.raises(InputError, match="class bee has 4 items; 4 queries per class need at least 5"):
        split(DATA, SplitRule(per_class=4), 0)
    with pytest.raises(InputError, match="15 queries need more than the 15 items that can be queries"):
        split(DATA, SplitRule(total=15), 0)


def test_a_rule_says_one_thing() -> None:
    with pytest.raises(ParameterError, match="exactly one"):
        SplitRule(per_class=1, total=2)
    with pytest.raises(ParameterError, match="at least 1; got 0"):
        SplitRule(total=0)
