"""Tables of one experiment in Markdown: how good the methods are, what they cost, what was learned."""

from isch.evaluate import figures, names
from isch.evaluate.markdown import table
from isch.evaluate.summary import DIFFUSION, REFERENCE, Cell, Summary

SIGNIFICANT = 0.01
STALE = " †"
LEARNED = {  # name, and how it is written
    "n_atoms": ("atoms", "{:,.0f}"),
    "lambda_star": ("λ*", "{:.3g}"),
    "spectrum_share": ("share of the spectrum kept", "{:.0%}"),
    "block_size": ("bits per block", "{:,.0f}"),
    "bit_correlation": ("mean correlation between bits", "{:.3f}"),
}


def quality_table(summary: Summary, measure: str | None = None) -> str:
    """Methods × code lengths: mean ± spread over seeds; methods without a length in the first column."""
    measure = measure or summary.headline
    lengths = summary.lengths
    rows = []
    for label in summary.labels:
        row = summary.row(label)
        cells = [_cell(summary, label, b, row.get(b), measure) for b in lengths]
        if row and set(cells) != {"–"}:
            name = names.of_method(label)
            rows.append([f"**{name}**" if label == REFERENCE else name, *cells])
    for label, cell in summary.flat().items():
        if cell.mean(measure) == cell.mean(measure):
            name = f"{names.of_method(label)} ({_bytes(cell.cost('item_bytes'))} per item)"
            rows.append([name, _value(summary, cell, measure), *[""] * (len(lengths) - 1)])
    return table(["method", *(f"{b:,}" for b in lengths)], rows)


def _cell(summary: Summary, label: str, bits: int, cell: Cell | None, measure: str) -> str:
    if cell is None or cell.mean(measure) != cell.mean(measure):
        return "–"
    p = summary.p_value((label, bits)) if measure == summary.headline else float("nan")
    return f"{_value(summary, cell, measure)}{' ≈' if p >= SIGNIFICANT else ''}"


def _value(summary: Summary, cell: Cell, measure: str) -> str:
    """The mean, its spread, how many seeds if some are missing, and whether it is stale."""
    n = len(cell.values(measure))
    spread = f" ± {names.number(cell.spread(measure))}" if n > 1 else ""
    fewer = f" ({n} seed{'s' * (n > 1)})" if n < summary.seeds else ""
    return f"{names.number(cell.mean(measure))}{spread}{fewer}{STALE if cell.stale else ''}"


def cost_table(summary: Summary) -> str:
    """What each method costs at one length."""
    length = figures.chosen_length(summary)
    head = ["method", "training, CPU s", "vectors encoded per CPU s", "queries per CPU s", "model", "item", "memory"]
    cells = {label: summary.cells.get((label, length)) or summary.cells.get((label, None)) for label in summary.labels}
    rows = [[names.of_method(label), *_costs(cell)] for label, cell in cells.items() if cell is not None]
    return f"Costs at {length:,} {unit(summary)}:\n\n{table(head, rows)}"


def unit(summary: Summary) -> str:
    """What the lengths of an experiment count."""
    return "dimensions" if summary.experiment.figure.get("kind") == "dimensions" else "bits"


def learned_table(summary: Summary) -> str | None:
    """What ISCH and DiffusionHash learned at each length; None where that is not stored."""
    parts = [_learned(summary, label) for label in (REFERENCE, DIFFUSION)]
    return "\n\n".join(filter(None, parts)) or None


def _learned(summary: Summary, label: str) -> str | None:
    cells = {bits: cell for bits, cell in summary.row(label).items() if cell.learned("n_atoms") > 0}
    if not cells:
        return None
    rows = [
        [f"{bits:,}", *(form.format(cell.learned(name)) for name, (_, form) in LEARNED.items())]
        for bits, cell in cells.items()
    ]
    first = next(iter(cells.values()))
    n, near = first.learned("n_samples"), first.learned("n_neighbours")
    found = "" if near != near else f"; λ* is that of the map which found {near:.0f} neighbours per row"
    head = ["bits", *(name for name, _ in LEARNED.values())]
    return f"What {names.of_method(label)} learned from {n:,.0f} rows{found}:\n\n{table(head, rows)}"


def _costs(cell: Cell) -> list[str]:
    return [
        f"{cell.cost('training_cpu_seconds'):.1f}",
        _rate(cell, "encoding"),
        _rate(cell, "search"),
        _bytes(cell.cost("model_bytes")),
        _bytes(cell.cost("item_bytes")),
        _bytes(cell.cost("peak_bytes")),
    ]


def _rate(cell: Cell, what: str) -> str:
    """Items per second of processor time, which other work on the machine disturbs less than time by the clock."""
    items = cell.cost(f"{what}_per_second") * cell.cost(f"{what}_seconds")
    spent = cell.cost(f"{what}_cpu_seconds")
    return f"{items / spent:,.0f}" if spent > 1e-3 else "–"


def _bytes(value: float) -> str:
    if value != value:
        return "–"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"
