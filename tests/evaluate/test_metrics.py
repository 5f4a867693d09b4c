"""Measures under ties against enumeration of every order, scikit-learn, and what must hold by definition."""

from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from isch.errors import ParameterError
from isch.evaluate.metrics import (
    TIES,
    Measure,
    Profile,
    average_precision,
    curve_ranks,
    expected_hits,
    from_floats,
    from_integers,
    measure,
)

NAMES = ("precision@1", "precision@3", "precision@9", "recall@2", "recall@5", "map", "map-trapezoid")

small_rankings = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6)
rankings = st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=60)


def profile_of(ranking: list[tuple[int, bool]]) -> Profile:
    distances, relevant = (np.array(column) for column in zip(*ranking, strict=True))
    return from_integers(distances, relevant.astype(np.bool_), 9)


def plain_value(m: Measure, relevant: list[bool]) -> float:
    """The measure of a ranking without ties, written out from its definition."""
    ranks = [r for r, yes in enumerate(relevant) if yes]
    if m.kind == "precision":
        return sum(relevant[: m.k]) / m.k
    if not ranks:
        return float("nan")
    if m.kind == "recall":
        return sum(relevant[: m.k]) / len(ranks)
    at = [(j + 1) / (r + 1) for j, r in enumerate(ranks)]
    if m.kind == "map":
        return sum(at) / len(ranks)
    before = [j / r if r else 1.0 for j, r in enumerate(ranks)]
    return sum((a + b) / 2 for a, b in zip(at, before, strict=True)) / len(ranks)


def orders(ranking: list[tuple[int, bool]]) -> list[list[bool]]:
    """The relevance lists of every order that sorts the distances."""
    return [
        [yes for _, yes in order] for order in permutations(ranking) if all(a[0] <= b[0] for a, b in pairwise(order))
    ]


@settings(deadline=None)
@given(small_rankings, st.sampled_from(NAMES))
def test_the_value_is_the_mean_over_all_orders_within_ties_and_the_bounds_are_its_extremes(
    ranking: list[tuple[int, bool]], name: str
) -> None:
    m, profile = measure(name), profile_of(ranking)
    values = [plain_value(m, order) for order in orders(ranking)]
    assert m.of(profile) == pytest.approx(np.mean(values), nan_ok=True)
    assert m.of(profile, "optimistic") == pytest.approx(max(values), nan_ok=True)
    assert m.of(profile, "pessimistic") == pytest.approx(min(values), nan_ok=True)


@settings(deadline=None)
@given(rankings, st.sampled_from(NAMES))
def test_the_bounds_enclose_the_expected_value(ranking: list[tuple[int, bool]], name: str) -> None:
    m, profile = measure(name), profile_of(ranking)
    if any(yes for _, yes in ranking):
        assert m.of(profile, "pessimistic") - 1e-12 <= m.of(profile) <= m.of(profile, "optimistic") + 1e-12


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=40).filter(any))
def test_without_ties_average_precision_is_scikit_learns(relevant: list[bool]) -> None:
    profile = from_floats(np.arange(len(relevant), dtype=np.float64), np.array(relevant))
    assert measure("map").of(profile) == pytest.approx(average_precision_score(relevant, -np.arange(len(relevant))))


def test_the_trapezoid_of_one_relevant_item_at_the_second_place() -> None:
    profile = from_floats(np.array([1.0, 2.0, 3.0]), np.array([False, True, False]))
    assert measure("map-trapezoid").of(profile) == 0.25
    assert measure("map").of(profile) == 0.5


@pytest.mark.parametrize("k", [1, 3, 10])
def test_identical_codes_give_the_share_of_relevant_items_at_every_k(k: int) -> None:
    relevant = np.arange(10) < 3
    profile = from_integers(np.full(10, 4), relevant, 9)
    assert measure(f"precision@{k}").of(profile) == pytest.approx(0.3)
    assert measure(f"recall@{k}").of(profile) == pytest.approx(k / 10)


def test_a_perfect_ranking_has_average_precision_one() -> None:
    profile = from_floats(np.arange(50.0), np.arange(50) < 20)
    assert average_precision(profile.sizes, profile.hits, False) == pytest.approx(1)
    assert average_precision(profile.sizes, profile.hits, True) == pytest.approx(1)


def test_nothing_relevant_leaves_recall_undefined_and_precision_zero() -> None:
    profile = from_integers(np.array([0, 1, 1]), np.zeros(3, np.bool_), 3)
    assert np.isnan(measure("recall@2").of(profile))
    assert np.isnan(measure("map").of(profile))
    assert measure("precision@2").of(profile) == 0


def test_precision_divides_by_k_even_when_there_are_fewer_items() -> None:
    assert measure("precision@10").of(from_integers(np.zeros(4, int), np.ones(4, np.bool_), 1)) == pytest.approx(0.4)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_float_and_integer_profiles_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    distances, relevant = rng.integers(0, 5, 30), rng.random(30) < 0.4
    whole = from_integers(distances, relevant, 5)
    ks = np.arange(31)
    for dtype in (np.float32, np.float64):
        profile = from_floats(distances.astype(dtype), relevant)
        assert (profile.sizes > 0).all()
        for ties in TIES:
            one, other = profile.ordered(ties), whole.ordered(ties)
            np.testing.assert_allclose(
                expected_hits(one.sizes, one.hits, ks), expected_hits(other.sizes, other.hits, ks), rtol=1e-12
            )
            for rule in (False, True):
                values = [average_precision(p.sizes, p.hits, rule) for p in (one, other)]
                np.testing.assert_allclose(*values, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_negative_infinite_and_signed_zero_distances_are_ordered(dtype: Any) -> None:
    distances: NDArray[Any] = np.array([np.inf, 0.0, -3.5, -0.0, 2.0, -np.inf, np.inf], dtype)
    profile = from_floats(distances, np.array([1, 0, 1, 1, 0, 1, 0], np.bool_))
    assert profile.sizes.tolist() == [2, 2, 1, 2]  # what lies at −∞ and −3.5 is relevant and counts as one
    assert profile.hits.tolist() == [2, 1, 0, 1]


def test_precision_within_a_radius_counts_only_what_is_inside_and_is_zero_when_nothing_is() -> None:
    relevant = np.array([1, 0, 1, 1], np.bool_)
    assert measure("within@2").of(from_integers(np.array([0, 2, 2, 3]), relevant, 5)) == pytest.approx(2 / 3)
    assert measure("within@2").of(from_integers(np.array([3, 4, 4, 3]), relevant, 5)) == 0
    assert np.isnan(measure("within@2").of(from_floats(np.array([0.0, 1, 2, 3]), relevant)))


def test_an_unknown_measure_lists_the_known() -> None:
    with pytest.raises(ParameterError, match=r"unknown measure 'accuracy'; known: map, .*precision@K"):
        measure("accuracy")
    with pytest.raises(ParameterError, match="at least 1; got 0"):
        measure("precision@0")


def test_neighbour_measures_name_both_numbers() -> None:
    m = measure("nn10-recall@100")
    assert (m.kind, m.k, m.neighbours) == ("recall", 100, 10)


def test_curve_ranks_reach_from_the_first_to_the_last_item() -> None:
    ranks = curve_ranks(68_000)
    assert ranks[0] == 1
    assert ranks[-1] == 68_000
    assert (np.diff(ranks) > 0).all()
