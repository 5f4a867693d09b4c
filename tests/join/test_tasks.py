"""The join: any number of parts, any size of bucket, the same pairs as every two compared, each once."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isch.join import partition, tasks
from isch.join.buckets import as_words
from isch.join.kernels import Found
from isch.join.partition import Division, Spread

Array = NDArray[Any]


def some_codes(seed: int, n: int, n_bits: int) -> Array:
    """Distinct codes near a few centres; half the bits hardly vary, as in real codes."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (6, n_bits), dtype=np.uint8)[rng.integers(0, 6, n)]
    bits[:, ::2] = 0
    return np.unique(np.packbits(bits ^ (rng.random((n, n_bits)) < 0.03), axis=1), axis=0)


def plain_pairs(codes: Array, radius: int) -> list[tuple[int, int, int]]:
    distances = np.bitwise_count(codes[:, None] ^ codes[None]).sum(axis=2, dtype=np.int32)
    first, second = np.nonzero(np.triu(distances <= radius, 1))
    return list(zip(first.tolist(), second.tolist(), distances[first, second].tolist(), strict=True))


def listed(blocks: list[Found]) -> list[tuple[int, int, int]]:
    return sorted(row for block in blocks for row in zip(*(column.tolist() for column in block), strict=True))


def divided(codes: Array, radius: int, depth: int) -> Division:
    bits = np.unpackbits(codes, axis=1).view(np.bool_)
    return Division(
        partition.masks(partition.divided(Spread.of(bits), radius + depth), as_words(codes).shape[1]), radius
    )


@pytest.mark.parametrize("n_bits", [8, 64, 144, 256, 4096])
@pytest.mark.parametrize("radius", [0, 1, 4, 7])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("largest", [2, 20, 2000])
def test_equal_to_every_two_compared(
    n_bits: int, radius: int, depth: int, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = some_codes(n_bits, 300, n_bits)
    monkeypatch.setattr(partition, "LARGEST", largest)
    monkeypatch.setattr(tasks, "CACHED_BYTES", 3000)
    found = list(tasks.join(as_words(codes), divided(codes, radius, depth)))
    assert listed(found) == plain_pairs(codes, radius)


@pytest.mark.parametrize("way", ["join", "scan"])
def test_small_blocks_hold_the_same(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = some_codes(0, 500, 64)
    words, expected = as_words(codes), plain_pairs(codes, 6)
    monkeypatch.setattr(partition, "LARGEST", 100)
    monkeypatch.setattr(tasks, "BLOCK_PAIRS", 8192)
    monkeypatch.setattr(tasks, "CACHED_BYTES", 64 * 40)
    blocks = list(tasks.join(words, divided(codes, 6, 1)) if way == "join" else tasks.scan(words, 6))
    assert len([block for block in blocks if len(block.first)]) > 1
    assert max(len(block.first) for block in blocks) <= 8192
    assert listed(blocks) == expected


def test_every_pair_has_one_path_of_each_length() -> None:
    division = Division(np.zeros((7, 1), np.uint64), 4)
    paths = division.following(())
    while paths:
        for agreeing in range(1 << 7):
            if agreeing.bit_count() < 3:
                continue
            own = [p for p in paths if all((agreeing >> part & 1) == (part in p) for part in range(p[-1] + 1))]
            assert len(own) == 1
        paths = [longer for path in paths for longer in division.following(path)]


def test_what_was_taken_is_given_up_when_nobody_asks_for_more() -> None:
    codes = some_codes(1, 500, 64)
    blocks = tasks.join(as_words(codes), divided(codes, 6, 2))
    assert next(blocks) is not None
    blocks.close()  # type: ignore[attr-defined]
    assert listed(list(tasks.join(as_words(codes), divided(codes, 6, 2)))) == plain_pairs(codes, 6)
