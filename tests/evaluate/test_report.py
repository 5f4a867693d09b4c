"""The report, from stored results alone."""

from pathlib import Path

import pytest

from isch.errors import FileError
from isch.evaluate import comparison, names, report
from isch.evaluate.store import Store
from isch.evaluate.summary import Summary
from isch.hashing.lsh import LSH


def test_stale_results_are_marked(summary: Summary, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "†" not in report.section(summary, "x")
    monkeypatch.setattr(LSH, "revision", 99)
    section = report.section(summary, "x")
    assert "4 runs are stale (†), made by an earlier revision" in section
    assert all(("†" in line) == ("LSH" in line) for line in comparison.quality_table(summary).splitlines())


def test_the_overview_compares_isch_with_the_best_of_the_paper_and_the_two_norm(summary: Summary) -> None:
    line = report.overview([summary]).splitlines()[-1]
    best = summary.best(["itq"])
    assert best is not None
    for value in (summary.cells["isch", 16].mean("precision@10"), best[1]):
        assert names.number(value) in line
    assert f"-bit {'ITQ'})" in line


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
