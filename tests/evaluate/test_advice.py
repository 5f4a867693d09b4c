from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import isch
from isch.errors import InputError, ParameterError
from isch.evaluate import advice
from isch.evaluate.advice import Cell

DIGITS = load_digits()
X: NDArray[np.float32] = DIGITS.data.astype(np.float32)


@pytest.fixture(scope="module")
def found() -> advice.Advice:
    return advice.advise(X, DIGITS.target, n_bytes=8, methods=("itq", "lsh"))


def measured(method: str, n_bits: int, oversample: int) -> tuple[float, float]:
    """(recall, precision) of every row as a query, re-ranked exactly."""
    codes = isch.hasher(method, n_bits=n_bits, random_state=0).fit(X).transform(X)
    rows = isch.nearest(codes, codes, 10 * oversample + 1)[1]
    square = np.square(X.astype(np.float64)).sum(axis=1)
    every = square - 2 * (X @ X.T)
    np.fill_diagonal(every, np.inf)
    truth = np.argsort(every, axis=1)[:, :10]
    hits, right = [], []
    for i, near in enumerate(rows):
        candidates = near[near != i][: 10 * oversample]
        best = candidates[np.argsort(every[i, candidates], kind="stable")[:10]]
        hits.append(np.isin(truth[i], candidates).mean())
        right.append((DIGITS.target[best] == DIGITS.target[i]).mean())
    return float(np.mean(hits)), float(np.mean(right))


@pytest.mark.parametrize("oversample", [1, 3, 20])
@pytest.mark.parametrize(("method", "n_bits"), [("itq", 32), ("lsh", 64)])
def test_predictions_are_near_what_is_measured(found: advice.Advice, method: str, n_bits: int, oversample: int) -> None:
    (cell,) = [c for c in found.cells if (c.method, c.n_bits, c.oversample) == (method, n_bits, oversample)]
    recall, precision = measured(method, n_bits, oversample)
    assert cell.recall == pytest.approx(recall, abs=0.02)
    assert cell.low <= recall <= cell.high
    assert cell.precision == pytest.approx(precision, abs=0.02)


def test_more_candidates_find_more(found: advice.Advice) -> None:
    for model in {(cell.method, cell.n_bits) for cell in found.cells}:
        cells = [cell for cell in found.cells if (cell.method, cell.n_bits) == model]
        assert [cell.oversample for cell in cells] == list(advice.OVERSAMPLING)
        recalls = [cell.recall for cell in cells]
        assert recalls == sorted(recalls)
        assert cells[0].memory == len(X) * cells[0].n_bytes
        assert cells[1].memory == len(X) * (cells[1].n_bytes + 4 * 64)


def test_the_same_seed_gives_the_same_numbers(found: advice.Advice) -> None:
    again = advice.advise(X, DIGITS.target, n_bytes=8, methods=("itq", "lsh"))
    assert [(c.recall, c.low, c.precision) for c in again.cells] == [
        (c.recall, c.low, c.precision) for c in found.cells
    ]


def test_a_sample_stands_for_all_rows(found: advice.Advice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice, "SAMPLE_ROWS", 600)
    fewer = advice.advise(X, DIGITS.target, n_bytes=8, methods=("itq", "lsh"))
    for a, b in zip(fewer.cells, found.cells, strict=True):
        assert a.recall == pytest.approx(b.recall, abs=0.02)
        assert a.precision == pytest.approx(b.precision, abs=0.03)


def test_codes_with_factors_are_judged_as_their_index_searches(tmp_path: Path) -> None:
    found = advice.advise(X, DIGITS.target, n_bytes=8, methods=[advice.ESTIMATING])
    assert [(cell.n_bits, cell.oversample, cell.memory) for cell in found.cells] == [
        (bits, 1, len(X) * (bits // 8 + 4)) for bits in (16, 32, 64)
    ]
    for cell in found.cells:
        hasher = isch.DistanceHash(cell.n_bits).fit(X)
        with isch.Index.create(tmp_path / f"{cell.n_bits}.isch", hasher, X, keep_features="factors") as index:
            keys = index.search(X, k=11).keys
        every = np.square(X).sum(axis=1) - 2 * (X @ X.T)
        np.fill_diagonal(every, np.inf)
        truth = np.argsort(every, axis=1)[:, :10]
        others = [[key for key in some if key != i][:10] for i, some in enumerate(keys)]
        recall = np.mean([np.isin(t, o).mean() for t, o in zip(truth, others, strict=True)])
        right = np.mean([(DIGITS.target[o] == DIGITS.target[i]).mean() for i, o in enumerate(others)])
        assert cell.recall == pytest.approx(recall, abs=0.02)
        assert cell.precision == pytest.approx(right, abs=0.03)


def test_intervals_are_wider_where_methods_will_learn_from_more_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice, "QUERIES", 100)
    monkeypatch.setattr(advice, "OVERSAMPLING", (1,))
    widths = []
    for rows in (len(X), len(X) - 1):
        monkeypatch.setattr(advice, "FIT_ROWS", rows)
        (cell,) = advice.advise(X, n_bytes=1, methods=["lsh"]).cells
        widths.append(cell.high - cell.low)
    assert widths[1] - widths[0] == pytest.approx(2 * advice.MORE_ROWS, abs=0.005)


def cell(**changes: Any) -> Cell:
    values: dict[str, Any] = {
        "method": "diffusion",
        "n_bits": 64,
        "oversample": 1,
        "recall": 0.9,
        "low": 0.88,
        "high": 0.92,
    }
    costs = {"precision": 0.8, "fit_seconds": 1.0, "encode_seconds": 1.0, "search_seconds": 1.0}
    sizes = {"bytes_read": 100, "memory": 100}
    return Cell(**(values | costs | sizes | changes))


def test_the_quickest_that_surely_reaches_the_recall_is_advised() -> None:
    slow, quick, unsure = cell(low=0.97, bytes_read=200), cell(low=0.951), cell(low=0.94, bytes_read=10)
    assert advice.choose([slow, quick, unsure], None, False) == (quick, True)
    better = cell(low=0.96, recall=0.97)
    assert advice.choose([quick, better], None, False) == (better, True)
    assert advice.choose([slow, quick, unsure], 0.96, False) == (slow, True)
    assert advice.choose([slow, cell(recall=0.99)], 0.98, False) == (cell(recall=0.99), False)


def test_by_labels_the_smallest_that_is_about_as_precise_is_advised() -> None:
    small, large = cell(precision=0.897, memory=10), cell(precision=0.9, memory=1000)
    assert advice.choose([small, large, cell(precision=0.5, memory=1)], None, True) == (small, True)


def test_what_cannot_be_used_is_refused() -> None:
    with pytest.raises(InputError, match="at least 100 rows; got 50"):
        advice.advise(X[:50])
    with pytest.raises(InputError, match="one per row"):
        advice.advise(X, DIGITS.target[:5])
    with pytest.raises(ParameterError, match="at least 1"):
        advice.advise(X, n_bytes=0)
    with pytest.raises(ParameterError, match="above 0"):
        advice.advise(X, target=0.0)
