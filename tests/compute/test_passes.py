"""Passes: the same result whoever does the work, and values that can be sent elsewhere."""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from isch import compute, features, kmeans, progress
from isch.compute import totals
from isch.compute.passes import Unusable
from isch.compute.rows import Centring, Differing, RowSum
from isch.errors import InputError
from isch.features import Block
from isch.hashing import bpbc, cbe, dictionary, pca, rotation, sh, sklsh, sph
from isch.hashing.projecting import Linear, Projecting

X = np.random.default_rng(0).standard_normal((3000, 12)).astype(np.float32)


class Elsewhere(compute.Executor):
    """Sends every job away as bytes, does its blocks one by one, and combines runs of them where they were made."""

    def parts(self, job: compute.Job[Any]) -> Iterator[tuple[int, Any]]:
        for span in job.spans():
            sent = pickle.loads(pickle.dumps(job))
            yield from pickle.loads(pickle.dumps(list(sent.read(span))))

    def total(self, job: compute.Job[Any], work: compute.Reduction[Any], advance: progress.Advance) -> Any:
        parts = (result for _, result in self.parts(job))
        return totals.combined(work, totals.groups(work, parts, 2))


MEAN = X.mean(axis=0, dtype=np.float64)
LABELS = np.arange(3000) % 5
REDUCTIONS: dict[str, compute.Reduction[Any]] = {
    "mean": RowSum(12),
    "covariance": pca.Moments(MEAN),
    "power iteration": pca.Power(pca.Coordinates(MEAN, X[:4].T.copy())),
    "bad values": Unusable(),
    "ranges": sh.Ranges(Linear(MEAN, X[:4].T.copy())),
    "nearest squares": sklsh.NearestSquares(X[:5], MEAN, 7),
    "rotation": rotation.Positive(X[:12]),
    "left step": bpbc.LeftStep(X.reshape(-1, 3, 4)[:, :2, :3] > 0, 3, X[:4, :3].copy()),
    "power": cbe.Power(12),
    "correlation": cbe.Correlation(np.fft.rfft(X[0]).astype(np.complex64), 12, 8),
}
PASSES: dict[str, compute.Pass[Any]] = {
    "cluster sums": dictionary.ClusterSums(LABELS, MEAN.astype(np.float32)),
    "centring": Centring(MEAN, "here"),
    "differing": Differing(X[:1]),
    "coordinates": pca.Coordinates(MEAN, X[:4].T.copy()),
    "proxies": dictionary.Proxies(X[:4].T.copy(), X[0, :4]),
    "assignment": kmeans.Assignment.to(X[:9]),
    "projecting": Projecting(Linear(MEAN, X[:4].T.copy()), "here"),
    "right step": bpbc.RightStep(X[:3, :2].copy(), X[:4, :3].copy()),
    "halving": sph.Halving(X[:100], (X[:100] ** 2).sum(axis=1)),
    "sharing": sph.Sharing(X[:100]),
}


def same(a: Any, b: Any) -> None:
    if isinstance(a, tuple):
        for one, other in zip(a, b, strict=True):
            same(one, other)
    else:
        a, b = (np.sort(np.atleast_1d(v), axis=-1) for v in (a, b))  # some results come in any order
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_gives_the_same_wherever_it_is_run(name: str) -> None:
    work, source = REDUCTIONS[name], features.open(X)
    here = compute.run(work, source)
    with compute.using(Elsewhere()):
        there = compute.run(work, source)
    same(here, there)


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_gives_the_same_wherever_it_is_run(name: str) -> None:
    work, source = PASSES[name], features.open(X)
    here = list(compute.iterate(work, source))
    with compute.using(Elsewhere()):
        for one, other in zip(here, compute.iterate(work, source), strict=True):
            same(one, other)


