"""The tables of an experiment."""

from dataclasses import replace

from isch.evaluate import comparison, names
from isch.evaluate.summary import Cell, Summary


def test_the_table_has_each_method_and_length(summary: Summary) -> None:
    table = comparison.quality_table(summary)
    assert table.splitlines()[0] == "| method | 8 | 16 |"
    assert "**ISCH**" in table
    assert "2-norm (96 B per item)" in table
    value = names.number(summary.cells["lsh", 8].mean("precision@10"))
    assert any("LSH" in line and value in line for line in table.splitlines())


def test_a_cell_of_fewer_seeds_says_so(summary: Summary) -> None:
    cells = summary.cells | {("lsh", 8): Cell({0: summary.cells["lsh", 8].results[0]})}
    line = next(x for x in comparison.quality_table(replace(summary, cells=cells)).splitlines() if "LSH" in x)
    assert line.count("(1 seed)") == 1


def test_what_isch_learned_is_told(summary: Summary) -> None:
    table = comparison.learned_table(summary)
    assert table is not None
    learned = summary.cells["isch", 16].results[0].learned
    assert f"from {learned['n_samples']:,.0f} rows" in table
    assert len(table.splitlines()) == 2 + 2 + len(summary.row("isch"))
    assert comparison.learned_table(replace(summary, cells={("lsh", 8): summary.cells["lsh", 8]})) is None
