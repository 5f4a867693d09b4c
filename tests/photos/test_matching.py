import numpy as np
import pytest

from isch.errors import InputError, ParameterError
from isch.photos import candidates, matching, phash
from isch.photos.fingerprint import FINGERPRINT, INSIDE, WHOLE, fingerprints
from isch.photos.matching import find_matches


def pairs(matches):
    return set(zip(matches.first.tolist(), matches.second.tolist(), strict=True))


def plain_distance(one, other):
    """The twin of the search by hash: every orientation, crop and region, bit by bit."""
    least = phash.N_BITS
    for asking, stored in ((one, other), (other, one)):
        turned = phash.orientations(asking["codes"].reshape(-1, phash.N_BYTES)).reshape(-1, phash.N_BYTES)
        for region in (WHOLE, INSIDE):
            least = min(least, np.bitwise_count(turned ^ stored["codes"][region, 0]).sum(axis=1).min())
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
    found = candidates.by_hash(copies, 144)
    assert len(found.first) == 8 * 7 // 2
    for a, b, distance in zip(*found, strict=True):
        assert distance == plain_distance(copies[a], copies[b])


def test_closer_matches_are_a_part_of_the_looser(copies):
    loose, near = find_matches(copies, closeness="loose"), find_matches(copies, closeness=10)
    chosen = loose.where(loose.distance <= 10)
    for column, other in zip(chosen, near, strict=True):
        np.testing.assert_array_equal(column, other)


def test_vectors_bring_uneven_crops(photograph):
    picture = photograph(4)
    records = fingerprints([picture, np.ascontiguousarray(picture[:, 40:]), photograph(5)])
    alike = np.array([[1, 0, 0], [0.9, np.sqrt(0.19), 0], [0, 0, 1]], np.float16)
    assert pairs(find_matches(records)) == set()
    found = find_matches(records, alike)
    assert pairs(found) == {(0, 1)}
    assert found.distance[0] < 20


def test_like_vectors_alone_make_no_match(photograph):
    records = fingerprints([photograph(seed) for seed in range(6)])
    assert pairs(find_matches(records, np.tile(np.float32([1, 0]), (6, 1)))) == set()


def test_pairs_by_vector_have_a_high_cosine():
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((40, 64)) + 1.2 * rng.standard_normal((8, 64)).repeat(5, axis=0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[10:20] = vectors[0] + 0.02 * rng.standard_normal((10, 64))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = np.flatnonzero(np.arange(40) != 3)
    found = candidates.by_vector(vectors.astype(np.float32), rows)
    cosine = vectors @ vectors.T
    high = {(a, b) for a in rows for b in rows if a < b and cosine[a, b] >= 0.9}
    assert high
    assert high <= pairs(found)
    np.testing.assert_allclose(1 - found.distance, cosine[found.first, found.second], atol=1e-5)


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


def test_closeness_is_a_name_or_a_number():
    assert matching.radius_of("near") == matching.CLOSENESS["near"]
    assert matching.radius_of(12) == 12
    with pytest.raises(ParameterError, match="unknown closeness 'nearest'.*; known: identical, loose, near"):
        matching.radius_of("nearest")
    for wrong in (-1, 37, float("nan")):
        with pytest.raises(ParameterError, match="closeness must be a number from 0 to 36"):
            matching.radius_of(wrong)


def test_other_arrays_are_refused(copies):
    with pytest.raises(InputError, match="fingerprints of 1133 bytes; got shape .3, 18. of 1 bytes"):
        find_matches(np.zeros((3, 18), np.uint8))
    with pytest.raises(InputError, match="one vector for each of 8 pictures; got shape .7, 2."):
        find_matches(copies, np.ones((7, 2), np.float32))
    assert len(find_matches(np.zeros(3, FINGERPRINT)).first) == 0