@pytest.mark.parametrize("name", [*REDUCTIONS, *PASSES])
def test_the_number_of_threads_does_not_matter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("ISCH_NUM_THREADS", threads)
        work = {**REDUCTIONS, **PASSES}[name]
        result = compute.run(work, X) if isinstance(work, compute.Reduction) else list(compute.iterate(work, X))
        found.append(pickle.dumps(result))
    assert found[0] == found[1]


@dataclass(frozen=True)
class Starts(compute.Pass[NDArray[np.intp]]):
    """The number of each row."""

    def block(self, block: Block, start: int) -> NDArray[np.intp]:
        return np.arange(start, start + block.shape[0])

    def rows(self, _: int) -> int:
        return 7


def test_blocks_know_their_rows_and_results_are_collected_in_place() -> None:
    out = compute.collect(Starts(), features.open(X), np.zeros(len(X), int))
    np.testing.assert_array_equal(out, np.arange(len(X)))


def test_an_executor_is_in_use_inside_its_block_only() -> None:
    class Refusing(compute.Executor):
        def parts(self, job: compute.Job[Any]) -> Iterator[tuple[int, Any]]:
            raise NotImplementedError

    with pytest.raises(NotImplementedError), compute.using(Refusing()):
        compute.mean(features.open(X))
    with compute.using(Refusing()):
        compute.run(RowSum(12), X)  # an array is here, and so is its work
    compute.mean(features.open(X))


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_mean_is_the_mean(kind: type) -> None:
    wide = X.astype(np.float64)
    np.testing.assert_allclose(compute.mean(features.open(kind(wide))), wide.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("executor", [compute.Threads(), Elsewhere()])
def test_nan_and_infinity_are_counted_and_located(executor: compute.Executor) -> None:
    bad = np.zeros((5000, 3), np.float32)
    bad[2000, 1], bad[4500, 0] = np.nan, np.inf
    with (
        compute.using(executor),
        pytest.raises(InputError, match=r"the array: 2 values are NaN or infinity, the first in row 2000"),
    ):
        compute.mean(features.open(bad))


def test_numbers_beyond_single_precision_are_located() -> None:
    large = np.zeros((3000, 3))
    large[2500, 1] = 1e300
    with pytest.raises(InputError, match=r"values exceed the range of single precision .* the first in row 2500"):
        compute.mean(features.open(large))


def test_large_finite_values_are_not_taken_for_infinity() -> None:
    large = np.full((10, 2), 3e38, np.float32)
    np.testing.assert_allclose(compute.mean(features.open(large)), 3e38, rtol=1e-6)


def test_sample_is_sorted_without_repeats_and_everything_if_little() -> None:
    source = features.open(np.zeros((100, 1)))
    rows = compute.sample(source, 30, np.random.default_rng(0))
    assert len(np.unique(rows)) == 30
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(compute.sample(source, 200, np.random.default_rng(0)), np.arange(100))


def test_load_centres_before_narrowing() -> None:
    large = 1e8 + np.random.default_rng(0).standard_normal((50, 4))
    rows = np.array([3, 7, 8])
    loaded = compute.load(features.open(large), rows, large.mean(axis=0))
    np.testing.assert_allclose(loaded, (large - large.mean(axis=0))[rows], atol=1e-6)


def test_load_refuses_what_single_precision_cannot_hold() -> None:
    large = np.array([[1e300], [-1e300]])
    with pytest.raises(InputError, match=r"exceed the range of single precision"):
        compute.load(features.open(large), np.arange(2), np.zeros(1))


def test_constant_rows_are_refused_and_others_read_no_further_than_needed() -> None:
    same_rows = np.ones((100_000, 3))
    with pytest.raises(InputError, match="all rows are equal"):
        compute.refuse_constant(features.open(same_rows))
    same_rows[1] = 2
    reads: list[int] = []

    class Counting(features.arrays.ArrayFeatures):  # type: ignore[name-defined,misc]
        def read(self, start: int, stop: int) -> Any:
            reads.append(start)
            return super().read(start, stop)

    compute.refuse_constant(Counting(same_rows))
    assert len(reads) < 20
