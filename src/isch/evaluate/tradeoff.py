"""The trade-off between what codes find and how many candidates are re-ranked, as a figure."""

from pathlib import Path
from typing import Any

from isch.errors import ParameterError, require
from isch.evaluate.advice import Advice, Cell
from isch.evaluate.figures import MARKERS, OKABE_ITO, STYLE, VERMILION
from isch.files import replacing

SUFFIXES = (".png", ".svg")


def check_suffix(path: Path) -> None:
    """Refuse a name that does not end in .png or .svg."""
    if path.suffix.lower() not in SUFFIXES:
        raise ParameterError(f"the figure must be a .png or .svg file; got {path}")


def draw(advice: Advice, path: Path) -> None:
    """Write the figure: a panel per code length, a curve per method, and a ring around the advice."""
    check_suffix(path)
    matplotlib = require("matplotlib", "plots")
    lengths = sorted({cell.n_bits for cell in advice.cells})
    methods = list(dict.fromkeys(cell.method for cell in advice.cells))
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.2 * len(lengths), 3.2), layout="constrained")
        panels = figure.subplots(1, len(lengths), sharey=True, squeeze=False)[0]
        for panel, n_bits in zip(panels, lengths, strict=True):
            for i, method in enumerate(methods):
                colour = VERMILION if method == "isch" else OKABE_ITO[i % len(OKABE_ITO)]
                some = [cell for cell in advice.cells if (cell.method, cell.n_bits) == (method, n_bits)]
                _curve(panel, some, colour, MARKERS[i % len(MARKERS)])
            if advice.best.n_bits == n_bits:
                panel.plot(advice.best.oversample, advice.best.recall, "o", ms=13, mfc="none", mec="black")
            panel.set(title=f"{n_bits} bits, {-(-n_bits // 8)} bytes", xscale="log", xlabel="candidates per result")
            panel.grid(alpha=0.25)
        panels[0].set_ylabel(f"recall of {advice.k} true neighbours")
        panels[-1].legend(frameon=False, loc="lower right")
        with replacing(path) as temporary:
            metadata = {"Date": None} if path.suffix.lower() == ".svg" else {}
            figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=110, metadata=metadata)


def _curve(panel: Any, cells: list[Cell], colour: str, marker: str) -> None:
    x = [cell.oversample for cell in cells]
    panel.plot(x, [cell.recall for cell in cells], marker=marker, ms=4, color=colour, label=cells[0].method)
    panel.fill_between(x, [c.low for c in cells], [c.high for c in cells], color=colour, alpha=0.2, lw=0)
