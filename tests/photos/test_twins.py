import numpy as np
import pytest

from isch.photos import candidates, matching, twins
from isch.photos.candidates import Matches
from isch.photos.fingerprint import fingerprints


def matches(*pairs):
    first, second, distance = (np.array(column) for column in zip(*sorted(pairs), strict=True))
    return Matches(first.astype(np.int64), second.astype(np.int64), distance.astype(np.float32))


def listed(found):
    return list(zip(*(column.tolist() for column in found), strict=True))


def test_the_first_of_near_pictures_stands_for_them():
    pairs = matches((0, 1, 2), (0, 4, 4), (1, 4, 0), (2, 3, 5), (5, 6, 0))
    assert twins.stand_ins(pairs, 8).tolist() == [0, 0, 2, 3, 0, 5, 5, 7]


def test_a_chain_of_twins_does_not_lead_far_away():
    chain = matches(*((i, i + 1, 3) for i in range(9)))
    assert twins.stand_ins(chain, 10).tolist() == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8]


def test_pairs_of_twins_become_one_pair_and_come_back():
    stands = np.array([0, 0, 2, 2, 4])
    pairs = matches((0, 1, 20), (0, 2, 30), (1, 3, 25), (1, 4, 31))
    assert listed(twins.between(pairs, stands)) == [(0, 2, 25), (0, 4, 31)]
    spread = twins.spread(matches((0, 2, 7), (2, 4, 9)), stands)
    assert listed(spread) == [(0, 2, 7), (0, 3, 7), (1, 2, 7), (1, 3, 7), (2, 4, 9), (3, 4, 9)]


def test_nothing_is_spread_to_nothing():
    assert listed(twins.spread(candidates.least(0, []), np.arange(3))) == []
    assert len(twins.stand_ins(candidates.least(0, []), 0)) == 0


def test_very_many_twins_do_not_multiply(monkeypatch):
    monkeypatch.setattr(twins, "MOST", 3)
    stands = np.array([0] * 10 + [10] * 10)
    assert len(listed(twins.spread(matches((0, 10, 5)), stands))) == 9


def test_all_for_which_the_same_one_stands_are_pairs():
    stands = np.array([0, 0, 2, 0, 2, 5])
    assert listed(twins.within(stands)) == [(0, 1, 0), (0, 3, 0), (1, 3, 0), (2, 4, 0)]
    assert listed(twins.within(stands, 1)) == [(0, 1, 0), (1, 3, 0), (2, 4, 0)]
    assert listed(twins.within(np.arange(3))) == []


@pytest.mark.parametrize("copies", [1, 6])
def test_copies_share_close_looks(photograph, monkeypatch, copies):
    """A crop is found from every copy of a picture, by one look; each copy is looked at once."""
    picture, looks = photograph(4), []
    records = fingerprints([*[picture] * copies, np.ascontiguousarray(picture[:, 58:]), photograph(5)])
    alike = np.zeros((copies + 2, 3), np.float32)
    alike[:copies, 0], alike[copies], alike[copies + 1, 2] = 1, [0.9, np.sqrt(0.19), 0], 1

    def counted(records, first, second, original=matching.differences.compare):
        looks.append(len(first))
        return original(records, first, second)

    monkeypatch.setattr(matching.differences, "compare", counted)
    found = matching.find_matches(records, alike)
    assert {(a, b) for a, b, _ in listed(found) if b == copies} == {(i, copies) for i in range(copies)}
    assert sum(looks) <= copies + 1
