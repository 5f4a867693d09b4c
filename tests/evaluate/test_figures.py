"""Figures: every method in some panel, few in each, names that do not overlap."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isch.evaluate import figures
from isch.evaluate.experiment import names, read
from isch.evaluate.store import Store
from isch.evaluate.summary import Summary, summarise

RESULTS = Path(__file__).parents[2] / "results"


def with_methods(summary: Summary, labels: list[str]) -> Summary:
    """The same with other names of methods, each with the results of ITQ."""
    cells = {(label, bits): summary.cells["itq", bits] for label in labels for bits in (8, 16)}
    experiment = replace(summary.experiment, methods={label: {"method": "itq"} for label in labels}, figure={})
    return replace(summary, experiment=experiment, cells=cells)


def test_the_files_of_an_experiment(summary: Summary, tmp_path: Path) -> None:
    written = figures.draw(summary, tmp_path / "figures", ("svg", "png"))
    found = sorted(path.name for path in written)
    assert found == ["toy-precision-recall.png", "toy-precision-recall.svg", "toy.png", "toy.svg"]
    assert all(path.stat().st_size > 5_000 for path in written)
    assert (tmp_path / "figures" / "toy.png").read_bytes()[:4] == b"\x89PNG"


def test_every_method_is_named(summary: Summary, tmp_path: Path) -> None:
    for path in figures.draw(summary, tmp_path):
        text = path.read_text()
        for name in ("ISCH", "ITQ", "itq-asymmetric", "LSH", "2-norm", "signs of all dimensions"):
            assert f">{name}<" in text


@pytest.mark.parametrize("kind", ["recall", "dimensions"])
def test_other_kinds_of_figure(summary: Summary, tmp_path: Path, kind: str) -> None:
    other = replace(summary, experiment=replace(summary.experiment, figure={"kind": kind, "ranks": 100}))
    written = {path.name for path in figures.draw(other, tmp_path)}
    assert "toy.svg" in written
    assert ("toy-precision-recall.svg" in written) == (kind == "recall")


@pytest.mark.parametrize("name", names())
def test_no_panel_of_the_report_is_crowded(name: str, tmp_path: Path) -> None:
    summary = summarise(read(name), Store(RESULTS, tmp_path))
    panels = figures.panels(summary)
    shown = [label for panel in panels for label in panel.labels if label != "isch"]
    assert sorted(shown) == sorted(set(summary.labels) - {"isch", "2-norm"})
    assert all(len(panel.labels) <= 1 + figures.MOST for panel in panels)
    assert all(("isch" in panel.labels) == ("isch" in summary.labels) for panel in panels)


def test_methods_of_a_panel_look_different(summary: Summary) -> None:
    many = with_methods(summary, [f"m{i}" for i in range(20)])
    panels = figures.panels(many)
    assert len(panels) == 3
    for panel in panels:
        looks = {tuple(map(str, figures._style(panel.labels, label).values())) for label in panel.labels}
        assert len(looks) == len(panel.labels)


def test_names_and_titles_are_shown_as_they_are(summary: Summary, tmp_path: Path) -> None:
    """A stranger's file cannot make matplotlib read a formula, or HTML."""
    odd = with_methods(summary, ["m"])
    odd = replace(odd, experiment=replace(odd.experiment, title=r"$\frac{$ <script>"))
    text = figures.draw(odd, tmp_path)[0].read_text()
    assert r"$\frac{$ &lt;script&gt; (2 seeds)" in text


def test_the_same_results_give_the_same_svg(summary: Summary, tmp_path: Path) -> None:
    first, second = (figures.draw(summary, tmp_path / name) for name in ("a", "b"))
    assert first[0].read_bytes() == second[0].read_bytes()


@given(st.lists(st.floats(0, 1), max_size=12))
def test_names_are_moved_apart_in_order(heights: list[float]) -> None:
    places = figures._apart(np.array(heights), 0.08, 1.0)
    order = np.argsort(heights, kind="stable")
    assert (np.diff(places[order]) >= 0.08 - 1e-9).all()
    assert (places <= 1.0).all()


def test_names_that_do_not_overlap_stay_where_they_are() -> None:
    heights = np.array([0.9, 0.1, 0.5])
    np.testing.assert_array_equal(figures._apart(heights, 0.1, 1.0), heights)
