"""Figures from stored results: PNG and SVG, in colours that colour-blind readers can tell apart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from isch.errors import require, unknown
from isch.evaluate.metrics import measure
from isch.evaluate.summary import Summary
from isch.files import replacing

OKABE_ITO = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D00", "#555555")
MARKERS = "osD^vPX*hd<>"
KINDS = ("bits", "recall", "dimensions")
FLAT = {"2-norm": "--", "sign": ":", "threshold": "-."}  # line styles of methods without a length
NAMES = {
    "isch": "ISCH",
    "isch-paper": "ISCH, the paper's τ",
    "isch-asymmetric": "ISCH, real-valued query",
    "2-norm": "2-norm",
    "sign": "signs of all dimensions",
    "threshold": "x > 0 of all dimensions",
    "pcarr": "PCA-RR",
    "sph-hamming": "SPH, Hamming",
    "faiss-itq": "faiss ITQ",
    "faiss-lsh": "faiss LSH",
    "faiss-pq": "faiss PQ",
    "faiss-rabitq": "faiss RaBitQ",
    "pca-2-norm": "2-norm after PCA",
    "pca-sign": "signs after PCA",
}


def display(label: str) -> str:
    """What readers call a method."""
    return NAMES.get(label, label.upper())


def draw(summary: Summary, folder: Path) -> list[Path]:
    """The figure of an experiment and its precision–recall curves, each as PNG and SVG; gives the files."""
    kind = summary.experiment.figure.get("kind", "bits")
    if kind not in KINDS:
        raise unknown("kind of figure", kind, KINDS)
    folder.mkdir(parents=True, exist_ok=True)
    name = summary.experiment.name
    written = _write(_main_figure(summary, kind), folder / name)
    if kind != "dimensions":
        written += _write(_panelled(summary, _draw_precision_recall, "precision"), folder / f"{name}-precision-recall")
    return written


def _write(figure: Any, stem: Path) -> list[Path]:
    paths = [stem.with_name(f"{stem.name}{suffix}") for suffix in (".png", ".svg")]
    for path in paths:
        with replacing(path) as temporary:
            metadata = {"Date": None} if path.suffix == ".svg" else {}
            figure.savefig(temporary, format=path.suffix[1:], dpi=130, bbox_inches="tight", metadata=metadata)
    return paths


def _canvas(n_panels: int) -> tuple[Any, list[Any]]:
    matplotlib = require("matplotlib", "plots")
    matplotlib.rcParams.update({"svg.hashsalt": "isch", "font.size": 10, "axes.spines.top": False})
    matplotlib.rcParams["axes.spines.right"] = False
    figure_class = require("matplotlib.figure", "plots").Figure
    figure = figure_class(figsize=(5.8 * n_panels, 4.6), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12)
    return figure, list(np.ravel(figure.subplots(1, n_panels, sharey=True)))


def panels(summary: Summary) -> list[tuple[str, list[str]]]:
    """(title, labels) of each panel: the paper's comparison, then all other methods beside ISCH."""
    planned = summary.experiment.methods
    first = list(summary.experiment.figure.get("paper", planned))
    rest = [label for label in planned if label not in first]
    if not any(label in summary.labels for label in rest if label != "2-norm"):
        return [("", first)]
    return [("the paper's comparison", first), ("other methods and peers", ["isch", *rest])]


def _main_figure(summary: Summary, kind: str) -> Any:
    if kind == "recall":
        return _panelled(summary, _draw_recall, "recall")
    return _panelled(summary, _draw_bits, measure_name(summary.headline))


