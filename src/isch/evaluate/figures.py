"""Figures from stored results: a few methods per panel, ISCH in every panel, colours that all readers can tell apart.

``panels`` decides what each panel shows. Each kind of figure is a function that draws one panel; ``draw`` puts the
panels together and writes the files.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch.errors import require
from isch.evaluate import names, peers
from isch.evaluate.summary import DIFFUSION, REFERENCE, Cell, Summary
from isch.files import replacing

VERMILION = "#D55E00"  # of ISCH
OKABE_ITO = ("#0072B2", "#009E73", "#CC79A7", "#B87A00", "#3B9AD9", "#555555", "#8C6D00")
MARKERS = "sD^vPXd"
MOST = len(OKABE_ITO)  # methods in a panel beside ISCH
FLAT = {"2-norm": "--", "sign": ":", "threshold": "-."}  # line styles of methods without a length
LABEL_GAP = 0.062  # of the height of a panel, between the names of two curves
STYLE = {
    "svg.hashsalt": "isch",  # the same results give the same file
    "svg.fonttype": "none",  # text stays text: smaller, and can be searched
    "text.parse_math": False,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
}


class Panel(NamedTuple):
    """A title, and the labels of the methods below it."""

    title: str
    labels: list[str]


class End(NamedTuple):
    """Where a curve ends, and its label there."""

    name: str
    x: float
    y: float
    colour: str


def draw(summary: Summary, folder: Path, formats: Sequence[str] = ("svg",)) -> list[Path]:
    """Draw the figure of an experiment and its precision–recall curves.

    Parameters
    ----------
    summary : Summary
        The results.
    folder : Path
        Where NAME.svg and NAME-precision-recall.svg are written; it is made if it does not exist.
    formats : sequence of str
        ``"svg"``, ``"png"`` or both.

    Returns
    -------
    list of Path
        The files.
    """
    name, headline = summary.experiment.name, names.of_measure(summary.headline)
    folder.mkdir(parents=True, exist_ok=True)
    with require("matplotlib", "plots").rc_context(STYLE):
        if summary.experiment.figure.get("kind") == "recall":
            main = _figure(summary, _draw_recall, "recall")
        else:
            main = _figure(summary, _draw_bits, headline)
        written = _write(main, folder / name, formats)
        if summary.experiment.figure.get("kind") != "dimensions":
            curves = _figure(summary, _draw_precision_recall, "precision")
            written += _write(curves, folder / f"{name}-precision-recall", formats)
    return written


def _write(figure: Any, stem: Path, formats: Iterable[str]) -> list[Path]:
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in formats]
    for path in paths:
        with replacing(path) as temporary:
            metadata = {"Date": None} if path.suffix == ".svg" else {}
            figure.savefig(temporary, format=path.suffix[1:], dpi=110, bbox_inches="tight", metadata=metadata)
    return paths


def panels(summary: Summary) -> list[Panel]:
    """The methods of each panel: the paper's comparison first, then other methods, peers, DiffusionHash and variants.

    The 2-norm and ISCH are in every panel. A group with more methods than colours is split.
    """
    methods = summary.experiment.methods
    others = [label for label in summary.labels if label not in (REFERENCE, "2-norm")]
    kinds = {label: methods[label].get("method", label) for label in others}
    compared = [x for x in summary.experiment.figure.get("paper", ()) if x in others and kinds[x] != DIFFUSION]
    variants = [x for x in others if kinds[x] in (REFERENCE, DIFFUSION)]
    outside = [x for x in others if kinds[x] in peers.PEERS and x not in compared]
    rest = [x for x in others if x not in {*compared, *variants, *outside}]
    groups = [
        Panel("The paper's comparison", compared),
        Panel("Other hashing methods" if compared else "Hashing methods", rest),
        Panel("Peers: faiss, plain bits", outside),
        Panel("DiffusionHash and variants of ISCH", variants),
    ]
    reference = [REFERENCE] if REFERENCE in summary.labels else []
    if len(others) <= MOST:
        return [Panel("", [*reference, *others])]
    parts = [Panel(group.title, some) for group in groups for some in _split(group.labels)]
    return [Panel(part.title, [*reference, *part.labels]) for part in _even(parts)]


def _even(parts: list[Panel]) -> list[Panel]:
    """The last two of an odd number of panels in one, if it can hold them."""
    if len(parts) % 2 and len(parts) > 1 and len(parts[-2].labels) + len(parts[-1].labels) <= MOST:
        one, other = parts[-2:]
        return [*parts[:-2], Panel(f"{one.title}. {other.title}", [*one.labels, *other.labels])]
    return parts


def _split(labels: list[str]) -> list[list[str]]:
    """Groups of about equal size with at most MOST labels."""
    n = -(-len(labels) // MOST)
    return [list(part) for part in np.array_split(np.array(labels, object), n)] if n else []


def _figure(summary: Summary, draw_panel: Callable[[Any, Summary, list[str]], list[End]], y: str) -> Any:
    """One panel for each group of methods, two side by side, on the same scale."""
    parts = panels(summary)
    rows, columns = -(-len(parts) // 2), min(2, len(parts))
    figure = require("matplotlib.figure", "plots").Figure(figsize=(5.4 * columns, 3.7 * rows), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    axes = list(np.ravel(figure.subplots(rows, columns, sharey=True)))
    ends = [draw_panel(axis, summary, part.labels) for axis, part in zip(axes, parts, strict=False)]
    for axis, part, names_of_curves in zip(axes, parts, ends, strict=False):
        axis.set_title(part.title if len(parts) > 1 else "")
        axis.set_ylabel(y)
        axis.tick_params(labelleft=True)
        axis.grid(alpha=0.25, linewidth=0.6)
        _name_ends(axis, names_of_curves)
    for axis in axes[len(parts) :]:
        axis.set_visible(False)
    seeds = f"{summary.seeds} seeds" if summary.seeds > 1 else "1 seed"
    figure.suptitle(f"{summary.experiment.title} ({seeds})", fontsize=12)
    return figure


def _style(labels: list[str], label: str) -> dict[str, Any]:
    if label == REFERENCE:
        return {"color": VERMILION, "marker": "o", "linewidth": 2.4, "markersize": 5, "zorder": 5}
    place = [x for x in labels if x != REFERENCE].index(label)
    return {"color": OKABE_ITO[place], "marker": MARKERS[place], "linewidth": 1.3, "markersize": 4}


def _draw_bits(axis: Any, summary: Summary, labels: list[str]) -> list[End]:
    """The headline measure against the code length."""
    ticks, ends = summary.lengths, []
    for label in labels:
        row = {b: cell for b, cell in summary.row(label).items() if cell.defines(summary.headline)}
        if row:
            means = [cell.mean(summary.headline) for cell in row.values()]
            spread = [cell.spread(summary.headline) for cell in row.values()]
            style = _style(labels, label)
            axis.plot(list(row), means, **style)
            low, high = np.subtract(means, spread), np.add(means, spread)
            axis.fill_between(list(row), low, high, color=style["color"], alpha=0.15, linewidth=0)
            ends.append(End(names.of_method(label), max(row), means[-1], style["color"]))
    for label, cell in _flat(summary, labels).items():
        value = cell.mean(summary.headline)
        axis.axhline(value, color="black", linestyle=FLAT.get(label, "-."), linewidth=1.1, zorder=1)
        ends.append(End(names.of_method(label), ticks[-1], value, "black"))
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, [f"{t:,}" for t in ticks])
    axis.minorticks_off()
    axis.set_xlabel("dimensions" if summary.experiment.figure.get("kind") == "dimensions" else "bits")
    return ends


def _draw_recall(axis: Any, summary: Summary, labels: list[str]) -> list[End]:
    """Recall against the number of items retrieved, at the length the experiment names."""
    limit = summary.experiment.figure.get("ranks")
    for label, cell in _at_length(summary, labels).items():
        _curve(axis, cell.curve("ranks"), cell.curve("recall"), labels, label)
    axis.set_xlim(1, limit)
    if limit is None:
        axis.set_xscale("log")
    axis.set_xlabel(f"items retrieved ({chosen_length(summary):,} bits)")
    axis.legend(fontsize=8.5, frameon=False, loc="lower right")
    return []


def _draw_precision_recall(axis: Any, summary: Summary, labels: list[str]) -> list[End]:
    for label, cell in _at_length(summary, labels).items():
        _curve(axis, cell.curve("recall"), cell.curve("precision"), labels, label)
    axis.set_xlabel(f"recall ({chosen_length(summary):,} bits)")
    axis.set_xlim(0, 1)
    axis.legend(fontsize=8.5, frameon=False, loc="upper right")
    return []


def _curve(axis: Any, x: Any, y: Any, labels: list[str], label: str) -> None:
    name = names.of_method(label)
    if label in labels and label not in FLAT:
        axis.plot(x, y, label=name, markevery=6, **_style(labels, label))
    else:
        axis.plot(x, y, color="black", linestyle=FLAT.get(label, "-."), linewidth=1.1, label=name)


def _flat(summary: Summary, labels: list[str]) -> dict[str, Cell]:
    """Methods without a length: the 2-norm in every panel, others in their own."""
    flat = {k: c for k, c in summary.flat().items() if k == "2-norm" or k in labels}
    return {label: cell for label, cell in flat.items() if cell.defines(summary.headline)}


def _at_length(summary: Summary, labels: list[str]) -> dict[str, Cell]:
    length = chosen_length(summary)
    cells = {label: summary.cells[label, length] for label in labels if (label, length) in summary.cells}
    return cells | _flat(summary, labels)


def chosen_length(summary: Summary) -> int:
    """The code length of the curves: the experiment's choice if it has results, otherwise the middle one."""
    wanted = summary.experiment.figure.get("bits")
    lengths = summary.lengths
    return wanted if wanted in lengths else lengths[len(lengths) // 2]


def _name_ends(axis: Any, ends: list[End]) -> None:
    """Write the name of each curve at its right end, in its colour."""
    low, high = axis.get_ylim()
    places = _apart(np.array([end.y for end in ends]), LABEL_GAP * (high - low), high)
    line = {"arrowstyle": "-", "linewidth": 0.8, "linestyle": ":", "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 2}
    for end, place in zip(ends, places, strict=True):
        axis.annotate(
            end.name,
            (end.x, end.y),
            (1.04, place),
            textcoords=axis.get_yaxis_transform(),
            color=end.colour,
            fontsize=8.5,
            fontweight="bold" if end.colour == VERMILION else "normal",
            verticalalignment="center",
            arrowprops=line | {"color": end.colour},
            annotation_clip=False,
        )


def _apart(heights: NDArray[np.float64], gap: float, high: float) -> NDArray[np.float64]:
    """Move heights as little as possible so that they are a gap apart and at most ``high``, in the same order."""
    order, places = np.argsort(heights, kind="stable"), np.array(heights)
    for before, here in pairwise(order):
        places[here] = max(places[here], places[before] + gap)
    limit = high
    for here in order[::-1]:
        places[here] = min(places[here], limit)
        limit = places[here] - gap
    return places
