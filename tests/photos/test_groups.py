import numpy as np
import pytest

from isch.photos.candidates import Matches
from isch.photos.groups import MANY, group_matches, through_third


def matches(*triples):
    first, second, distance = np.array(sorted(triples), float).reshape(-1, 3).T
    return Matches(first.astype(np.int64), second.astype(np.int64), distance.astype(np.float32))


def rows(groups):
    return [group.rows.tolist() for group in groups]


def test_copies_of_one_picture_come_together_though_they_do_not_match_each_other():
    (group,) = group_matches(matches((0, 1, 0), (0, 2, 0.5), (0, 3, 0.7)), 5)
    assert group.rows.tolist() == [0, 1, 2, 3]
    assert group.diameter == np.float32(0.7)


def test_a_chain_never_becomes_one_group():
    chain = matches(*((i, i + 1, 1) for i in range(99)))
    assert max(len(group.rows) for group in group_matches(chain, 100)) <= 3


def test_members_match_each_other_or_a_third_picture():
    rng = np.random.default_rng(0)
    first, second = np.triu_indices(60, 1)
    kept = rng.random(len(first)) < 0.1
    graph = Matches(first[kept], second[kept], rng.uniform(0, 2, kept.sum()).astype(np.float32))
    for radius, closeness in enumerate(("identical", "same", "altered")):
        near = np.zeros((60, 60), bool)
        near[graph.first, graph.second] = graph.distance <= radius
        near |= near.T
        reached = near | (near.astype(int) @ near > 0)
        groups = group_matches(graph, 60, closeness)
        assert all(reached[a, b] for group in groups for a in group.rows for b in group.rows if a < b)
        assert all(group.diameter <= radius for group in groups)
        members = np.concatenate([np.empty(0, int), *(group.rows for group in groups)])
        assert len(members) == len(set(members.tolist()))


def test_each_setting_holds_the_groups_of_the_one_before():
    graph = matches((0, 1, 0), (0, 2, 0.8), (3, 4, 1.2))
    assert rows(group_matches(graph, 5, "identical")) == [[0, 1]]
    assert rows(group_matches(graph, 5, "same")) == [[0, 1, 2]]
    assert rows(group_matches(graph, 5, "altered")) == [[0, 1, 2], [3, 4]]


def test_pictures_said_to_be_apart_never_share_a_group():
    graph = matches((0, 1, 0.1), (0, 2, 0.2), (1, 2, 0.1))
    assert rows(group_matches(graph, 3, apart=[(1, 0)])) == [[1, 2]]
    assert rows(group_matches(graph, 3, apart=[(0, 1), (2, 0), (1, 2)])) == []


def test_the_third_picture_brings_the_larger_distance():
    found = through_third(matches((0, 2, 3), (1, 2, 4)), 3)
    assert [column.tolist() for column in found] == [[0], [1], [4.0]]


def test_a_picture_with_very_many_copies_does_not_exhaust_memory():
    n = MANY + 50
    first, second = np.triu_indices(n, 1)
    everything = Matches(first, second, np.ones(len(first), np.float32))
    (group,) = group_matches(everything, n)
    assert len(group.rows) == n


@pytest.mark.parametrize("n", [0, 3])
def test_without_matches_there_are_no_groups(n):
    assert group_matches(matches(), n) == []
