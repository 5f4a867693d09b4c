import numpy as np
import pytest

from isch.errors import InputError, ParameterError
from isch.photos import candidates, matching, phash
from isch.photos.fingerprint import FINGERPRINT, INSIDE, WHOLE, fingerprints
from isch.photos.matching import find_matches


def pairs(matches):
    return set(zip(matches.first.tolist(), matches.second.tolist(), strict=True))


def plain_distance(one, other):
    """The twin of the search by hash: every orientation, crop and region, shelf by shelf and bit by bit."""
    least = phash.N_BITS + 1
    for asking, stored in ((one, other), (other, one)):
        turned = phash.orientations(asking["codes"].reshape(-1, phash.N_BYTES)).reshape(-1, phash.N_BYTES)
        unsure = phash.unsure_orientations(asking["unsure"].ravel()).ravel()
        for region in (WHOLE, INSIDE):
            code = stored["codes"][region, 0]
            here = (phash.shelves(turned) ^ phash.shelves(code)) & ~unsure == 0
            apart = np.bitwise_count(turned[here] ^ code).sum(axis=1)
            least = min(least, apart.min(initial=least))
    return least


@pytest.fixture
def copies(photograph):
    """Three scenes with copies; 7 is a scene of its own."""
    first, second = photograph(1), photograph(2)
    pictures = [first, first[:, ::-1], np.rot90(first), np.pad(first, ((20,) * 2, (9,) * 2, (0,) * 2))]
    pictures += [second, second[9:-9, 12:-12], (second // 2 + 60).astype(np.uint8), photograph(3)]
    return fingerprints([np.ascontiguousarray(picture) for picture in pictures])


def test_copies_are_found_and_nothing_else(copies):
    found = find_matches(copies)
    assert pairs(found) == {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (4, 5), (4, 6), (5, 6)}


def test_distances_are_those_of_a_plain_comparison(copies):
    found = candidates.by_hash(copies, np.arange(8), 144)
    expected = {(a, b): plain_distance(copies[a], copies[b]) for b in range(8) for a in range(b)}
    assert pairs(found) == {pair for pair, distance in expected.items() if distance <= 144}
    for a, b, distance in zip(*found, strict=True):
        assert distance == expected[a, b]


def test_many_pictures_are_searched_in_parts(copies, monkeypatch):
    together = candidates.by_hash(copies, np.arange(8), 36)
    monkeypatch.setattr(candidates, "PICTURES_AT_ONCE", 3)
    for column, other in zip(together, candidates.by_hash(copies, np.arange(8), 36), strict=True):
        np.testing.assert_array_equal(column, other)


def test_vectors_bring_uneven_crops(photograph):
    picture = photograph(4)
    records = fingerprints([picture, np.ascontiguousarray(picture[:, 58:]), photograph(5)])
    alike = np.array([[1, 0, 0], [0.9, np.sqrt(0.19), 0], [0, 0, 1]], np.float16)
    assert pairs(find_matches(records)) == set()
    found = find_matches(records, alike)
    assert pairs(found) == {(0, 1)}
    assert found.distance[0] < 2


def test_like_vectors_alone_make_no_match(photograph):
    records = fingerprints([photograph(seed) for seed in range(6)])
    assert pairs(find_matches(records, np.tile(np.float32([1, 0]), (6, 1)))) == set()


def test_pairs_by_vector_have_a_high_cosine():
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((40, 64))
    vectors[10:20] = vectors[0] + 0.3 * rng.standard_normal((10, 64))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = np.flatnonzero(np.arange(40) != 3)
    none = candidates.least(0, [])
    found = candidates.by_vector(vectors.astype(np.float32), rows, none, 99)
    cosine = vectors @ vectors.T
    high = {(a, b) for a in rows for b in rows if a < b and cosine[a, b] >= 0.86}
    assert len(high) > 40
    assert high <= pairs(found)
    assert cosine[found.first, found.second].min() > 0.74
    assert len(candidates.by_vector(vectors.astype(np.float32), rows, found, 99).first) == 0


def test_only_the_nearest_of_very_many_are_candidates():
    rng = np.random.default_rng(0)
    vectors = (1 + 0.05 * rng.standard_normal((300, 64))).astype(np.float32)
    found = candidates.by_vector(vectors, np.arange(300), candidates.least(0, []), 5)
    assert len(found.first) <= 300 * 5
    assert set(np.concatenate([found.first, found.second]).tolist()) == set(range(300))


def test_the_nearest_are_kept_of_either_picture():
    first, second = np.triu_indices(20, 1)
    every = candidates.Matches(first, second, (second - first).astype(np.float32))
    kept = candidates.nearest(every, 3)
    ranks = {a: sorted((b for b in range(20) if b != a), key=lambda b: (abs(a - b), b < a))[:3] for a in range(20)}
    expected = {(min(a, b), max(a, b)) for a in ranks for b in ranks[a] if abs(a - b) < 2}
    assert expected <= pairs(kept)
    assert kept.distance.max() <= 3


def test_flat_pictures_match_nothing(photograph):
    flat = [np.full((50, 50, 3), value, np.uint8) for value in (0, 0, 255)]
    assert pairs(find_matches(fingerprints([*flat, photograph(1)]), np.eye(4, dtype=np.float32))) == set()


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_pictures_have_no_copies(photograph, n):
    records = fingerprints([photograph(1)] * n)
    assert pairs(find_matches(records)) == set()
    assert pairs(find_matches(records, np.ones((n, 2), np.float32))) == set()


def test_memory_mapped_vectors_do(copies, tmp_path):
    np.save(tmp_path / "vectors.npy", np.eye(8, dtype=np.float16))
    vectors = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    assert pairs(find_matches(copies, vectors)) == pairs(find_matches(copies))


def test_a_distance_belongs_to_the_first_setting_that_holds_it():
    assert matching.DEFAULT == "same"
    for distance, setting in ((0, "identical"), (0.01, "same"), (1, "same"), (1.01, "altered"), (2, "altered")):
        assert matching.setting_of(distance) == setting
        assert distance <= matching.radius_of(setting)
    with pytest.raises(ParameterError, match="unknown closeness 'near'.*; known: altered, identical, same"):
        matching.radius_of("near")


def test_other_arrays_are_refused(copies):
    with pytest.raises(InputError, match="fingerprints of 4757 bytes; got shape .3, 18. of 1 bytes"):
        find_matches(np.zeros((3, 18), np.uint8))
    with pytest.raises(InputError, match="one vector for each of 8 pictures; got shape .7, 2."):
        find_matches(copies, np.ones((7, 2), np.float32))
    assert len(find_matches(np.zeros(3, FINGERPRINT)).first) == 0
