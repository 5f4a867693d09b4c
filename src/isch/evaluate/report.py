"""Markdown from stored results: the section of an experiment, and the report over all of them."""

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from isch.errors import FileError, MissingData
from isch.evaluate import experiment, figures, meaning, names
from isch.evaluate.comparison import SIGNIFICANT, STALE, cost_table, learned_table, quality_table
from isch.evaluate.markdown import plain, table
from isch.evaluate.store import Store
from isch.evaluate.summary import DIFFUSION, REFERENCE, Cell, Summary, summarise
from isch.evaluate.verdict import claimed, named, rivals, verdict
from isch.files import replacing


def section(summary: Summary, figure: str) -> str:
    """One experiment of the report; ``figure`` is the path of its figure without the suffix."""
    e = summary.experiment
    command = f"`isch bench run {e.name if e.name in experiment.names() else f'{e.name}.toml'}`"
    headline = [f"{names.capital(names.of_measure(summary.headline))}{_explained(summary)}:", quality_table(summary)]
    more = [f"**{names.capital(names.of_measure(m))}**\n\n{quality_table(summary, m)}" for m in e.measures[1:]]
    more += [part for part in (learned_table(summary), cost_table(summary)) if part]
    has_curves = e.figure.get("kind") != "dimensions"
    curves = f"[Precision–recall curves]({quote(figure)}-precision-recall.svg)" if has_curves else ""
    parts = [
        f"## {plain(e.title)}",
        f"{_source(summary)}{command}. {_stored(summary)}{_stale(summary)}",
        verdict(summary),
        *map(plain, e.notes),
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
        f"{names.capital(plain(e.paper))} of the paper{', on stand-in data' if e.is_stand_in else ''}: "
        if e.paper
        else ""
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


TITLE = "# Results"
INTRODUCTION = """## Experiments

`isch bench report` writes this page and its figures from the tables in `results/`, and from the files of the
experiments.

* Methods learn from the database alone, without labels. Queries are never in the database.
* Each seed draws other queries, and other random numbers for the method.
* Many items have the same Hamming distance to a query. Every measure is the expected value over a random order of such
  ties, for all methods alike.
* In the figures, ISCH is in every panel. Bands show the standard deviation over the seeds. The dashed line is the
  2-norm: an exhaustive search with the features themselves.
* Costs are processor time of all cores. Other work may have run on the machine, so they only show orders of magnitude;
  [benchmarks](benchmarks.md) has speeds measured on a quiet machine."""


def overview(summaries: Iterable[Summary]) -> str:
    """One line per experiment: ISCH, DiffusionHash, the paper's best other code at any length, and the 2-norm."""
    rows = []
    for summary in summaries:
        length, own = claimed(summary)
        diffusion = summary.cells.get((DIFFUSION, length))
        best = summary.best(rivals(summary)[0])
        if best is None or (own is None and diffusion is None):
            continue
        norm = summary.cells.get(("2-norm", None))
        ours = [float("nan") if own is None else own, _headline(summary, diffusion)]
        highest = max(value for value in (*ours, best[1]) if value == value)
        shown = [_shown(value, highest, f" ({length:,} bits)") for value in ours]
        rows.append(
            [
                plain(summary.experiment.title),
                names.of_measure(summary.headline),
                *shown,
                _shown(best[1], highest, f" ({named(*best[0])})"),
                names.number(_headline(summary, norm)),
            ]
        )
    heads = ["data", "measure", "ISCH", "DiffusionHash", "the paper's best other code, at any length", "2-norm"]
    return table(heads, rows)


def _headline(summary: Summary, cell: Cell | None) -> float:
    return float("nan") if cell is None else cell.mean(summary.headline)


def _shown(value: float, highest: float, what: str) -> str:
    """A number and what it is of; the highest of a line in bold."""
    if value != value:
        return "–"
    number = names.number(value)
    return f"**{number}**{what}" if value >= highest else f"{number}{what}"


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
    beside = meaning.read(store.folder)
    parts = [TITLE, *([meaning.section(beside)] if beside else []), INTRODUCTION]
    parts += [_machines(summaries), overview(summaries)] if summaries else []
    parts += [section(summary, f"figures/{summary.experiment.name}") for summary in summaries]
    parts += ["## Not run yet", "\n".join(missing)] if missing else []
    with replacing(path) as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", "utf-8")
    return [summary.experiment.name for summary in summaries]
