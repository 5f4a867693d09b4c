"""Markdown from stored results: the table of an experiment, and the report over all of them."""

from collections.abc import Iterable
from pathlib import Path

from isch.errors import FileError, MissingData
from isch.evaluate import experiment, figures
from isch.evaluate.markdown import table
from isch.evaluate.store import Store
from isch.evaluate.summary import REFERENCE, Cell, Summary, summarise
from isch.files import replacing

SIGNIFICANT = 0.01
STALE = " †"
LEARNED = {  # what ISCH learned: name and how it is written
    "n_atoms": ("atoms", "{:,.0f}"),
    "lambda_star": ("λ*", "{:.3g}"),
    "spectrum_share": ("share of the spectrum kept", "{:.0%}"),
    "block_size": ("bits of a block", "{:,.0f}"),
    "bit_correlation": ("mean correlation of two bits", "{:.3f}"),
}


def number(value: float) -> str:
    """A share of 1 with three digits, as .812."""
    if value != value:
        return "–"
    return f"{value:.3f}".removeprefix("0") if value < 0.9995 else "1"


def quality_table(summary: Summary, measure: str | None = None) -> str:
    """Methods × code lengths: mean ± spread over seeds; methods without a length in the first column."""
    measure = measure or summary.headline
    lengths = summary.lengths
    rows = []
    for label in summary.labels:
        row = summary.row(label)
        cells = [_cell(summary, label, b, row.get(b), measure) for b in lengths]
        if row and set(cells) != {"–"}:
            name = figures.display(label)
            rows.append([f"**{name}**" if label == REFERENCE else name, *cells])
    for label, cell in summary.flat().items():
        if cell.mean(measure) == cell.mean(measure):
            name = f"{figures.display(label)} ({_bytes(cell.cost('item_bytes'))} per item)"
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
    spread = f" ± {number(cell.spread(measure))}" if n > 1 else ""
    fewer = f" ({n} seed{'s' * (n > 1)})" if n < summary.seeds else ""
    return f"{number(cell.mean(measure))}{spread}{fewer}{STALE if cell.stale else ''}"


def cost_table(summary: Summary) -> str:
    """What each method costs at one length."""
    length = figures.chosen_length(summary)
    head = ["method", "training, CPU s", "vectors encoded per CPU s", "queries per CPU s", "model", "item", "memory"]
    cells = {label: summary.cells.get((label, length)) or summary.cells.get((label, None)) for label in summary.labels}
    rows = [[figures.display(label), *_costs(cell)] for label, cell in cells.items() if cell is not None]
    return f"Costs at {length:,} {_unit(summary)}:\n\n{table(head, rows)}"


def _unit(summary: Summary) -> str:
    return "dimensions" if summary.experiment.figure.get("kind") == "dimensions" else "bits"


def learned_table(summary: Summary) -> str | None:
    """What ISCH learned at each length; None where that is not stored."""
    cells = {bits: cell for bits, cell in summary.row(REFERENCE).items() if cell.learned("n_atoms") > 0}
    if not cells:
        return None
    rows = [
        [f"{bits:,}", *(form.format(cell.learned(name)) for name, (_, form) in LEARNED.items())]
        for bits, cell in cells.items()
    ]
    n = next(iter(cells.values())).learned("n_samples")
    return f"What ISCH learned from {n:,.0f} rows:\n\n{table(['bits', *(name for name, _ in LEARNED.values())], rows)}"


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
    """Items a second of processor time, which other work on the machine disturbs less than time by the clock."""
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


def verdict(summary: Summary) -> str:
    """Plain sentences: where ISCH stands against the other codes and the 2-norm, and what the paper says."""
    spec = summary.experiment.figure
    claimed = spec.get("claim_bits", figures.chosen_length(summary))
    mine = summary.cells.get((REFERENCE, claimed))
    sentences = [f"The paper: {summary.experiment.claim}."] if summary.experiment.claim else []
    if REFERENCE not in summary.experiment.methods:
        return " ".join([*sentences, *_after_pca(summary)])
    if mine is None:
        return " ".join([*sentences, f"There is no ISCH result at {claimed} bits."])
    own, name = mine.mean(summary.headline), figures.measure_name(summary.headline)
    sentences.append(f"Here {claimed}-bit ISCH reaches {name} {number(own)}.")
    compared = set(spec.get("paper", summary.labels))
    others = [label for label in summary.labels if not _ours(label)]
    sentences += _against(summary, own, "the paper's other codes", [x for x in others if x in compared])
    sentences += _against(summary, own, "all other methods and peers", [x for x in others if x not in compared])
    norm = summary.cells.get(("2-norm", None))
    if norm is not None:
        value = norm.mean(summary.headline)
        sentences.append(f"The 2-norm reaches {number(value)}: ISCH is {_compared(own, value)}.")
    return " ".join(sentences)


