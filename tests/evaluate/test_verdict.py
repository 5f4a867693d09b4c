"""What is said about the results of an experiment."""

from dataclasses import replace

from isch.evaluate import names, report, verdict
from isch.evaluate.summary import Summary


def test_the_verdict_compares_with_the_best_and_the_two_norm(summary: Summary) -> None:
    text = verdict.verdict(summary)
    assert "Here, 16-bit ISCH reaches a precision at 10 of" in text
    assert "The 2-norm reaches" in text
    best = summary.best(["lsh", "itq-asymmetric"])
    assert best is not None
    assert names.number(best[1]) in text


def test_without_isch_the_verdict_is_about_pca(summary: Summary) -> None:
    itq, whole = summary.cells["itq", 16], summary.cells["2-norm", None]
    cells = {("pca-2-norm", 16): itq, ("2-norm", None): whole}
    other = replace(
        summary, cells=cells, experiment=replace(summary.experiment, methods={"pca-2-norm": {}, "2-norm": {}})
    )
    text = verdict.verdict(other)
    values = [names.number(cell.mean("precision@10")) for cell in (itq, whole)]
    assert f"a precision at 10 of {values[0]}, with 16 dimensions; without PCA it is {values[1]}, so PCA " in text
    assert "ISCH" not in report.section(other, "x")
