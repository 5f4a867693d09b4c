"""The map of the diffusion kernel, learned without labels."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from isch.fitting import Fit
from isch.hashing import kernel_map, knn_graph
from isch.hashing.isch import f
from isch.hashing.spectrum import Spectrum

RUN = Fit(np.random.default_rng(0))
EIGENVALUES = np.geomspace(60, 0.2, 24)
SIGNAL = np.geomspace(3, 0.1, 24)


def pairs(r: int = 24, n_groups: int = 1) -> Spectrum:
    whole = Spectrum(EIGENVALUES[:r], np.eye(r, dtype=np.float32), (r,), 1.0, 7.0, r)
    return whole.interleaved(n_groups)


def grouped(signal: NDArray[np.float64], n: int = 1500, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
    """(rows of twelve groups that differ by ``signal`` along each direction, with unit noise in all; their groups)."""
    rng = np.random.default_rng(seed)
    labels, centres = rng.integers(12, size=n), rng.standard_normal((12, len(signal))) * signal
    rows = centres[labels] + rng.standard_normal((n, len(signal)))
    return np.asarray(rows - rows.mean(axis=0), np.float32), labels


def same_among_nearest(Z: NDArray[np.float32], labels: NDArray[np.intp]) -> float:
    return float((labels[knn_graph.nearest_rows(Z, 50)] == labels[:, None]).mean())


def test_moments_are_those_of_both_ends_of_a_walk() -> None:
    """P is reversible: averaging AVERAGED times and taking the covariance equals walking twice as many steps."""
    Z, _ = grouped(SIGNAL, n=200)
    graph = knn_graph.nearest_graph(Z)
    chances = graph.degrees / graph.degrees.sum()
    P = np.linalg.matrix_power(graph.transitions.toarray().astype(np.float64), 2 * kernel_map.AVERAGED)
    centred = Z - chances @ Z
    C, K = kernel_map.moments(graph, Z)
    np.testing.assert_allclose(C, centred.T @ np.diag(chances) @ centred, atol=1e-4)
    np.testing.assert_allclose(K, centred.T @ np.diag(chances) @ P @ centred, atol=1e-4)


def test_the_map_of_walks_is_where_the_paper_s_objective_is_least() -> None:
    """E[(k − xᵀMx')²] over independent pairs of rows, with noise in x: no other M has less."""
    Z, _ = grouped(SIGNAL[:6], n=300)
    graph = knn_graph.nearest_graph(Z)
    chances = (graph.degrees / graph.degrees.sum()).astype(np.float64)
    walk = np.linalg.matrix_power(graph.transitions.toarray().astype(np.float64), 2 * kernel_map.AVERAGED) / chances
    x, noise = (Z - chances @ Z).astype(np.float64), 0.3
    C, K = kernel_map.moments(graph, Z)

    def objective(M: NDArray[np.float64]) -> float:
        of_rows = chances @ (walk - x @ M @ x.T) ** 2 @ chances
        of_noise = 2 * noise * np.trace(M @ C @ M) + noise**2 * np.trace(M @ M)
        return float(of_rows + of_noise)

    best, explained = kernel_map.kernel_solution(C, K, noise)
    rng = np.random.default_rng(1)
    for size in (1e-1, 1e-2, 1e-3):
        change = rng.standard_normal((6, 6)) * size * np.abs(best).max()
        assert objective(best + change + change.T) > objective(best)
    assert objective(np.zeros((6, 6))) - objective(best) == pytest.approx(explained, rel=1e-3)


def test_components_keep_the_inner_products_of_the_map() -> None:
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((2, 24, 24))
    M, C = roots @ roots.transpose(0, 2, 1)
    A = kernel_map.components(M, C, 24).astype(np.float64)
    np.testing.assert_allclose(A @ A.T, M, rtol=1e-4, atol=1e-4)
    spread = A.T @ C @ A
    np.testing.assert_allclose(spread, np.diag(np.diag(spread)), atol=1e-3 * spread.max())
    assert (np.diff(np.diag(spread)) <= 1e-3).all()
    np.testing.assert_allclose(kernel_map.components(M, C, 5), A[:, :5], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_bits", [8, 24])
def test_rows_that_belong_together_come_closer_than_by_any_lambda_star(n_bits: int) -> None:
    """Also where weak eigenvectors hold the signal and strong ones noise, which no λ* can tell apart."""
    rng = np.random.default_rng(4)
    turn = np.linalg.qr(rng.standard_normal((24, 24)))[0].astype(np.float32)
    Z, labels = grouped(np.where(np.arange(24) < 6, 2.0, 0))
    Z = Z @ turn
    learned = kernel_map.directions(RUN, Z, pairs(), n_bits, 1).W
    by_paper = [
        same_among_nearest(Z[:, :n_bits] * f(EIGENVALUES[:n_bits], star).astype(np.float32), labels)
        for star in (1, 8, 64, 512)
    ]
    assert same_among_nearest(Z @ learned, labels) > max(by_paper) + 0.02


def test_longer_codes_take_more_of_the_paper_s_map() -> None:
    """Its part of M grows with the bits, so M comes nearer to diag f²."""
    Z, f2 = grouped(SIGNAL)[0], f(EIGENVALUES, 7.0) ** 2

    def likeness(n_bits: int) -> float:
        (A,) = kernel_map.maps(RUN, Z, pairs(), [24], n_bits)
        M = A @ A.T
        return float(np.sum(M * np.diag(f2)) / np.linalg.norm(M) / np.linalg.norm(f2))

    assert likeness(24) < likeness(256) < likeness(1024) == likeness(4096)


def test_rows_without_groups_have_nearly_the_paper_s_map() -> None:
    """Walks among rows that differ by chance alone, in many directions, say nothing."""
    rng, f2 = np.random.default_rng(5), f(np.linspace(9, 3, 200), 5.0) ** 2
    flat = Spectrum(np.linspace(9, 3, 200), np.eye(200, dtype=np.float32), (200,), 1.0, 5.0, 200)
    Z = rng.standard_normal((3000, 200), np.float32)
    (A,) = kernel_map.maps(RUN, Z, flat, [200], 64)
    np.testing.assert_allclose(A @ A.T * (f2.sum() / np.trace(A @ A.T)), np.diag(f2), atol=0.1 * f2.max())


@pytest.mark.parametrize(("n_groups", "n_blocks"), [(1, 1), (1, 3), (2, 3), (3, 3), (2, 1)])
def test_directions_are_dealt_to_the_blocks(n_groups: int, n_blocks: int) -> None:
    """Each block has strong and weak directions, and all of them are there once."""
    found, Z = pairs(n_groups=n_groups), grouped(SIGNAL)[0]
    order = np.concatenate([np.arange(first, 24, n_groups) for first in range(n_groups)])
    W, blocks = kernel_map.directions(RUN, np.ascontiguousarray(Z[:, order]), found, 12, n_blocks)
    assert W.shape == (24, 12)
    assert [block.stop - block.start for block in blocks] == [12 // n_blocks] * n_blocks
    spread = (Z @ W).var(axis=0)
    for block in blocks:
        assert (np.diff(spread[block]) <= 0.2 * spread.max()).all()
    assert np.linalg.matrix_rank(W) == 12
    n_alike = 1 if n_groups == n_blocks else n_groups
    maps = kernel_map.maps(RUN, np.ascontiguousarray(Z[:, order]), found, [12 // n_groups] * n_groups, 12, n_alike)
    expected = np.concatenate([found.eigenvectors[:, at] @ A for at, A in zip(found.blocks, maps, strict=True)], axis=1)
    np.testing.assert_array_equal(W[:, np.lexsort(W)], expected[:, np.lexsort(expected)])


def test_sampled_blocks_of_unequal_size_stay_apart() -> None:
    found = replace(pairs(), sizes=(9, 8, 7))
    W, blocks = kernel_map.directions(RUN, grouped(SIGNAL)[0], kernel_map.grouped(RUN, found), 24, 3)
    assert [(block.start, block.stop) for block in blocks] == [(0, 8), (8, 16), (16, 23)]
    assert (W[9:, blocks[0]] == 0).all()
    assert (W[:9, blocks[1]] == 0).all()


def test_many_eigenvectors_are_decomposed_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_map, "TOGETHER", 10)
    assert kernel_map.grouped(RUN, pairs()).sizes == (8, 8, 8)


@pytest.mark.parametrize("n_groups", [2, 4])
def test_groups_trust_walks_as_much_as_all_directions_together(n_groups: int) -> None:
    """Each of them explains a part; what they leave of the paper's map is much the same."""
    Z, f2 = grouped(0.5 * np.ones(24))[0], f(EIGENVALUES, 7.0) ** 2
    order = np.concatenate([np.arange(first, 24, n_groups) for first in range(n_groups)])

    def likeness(found: Spectrum, rows: NDArray[np.float32], weights: NDArray[np.float64]) -> float:
        (A, *_) = kernel_map.maps(RUN, rows, found, list(found.sizes), 512, len(found.sizes))
        M, r = A @ A.T, len(A)
        return float(np.sum(np.diag(M) * weights[:r]) / np.linalg.norm(M) / np.linalg.norm(weights[:r]))

    alone = likeness(pairs(), Z, f2)
    assert likeness(pairs(n_groups=n_groups), np.ascontiguousarray(Z[:, order]), f2[order]) == pytest.approx(
        alone, abs=0.1
    )


def test_walks_that_explain_nothing_count_nothing() -> None:
    assert kernel_map.reliability(0.0) == 0
    assert kernel_map.reliability(kernel_map.WEAK) == 0.5
    assert kernel_map.reliability(10.0) > 0.99


def test_noise_is_that_of_most_directions_and_never_zero() -> None:
    usual = np.linspace(1, 2, 40)
    assert kernel_map.noise_of(np.append(usual, 1e6)) < 2 * kernel_map.noise_of(usual)
    assert kernel_map.noise_of(np.append(np.zeros(40), 1.0)) > 0


def test_few_or_equal_rows_get_the_paper_s_map() -> None:
    weights = f(EIGENVALUES, 7.0)
    for Z in (grouped(np.ones(24), n=99)[0], np.ones((200, 24), np.float32)):
        W, _ = kernel_map.directions(RUN, Z, pairs(), 16, 1)
        np.testing.assert_allclose(W, np.diag(weights)[:, :16], rtol=1e-6)


@pytest.mark.parametrize("r", [1, 2, 3])
def test_few_directions(r: int) -> None:
    W, _ = kernel_map.directions(RUN, grouped(np.ones(r), n=200)[0], pairs(r), 16, 1)
    assert W.shape == (r, r)
    assert np.isfinite(W).all()


def test_directions_are_repeated_and_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    Z, found = grouped(SIGNAL)[0], []
    for threads in ("1", "1", "3"):
        monkeypatch.setenv("ISCH_NUM_THREADS", threads)
        found.append(kernel_map.directions(RUN, Z, pairs(), 12, 1).W)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_directions_hardly_depend_on_rounding_and_not_on_scale() -> None:
    Z = grouped(SIGNAL)[0]
    noise = 1 + np.float32(1e-6) * np.random.default_rng(2).standard_normal(Z.shape, np.float32)
    first, shaken, large = (kernel_map.directions(RUN, rows, pairs(), 12, 1).W for rows in (Z, Z * noise, 8 * Z))
    np.testing.assert_allclose(shaken @ shaken.T, first @ first.T, atol=1e-3 * np.abs(first @ first.T).max())
    np.testing.assert_allclose(64 * large @ large.T, first @ first.T, rtol=1e-4, atol=1e-5)
