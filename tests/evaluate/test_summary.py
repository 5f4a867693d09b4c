"""Stored results by method and length."""

import math

import numpy as np
import pytest
from scipy.stats import ttest_rel

from isch.evaluate.summary import Summary


def test_mean_and_spread_are_over_seeds(summary: Summary) -> None:
    cell = summary.cells["itq", 16]
    values = [r.means["precision@10"]["expected"] for r in cell.results.values()]
    assert cell.mean("precision@10") == pytest.approx(np.mean(values))
    assert cell.spread("precision@10") == pytest.approx(np.std(values, ddof=1))
    assert (summary.seeds, summary.lengths, summary.headline) == (2, [8, 16], "precision@10")


def test_significance_is_paired_by_query(summary: Summary) -> None:
    mine, isch = summary.cells["lsh", 8], summary.cells["isch", 8]
    one = np.concatenate([mine.results[s].per_query for s in (0, 1)])
    other = np.concatenate([isch.results[s].per_query for s in (0, 1)])
    assert summary.p_value(("lsh", 8)) == pytest.approx(ttest_rel(one, other).pvalue)
    assert math.isnan(summary.p_value(("isch", 8)))
    assert math.isnan(summary.p_value(("2-norm", None)))
