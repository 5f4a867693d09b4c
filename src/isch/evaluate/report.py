"""Markdown from stored results: the table of an experiment, and the report over all of them."""

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from isch.errors import FileError, MissingData
from isch.evaluate import experiment, figures, names
from isch.evaluate.markdown import plain, table
from isch.evaluate.store import Store
from isch.evaluate.summary import REFERENCE, Cell, Summary, summarise
from isch.files import replacing

SIGNIFICANT = 0.01
STALE = " †"
LEARNED = {  # what ISCH learned: name and how it is written
    "n_atoms": ("atoms", "{:,.0f}"),
    "lambda_star": ("λ*", "{:.3g}"),
    "spectrum_share": ("share of the spectrum kept", "{:.0%}"),
    "block_size": ("bits per block", "{:,.0f}"),
    "bit_correlation": ("mean correlation between bits", "{:.3f}"),
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
    spread = f" ± {number(cell.spread(measure))}" if n > 1 else ""
    fewer = f" ({n} seed{'s' * (n > 1)})" if n < summary.seeds else ""
    return f"{number(cell.mean(measure))}{spread}{fewer}{STALE if cell.stale else ''}"


def cost_table(summary: Summary) -> str:
    """What each method costs at one length."""
    length = figures.chosen_length(summary)
    head = ["method", "training, CPU s", "vectors encoded per CPU s", "queries per CPU s", "model", "item", "memory"]
    cells = {label: summary.cells.get((label, length)) or summary.cells.get((label, None)) for label in summary.labels}
    rows = [[names.of_method(label), *_costs(cell)] for label, cell in cells.items() if cell is not None]
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


def verdict(summary: Summary) -> str:
    """Plain sentences: what the paper says, and where ISCH stands against the other codes and the 2-norm."""
    claim = summary.experiment.claim
    sentences = [f"The paper says: {plain(claim)}."] if claim else []
    if REFERENCE not in summary.experiment.methods:
        return " ".join([*sentences, *_after_pca(summary)])
    length, own = claimed(summary)
    if own is None:
        return " ".join([*sentences, f"ISCH has no result at {length:,} bits."])
    name = names.of_measure(summary.headline)
    sentences.append(f"Here, {length:,}-bit ISCH reaches {_article(name)} {name} of {number(own)}.")
    compared, others = rivals(summary)
    sentences += _against(summary, own, "The best of the paper's other codes", compared)
    sentences += _against(summary, own, "The best of the other methods and peers", others)
    norm = summary.cells.get(("2-norm", None))
    if norm is not None:
        value = norm.mean(summary.headline)
        sentences.append(f"The 2-norm reaches {number(value)}; ISCH is {_compared(own, value)}.")
    return " ".join(sentences)


def claimed(summary: Summary) -> tuple[int, float | None]:
    """(code length, headline measure) of ISCH where the paper makes its claim; None if there is no result."""
    length = summary.experiment.figure.get("claim_bits", figures.chosen_length(summary))
    mine = summary.cells.get((REFERENCE, length))
    return length, None if mine is None else mine.mean(summary.headline)


def rivals(summary: Summary) -> tuple[list[str], list[str]]:
    """Methods other than ISCH and the 2-norm: (those the paper compares with, the others)."""
    compared = set(summary.experiment.figure.get("paper", summary.labels))
    others = [x for x in summary.labels if not x.startswith(REFERENCE) and x != "2-norm"]
    return [x for x in others if x in compared], [x for x in others if x not in compared]


def _after_pca(summary: Summary) -> list[str]:
    """What the best number of principal coordinates gives, compared with all dimensions."""
    name, sentences = names.of_measure(summary.headline), []
    for label, cell in summary.flat().items():
        best = summary.best([f"pca-{label}"])
        if best is not None:
            (reduced, n), value = best
            whole = cell.mean(summary.headline)
            sentences.append(
                f"{_capital(names.of_method(reduced))} reach{'es' * reduced.endswith('norm')} at best {_article(name)} "
                f"{name} of {number(value)}, with {n:,} dimensions; without PCA it is {number(whole)}, so PCA "
                f"{'gains' if value > whole else 'loses'} {number(abs(value - whole))}."
            )
    return sentences


def _against(summary: Summary, own: float, who: str, labels: list[str]) -> list[str]:
    best = summary.best(labels)
    if best is None:
        return []
    return [f"{who}, at any length, is {_named(*best[0])} with {number(best[1])}; ISCH is {_compared(own, best[1])}."]


def _named(label: str, bits: int | None) -> str:
    return names.of_method(label) if bits is None else f"{bits:,}-bit {names.of_method(label)}"


def _compared(own: float, other: float) -> str:
    gap = own - other
    if abs(gap) < 5e-4:
        return "level with it"
    return f"{number(abs(gap))} {'higher' if gap > 0 else 'lower'}"


def _article(name: str) -> str:
    return "an" if name[0] in "aeiou" else "a"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def section(summary: Summary, figure: str) -> str:
    """One experiment of the report; ``figure`` is the path of its figure without the suffix."""
    e = summary.experiment
    command = f"`isch bench run {e.name if e.name in experiment.names() else f'{e.name}.toml'}`"
    headline = [f"{_capital(names.of_measure(summary.headline))}{_explained(summary)}:", quality_table(summary)]
    more = [f"**{_capital(names.of_measure(m))}**\n\n{quality_table(summary, m)}" for m in e.measures[1:]]
    more += [part for part in (learned_table(summary), cost_table(summary)) if part]
    has_curves = e.figure.get("kind") != "dimensions"
    curves = f"[Precision–recall curves]({quote(figure)}-precision-recall.svg)" if has_curves else ""
    parts = [
        f"## {plain(e.title)}",
        f"{_source(summary)}{command}. {_stored(summary)}{_stale(summary)}",
        verdict(summary),
        f"![{plain(e.title)}]({quote(figure)}.svg)",
        curves,
        *headline,
        "<details><summary>Other measures, what was learned, costs</summary>",
        *more,
        "</details>",
    ]
    return "\n\n".join(filter(None, parts))


def _source(summary: Summary) -> str:
    e = summary.experiment
    return (
        f"{_capital(plain(e.paper))} of the paper{', on stand-in data' if e.is_stand_in else ''}: " if e.paper else ""
    )


def _stored(summary: Summary) -> str:
    done, planned = sum(len(cell.results) for cell in summary.cells.values()), len(summary.experiment.runs())
    if done == planned:
        return f"All {planned} planned runs are stored."
    return f"{done} of {planned} planned runs are stored; the others were not run, or the method refused the length."


def _stale(summary: Summary) -> str:
    n = sum(cell.stale for cell in summary.cells.values())
    if not n:
        return ""
    what = "1 run is" if n == 1 else f"{n} runs are"
    return f" {what} stale ({STALE.strip()}), made by an earlier revision of the method or descriptor; run it again."


def _explained(summary: Summary) -> str:
    """What the numbers of the headline table are."""
    text = ", mean over queries"
    if summary.seeds > 1:
        text += f" and {summary.seeds} seeds ± standard deviation over the seeds"
    if REFERENCE in summary.labels:
        over = "seeds" if summary.seeds >= 3 else "queries"
        text += f" (≈: a paired t-test over the {over} finds no difference from ISCH, p ≥ {SIGNIFICANT})"
    return text


def write_table(summary: Summary, folder: Path) -> Path:
    """The section of one experiment as a Markdown file beside its figures; gives the file."""
    path = folder / f"{summary.experiment.name}.md"
    with replacing(path) as temporary:
        temporary.write_text(section(summary, summary.experiment.name) + "\n", "utf-8")
    return path


INTRODUCTION = """# Results

`isch bench report` writes this page and its figures from the tables in `results/`, and from nothing else.

* Methods learn from the database alone, without labels. Queries are never in the database.
* Each seed draws other queries, and other random numbers for the method.
* Many items have the same Hamming distance to a query. Every measure is the expected value over a random order of such
  ties, for all methods alike.
* In the figures, ISCH is in every panel. Bands show the standard deviation over the seeds. The dashed line is the
  2-norm: an exhaustive search with the features themselves.
* Costs are processor time of all cores. Other work may have run on the machine, so they only show orders of magnitude;
  [benchmarks](benchmarks.md) has speeds measured on a quiet machine."""


def overview(summaries: Iterable[Summary]) -> str:
    """One line per experiment with ISCH: ISCH, the best other code of the paper at any length, and the 2-norm."""
    rows = []
    for summary in summaries:
        length, own = claimed(summary)
        best = summary.best(rivals(summary)[0])
        if REFERENCE in summary.labels and own is not None and best is not None:
            norm = summary.cells.get(("2-norm", None))
            rows.append(
                [
                    plain(summary.experiment.title),
                    names.of_measure(summary.headline),
                    f"{_bold(number(own), own >= best[1])} ({length:,} bits)",
                    f"{_bold(number(best[1]), best[1] >= own)} ({_named(*best[0])})",
                    "–" if norm is None else number(norm.mean(summary.headline)),
                ]
            )
    return table(["data", "measure", "ISCH", "the paper's best other code, at any length", "2-norm"], rows)


def _bold(text: str, wanted: bool) -> str:
    return f"**{text}**" if wanted else text


def _machines(summaries: Iterable[Summary]) -> str:
    """Where and when the results were made."""
    results = [r for s in summaries for cell in s.cells.values() for r in cell.results.values()]
    machines = sorted({plain(f"{r.context.get('processor')}, {r.context.get('threads')} threads") for r in results})
    first, last = (pick(r.date[:10] for r in results) for pick in (min, max))
    return f"Made on {'; '.join(machines)}; {first if first == last else f'{first} to {last}'}."


def write(store: Store, path: Path, chosen: Iterable[str] | None = None) -> list[str]:
    """Write the report over all experiments that have results, with figures beside it; gives their names.

    Parameters
    ----------
    store : Store
        The results.
    path : Path
        The Markdown file; figures go to ``figures`` beside it.
    chosen : iterable of str, optional
        Experiments, by name or file; by default those of the package.
    """
    if not path.parent.is_dir():
        raise FileError(f"cannot write {path}: the folder {path.parent} does not exist")
    summaries, missing = [], []
    for name in chosen or experiment.names():
        spec = experiment.read(name)
        try:
            summaries.append(summarise(spec, store))
        except MissingData:
            paper = f" ({plain(spec.paper)} of the paper)" if spec.paper else ""
            missing.append(f"* {plain(spec.title)}{paper}: `isch bench run {name}`")
    for summary in summaries:
        figures.draw(summary, path.parent / "figures")
    parts = [INTRODUCTION, *([_machines(summaries), overview(summaries)] if summaries else [])]
    parts += [section(summary, f"figures/{summary.experiment.name}") for summary in summaries]
    parts += ["## Not run yet", "\n".join(missing)] if missing else []
    with replacing(path) as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", "utf-8")
    return [summary.experiment.name for summary in summaries]