def _panelled(summary: Summary, draw_panel: Callable[[Any, Summary, list[str]], None], y: str) -> Any:
    """A figure with one panel for each group of methods, drawn by ``draw_panel``."""
    parts = panels(summary)
    figure, axes = _canvas(len(parts))
    for axis, (title, labels) in zip(axes, parts, strict=True):
        draw_panel(axis, summary, labels)
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.25, linewidth=0.6)
        axis.legend(fontsize=8.5, frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    axes[0].set_ylabel(y)
    figure.suptitle(_title(summary), fontsize=11)
    return figure


def _title(summary: Summary) -> str:
    seeds = summary.seeds
    return f"{summary.experiment.title} ({seeds} seed{'s' if seeds > 1 else ''})"


def measure_name(name: str) -> str:
    """A measure as readers call it."""
    m = measure(name)
    if m.neighbours:
        return f"share of the {m.neighbours} true nearest neighbours among the first {m.k}"
    words = {
        "map": "mean average precision",
        "map-trapezoid": "mean average precision (trapezoid)",
        "within": f"precision within Hamming radius {m.k}",
    }
    return words.get(m.kind, f"{m.kind} at {m.k}")


def _style(position: int, label: str) -> dict[str, Any]:
    if label == "isch":
        return {"color": OKABE_ITO[0], "marker": "o", "linewidth": 2.4, "markersize": 6, "zorder": 5}
    colours = OKABE_ITO[1:]
    return {
        "color": colours[(position - 1) % len(colours)],
        "marker": MARKERS[position % len(MARKERS)],
        "linestyle": "-" if position <= len(colours) else (0, (4, 2)),
        "linewidth": 1.3,
        "markersize": 5,
    }


def _draw_bits(axis: Any, summary: Summary, labels: list[str]) -> None:
    """The headline measure against the code length."""
    ticks = summary.lengths
    for position, label in enumerate(labels):
        row = summary.row(label)
        if not row:  # keeps its place, so that the others keep their looks
            continue
        means = [cell.mean(summary.headline) for cell in row.values()]
        spread = [cell.spread(summary.headline) for cell in row.values()]
        errors = spread if any(spread) else None
        axis.errorbar(list(row), means, yerr=errors, capsize=2, label=display(label), **_style(position, label))
    _draw_flat(axis, summary, labels)
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, [str(t) for t in ticks])
    axis.minorticks_off()
    axis.set_xlabel("dimensions" if summary.experiment.figure.get("kind") == "dimensions" else "bits")


def _draw_flat(axis: Any, summary: Summary, labels: list[str]) -> None:
    """Horizontal lines: the 2-norm dashed on every panel, other methods without a length on theirs."""
    for label, cell in summary.flat().items():
        value = cell.mean(summary.headline)
        if value == value and (label == "2-norm" or label in labels):
            axis.axhline(
                value, color="black", linestyle=FLAT.get(label, "-."), linewidth=1.2, label=display(label), zorder=1
            )


def _draw_recall(axis: Any, summary: Summary, labels: list[str]) -> None:
    """Recall against the number of items retrieved, at the length the experiment names."""
    cells = _at_length(summary, labels)
    for label, cell in cells.items():
        _curve(axis, cell.curve("ranks"), cell.curve("recall"), labels, label)
    limit = summary.experiment.figure.get("ranks")
    axis.set_xlim(1, limit)
    if limit is None:
        axis.set_xscale("log")
    axis.set_xlabel(f"items retrieved ({chosen_length(summary)} bits)")


def _draw_precision_recall(axis: Any, summary: Summary, labels: list[str]) -> None:
    for label, cell in _at_length(summary, labels).items():
        _curve(axis, cell.curve("recall"), cell.curve("precision"), labels, label)
    axis.set_xlabel(f"recall ({chosen_length(summary)} bits)")
    axis.set_xlim(0, 1)


def chosen_length(summary: Summary) -> int:
    """The length that curves are drawn at: the experiment's choice if it has results, else the middle one."""
    wanted = summary.experiment.figure.get("bits")
    lengths = summary.lengths
    return wanted if wanted in lengths else lengths[len(lengths) // 2]


def _at_length(summary: Summary, labels: list[str]) -> dict[str, Any]:
    length = chosen_length(summary)
    cells = {label: summary.cells[label, length] for label in labels if (label, length) in summary.cells}
    flat = {k: c for k, c in summary.flat().items() if k == "2-norm" or k in labels}
    return cells | flat


def _curve(axis: Any, x: Any, y: Any, labels: list[str], label: str) -> None:
    if label in FLAT:
        axis.plot(x, y, color="black", linestyle=FLAT[label], linewidth=1.2, label=display(label))
        return
    axis.plot(x, y, label=display(label), markevery=6, **_style(labels.index(label), label))