def _after_pca(summary: Summary) -> list[str]:
    """What the best number of principal coordinates gives beside all dimensions."""
    name, sentences = figures.measure_name(summary.headline), []
    for label, cell in summary.flat().items():
        best = summary.best([f"pca-{label}"])
        if best is not None:
            (reduced, n), value = best
            whole = cell.mean(summary.headline)
            change = f"{'gains' if value > whole else 'loses'} {number(abs(value - whole))}"
            sentences.append(
                f"{_capital(figures.display(reduced))}: {name} is at best {number(value)}, with {n} dimensions, and "
                f"{number(whole)} without PCA, which {change}."
            )
    return sentences


def _ours(label: str) -> bool:
    return label.startswith(REFERENCE) or label == "2-norm"


def _against(summary: Summary, own: float, who: str, labels: list[str]) -> list[str]:
    best = summary.best(labels)
    if best is None:
        return []
    (label, bits), value = best
    length = "" if bits is None else f" with {bits} bits"
    return [
        f"The best of {who}, at any length that was run, is {figures.display(label)}{length}, {number(value)}: "
        f"ISCH is {_compared(own, value)}."
    ]


def _compared(own: float, other: float) -> str:
    gap = own - other
    if abs(gap) < 5e-4:
        return "level with it"
    return f"{'above' if gap > 0 else 'below'} it by {number(abs(gap))}"


def section(summary: Summary, image: str) -> str:
    """One experiment of the report."""
    e = summary.experiment
    done = sum(len(cell.results) for cell in summary.cells.values())
    planned = len(e.runs())
    source = f"{_capital(e.paper)} of the paper{', on stand-in data' if e.is_stand_in else ''}. " if e.paper else ""
    command = e.name if e.name in experiment.names() else f"{e.name}.toml"
    parts = [
        f"## {e.title}",
        f"{source}`isch bench run {command}`. {done} of {planned} planned runs are stored"
        f"{'' if done == planned else '; the rest was not run or the method refused the length'}.",
        f"![{e.title}]({image})",
        verdict(summary),
        f"{_capital(figures.measure_name(summary.headline))}, mean over queries{_seeds(summary)}:",
        quality_table(summary),
    ]
    for measure in e.measures[1:]:
        parts += [f"{_capital(figures.measure_name(measure))}:", quality_table(summary, measure)]
    learned = learned_table(summary)
    return "\n\n".join([*parts, *([learned] if learned else []), cost_table(summary)])


def write_table(summary: Summary, folder: Path) -> Path:
    """The section of one experiment as a Markdown file beside its figures; gives the file."""
    path = folder / f"{summary.experiment.name}.md"
    with replacing(path) as temporary:
        temporary.write_text(section(summary, f"{summary.experiment.name}.png") + "\n")
    return path


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _machines(summaries: Iterable[Summary]) -> str:
    """Where and when the results were made."""
    contexts = [r.context for s in summaries for cell in s.cells.values() for r in cell.results.values()]
    machines = sorted({f"{c['processor']}, {c['threads']} threads" for c in contexts})
    dates = sorted(str(c["date"])[:10] for c in contexts)
    span = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    return f"Made on {'; '.join(machines)}; {span}."


def _seeds(summary: Summary) -> str:
    counted = "differences of the seeds" if summary.seeds >= 3 else "queries"
    mark = f"; ≈ marks what a paired t-test over {counted} does not tell from ISCH (p ≥ {SIGNIFICANT})"
    seeds = f" and {summary.seeds} seeds ± standard deviation over seeds" if summary.seeds > 1 else ""
    return seeds + (mark if REFERENCE in summary.labels else "")


INTRODUCTION = """# Results

Written by `isch bench report` from the stored results in `results/`; figures show nothing that is not stored there.

Every measure is the expected value over a random order within ties, the same for all methods; queries are never in
the database, and methods learn from the database alone, without labels. The seed draws the queries and whatever the
method draws. Costs are processor time of all cores; other work may have run on the machine, so they show orders of
magnitude only. docs/benchmarks.md has speed measured on a quiet machine."""


def write(store: Store, path: Path, names: Iterable[str] | None = None) -> list[str]:
    """The report over all experiments that have results, with figures beside it; gives their names."""
    if not path.parent.is_dir():
        raise FileError(f"cannot write {path}: the folder {path.parent} does not exist")
    summaries, missing = [], []
    for name in names or experiment.names():
        spec = experiment.read(name)
        try:
            summaries.append(summarise(spec, store))
        except MissingData:
            missing.append(f"* {spec.title} ({spec.paper} of the paper): `isch bench run {name}`")
    for summary in summaries:
        figures.draw(summary, path.parent / "figures")
    sections = [section(summary, f"figures/{summary.experiment.name}.png") for summary in summaries]
    machines = [_machines(summaries)] if summaries else []
    rest = ["## Not run yet", "\n".join(missing)] if missing else []
    with replacing(path) as temporary:
        temporary.write_text("\n\n".join([INTRODUCTION, *machines, *sections, *rest]) + "\n")
    return [summary.experiment.name for summary in summaries]
