"""Summary and report, from stored results alone."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_rel

from isch.errors import FileError
from isch.evaluate import report
from isch.evaluate.store import Store
from isch.evaluate.summary import Cell, Summary
from isch.hashing.lsh import LSH


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


def test_the_table_has_each_method_and_length(summary: Summary) -> None:
    table = report.quality_table(summary)
    assert table.splitlines()[0] == "| method | 8 | 16 |"
    assert "**ISCH**" in table
    assert "2-norm (96 B per item)" in table
    value = report.number(summary.cells["lsh", 8].mean("precision@10"))
    assert any("LSH" in line and value in line for line in table.splitlines())


def test_a_cell_of_fewer_seeds_says_so(summary: Summary) -> None:
    cells = summary.cells | {("lsh", 8): Cell({0: summary.cells["lsh", 8].results[0]})}
    line = next(x for x in report.quality_table(replace(summary, cells=cells)).splitlines() if "LSH" in x)
    assert line.count("(1 seed)") == 1


def test_stale_results_are_marked(summary: Summary, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "†" not in report.section(summary, "x")
    monkeypatch.setattr(LSH, "revision", 99)
    section = report.section(summary, "x")
    assert "4 runs are stale (†), made by an earlier revision" in section
    assert all(("†" in line) == ("LSH" in line) for line in report.quality_table(summary).splitlines())


def test_the_overview_compares_isch_with_the_best_of_the_paper_and_the_two_norm(summary: Summary) -> None:
    line = report.overview([summary]).splitlines()[-1]
    best = summary.best(["itq"])
    assert best is not None
    for value in (summary.cells["isch", 16].mean("precision@10"), best[1]):
        assert report.number(value) in line
    assert f"-bit {'ITQ'})" in line


def test_what_isch_learned_is_told(summary: Summary) -> None:
    table = report.learned_table(summary)
    assert table is not None
    learned = summary.cells["isch", 16].results[0].learned
    assert f"from {learned['n_samples']:,.0f} rows" in table
    assert len(table.splitlines()) == 2 + 2 + len(summary.row("isch"))
    assert report.learned_table(replace(summary, cells={("lsh", 8): summary.cells["lsh", 8]})) is None


def test_the_verdict_compares_with_the_best_and_the_two_norm(summary: Summary) -> None:
    text = report.verdict(summary)
    assert "Here, 16-bit ISCH reaches a precision at 10 of" in text
    assert "The 2-norm reaches" in text
    best = summary.best(["lsh", "itq-asymmetric"])
    assert best is not None
    assert report.number(best[1]) in text


def test_without_isch_the_verdict_is_about_pca(summary: Summary) -> None:
    itq, whole = summary.cells["itq", 16], summary.cells["2-norm", None]
    cells = {("pca-2-norm", 16): itq, ("2-norm", None): whole}
    other = replace(
        summary, cells=cells, experiment=replace(summary.experiment, methods={"pca-2-norm": {}, "2-norm": {}})
    )
    text = report.verdict(other)
    values = [report.number(cell.mean("precision@10")) for cell in (itq, whole)]
    assert f"a precision at 10 of {values[0]}, with 16 dimensions; without PCA it is {values[1]}, so PCA " in text
    assert "ISCH" not in report.section(other, "x")


def test_the_report_has_a_section_for_what_was_run_and_names_what_was_not(
    summary: Summary, shared_toy: Path, tmp_path: Path
) -> None:
    store = Store(shared_toy.parent / "results", tmp_path / "cache")
    written = report.write(store, tmp_path / "results.md", [str(shared_toy), "mnist"])
    text = (tmp_path / "results.md").read_text()
    assert written == ["toy"]
    assert "(figures/toy.svg)" in text
    assert "## toy" in text
    assert "`isch bench run mnist`" in text
    assert (tmp_path / "figures" / "toy.svg").exists()
    with pytest.raises(FileError, match="does not exist"):
        report.write(store, tmp_path / "none" / "results.md")


@pytest.mark.parametrize(("value", "text"), [(0.8123, ".812"), (0.05, ".050"), (1.0, "1"), (float("nan"), "–")])
def test_numbers(value: float, text: str) -> None:
    assert report.number(value) == text
