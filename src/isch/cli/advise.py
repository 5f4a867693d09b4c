"""isch advise: which codes to use for some features."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from isch.cli.arguments import AsJson, Features
from isch.cli.console import done, json_lines
from isch.cli.help import START
from isch.cli.outputs import Force, claim

if TYPE_CHECKING:
    from isch.evaluate.advice import Advice, Cell

UNITS = ("B", "kB", "MB", "GB", "TB")


def attach(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=START)(advise)


def advise(
    features: Features,
    labels: Annotated[
        Path | None, typer.Option(help="A .npy file with one label per row: then precision is predicted too.")
    ] = None,
    n_bytes: Annotated[int | None, typer.Option("--bytes", help="At most so many bytes per code.", min=1)] = None,
    recall: Annotated[
        float | None, typer.Option(help="The share of the true neighbours to find; .95 unless there are labels.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="A .png or .svg file for the trade-off as a figure.")] = None,
    json: AsJson = False,
    force: Force = False,
) -> None:
    """Predict from a sample what codes would find and cost, and say which to use."""
    from isch.cli.progress import shown
    from isch.evaluate import advice, tradeoff
    from isch.features import npy

    target = None if plot is None else claim(plot, [features, *([labels] if labels else [])], force)
    if plot is not None:
        tradeoff.check_suffix(plot)
    with shown():
        known = None if labels is None else npy.load(labels)
        found = advice.advise(features, known, n_bytes=n_bytes, target=recall)
    if target is not None:
        tradeoff.draw(found, target.path)
    done(json_lines(_plain(found, features)) if json else _lines(found, features, recall, labels is not None))


def _lines(found: "Advice", features: str, recall: float | None, labelled: bool) -> Iterator[str]:
    """The table and the recommendation."""
    n, d = found.shape
    yield f"{n} rows × {d} features; {found.k} true neighbours found, by candidates re-ranked per result:"
    yield ""
    yield from _aligned(_table(found))
    if found.exact_precision is not None:
        yield ""
        yield "precision: results with the query's label, by candidates re-ranked per result"
        yield from _aligned(_precisions(found))
        yield f"the true neighbours themselves: {found.exact_precision:.3f}"
    yield ""
    yield _reason(found, recall, labelled)
    yield from (f"  {command}" for command in commands(found, features))


def _table(found: "Advice") -> Iterator[list[str]]:
    yield ["method", "bits", *(f"×{o}" for o in _oversampling(found)), "±", "fit", "encode", "codes", "vectors"]
    for cells in _models(found):
        first, last = cells[0], cells[-1]
        spread = max((cell.high - cell.low) / 2 for cell in cells)
        values = _values(found, {cell.oversample: cell.recall for cell in cells})
        costs = [_seconds(first.fit_seconds), _seconds(first.encode_seconds)]
        sizes = [_size(first.memory), _size(last.memory - first.memory)]
        yield [first.method, str(first.n_bits), *values, f"{spread:.3f}", *costs, *sizes]


def _precisions(found: "Advice") -> Iterator[list[str]]:
    yield ["method", "bits", *(f"×{o}" for o in _oversampling(found))]
    for cells in _models(found):
        values = _values(found, {cell.oversample: cell.precision or 0.0 for cell in cells})
        yield [cells[0].method, str(cells[0].n_bits), *values]


def _values(found: "Advice", by_oversample: dict[int, float]) -> list[str]:
    """One per oversampling of the table; an index with factors has no vectors to re-rank."""
    return [f"{by_oversample[o]:.3f}" if o in by_oversample else "" for o in _oversampling(found)]


def _models(found: "Advice") -> "Iterator[list[Cell]]":
    """The cells of each model, by oversampling."""
    for model in dict.fromkeys((cell.method, cell.n_bits) for cell in found.cells):
        yield [cell for cell in found.cells if (cell.method, cell.n_bits) == model]


def _oversampling(found: "Advice") -> list[int]:
    return list(dict.fromkeys(cell.oversample for cell in found.cells))


def _reason(found: "Advice", recall: float | None, labelled: bool) -> str:
    best = found.best
    what = f"{best.method} with {best.n_bits} bits"
    how = "" if best.oversample == 1 else f", re-ranking {best.oversample} candidates per result exactly"
    value = f"recall {best.recall:.3f} (between {best.low:.3f} and {best.high:.3f})"
    if labelled and recall is None:
        return (
            f"Advice: {what}{how}: precision {best.precision:.3f} for the least memory, {_size(best.memory)}; {value}."
        )
    if not found.reached:
        return (
            f"Advice: no choice reaches the recall asked for; nearest is {what}{how}: {value}. More bytes would help."
        )
    return (
        f"Advice: {what}{how}: {value}, {1e3 * best.search_seconds:.2g} ms per query, {_size(best.memory)} in all; "
        "it reads least of all that reach the recall asked for."
    )


def commands(found: "Advice", features: str) -> list[str]:
    """What carries the advice out."""
    from isch.evaluate import advice

    best = found.best
    source = quote(features)
    keep, rerank = "", " --rerank none"
    if best.method == advice.ESTIMATING:
        keep, rerank = " --keep-features factors", ""
    elif best.oversample > 1:
        keep, rerank = " --keep-features float32", f" --rerank exact --oversample {best.oversample}"
    return [
        f"isch fit {source} --method {best.method} --bits {best.n_bits} -o model.safetensors",
        f"isch index build {source} --model model.safetensors{keep} -o index.isch",
        f"isch search index.isch QUERIES{rerank}",
    ]


def _plain(found: "Advice", features: str) -> dict[str, object]:
    return asdict(found) | {"commands": commands(found, features)}


def _aligned(rows: Iterator[list[str]]) -> Iterator[str]:
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 100 else f"{value / 60:.0f} min"


def _size(n_bytes: float) -> str:
    for unit in UNITS:
        if n_bytes < 1000 or unit == UNITS[-1]:
            break
        n_bytes /= 1000
    return f"{n_bytes:.3g} {unit}"
