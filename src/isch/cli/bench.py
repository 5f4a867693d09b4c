"""isch bench: run experiments, draw their figures, write the report."""

import time
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from isch.errors import ParameterError

Name = Annotated[str, typer.Argument(help="An experiment of isch bench list, or a TOML file.")]
Results = Annotated[Path, typer.Option(help="The folder of stored results.")]
Cache = Annotated[Path | None, typer.Option(help="The folder of computed features; default $ISCH_CACHE.")]

bench = typer.Typer(
    help="Repeat the paper's experiments, on its data or yours.", no_args_is_help=True, rich_markup_mode=None
)


def attach(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(bench, name="bench")


@bench.command("list")
def list_experiments() -> None:
    """List the experiments, their data, and whether it is there."""
    from isch.evaluate import datasets, experiment

    for name in experiment.names():
        spec = experiment.read(name)
        typer.echo(f"{name:12} {spec.title} ({spec.paper})")
        for variant in (spec, spec.stand_in):
            if variant is not None:
                state = datasets.state(variant.data["dataset"], variant.data.get("path"))
                role = "stand-in" if variant.is_stand_in else "data"
                typer.echo(f"{'':12} {role}: {variant.data['dataset']}: {state}")


@bench.command()
def run(
    name: Name,
    bits: Annotated[str | None, typer.Option(help="Code lengths, as 32,64,128.")] = None,
    methods: Annotated[str | None, typer.Option(help="Methods, as isch,itq,lsh.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds.", min=1)] = None,
    results: Results = Path("results"),
    cache: Cache = None,
    redo: Annotated[str | None, typer.Option(help="Methods to run again although stored.")] = None,
) -> None:
    """Train, encode, search and measure; what is stored already is not run again."""
    from isch.cli.progress import shown
    from isch.evaluate import experiment
    from isch.evaluate.prepare import cache_home
    from isch.evaluate.results import Store

    spec = experiment.available(experiment.read(name))
    spec = spec.narrowed(_numbers(bits), _words(methods), seeds)
    headline, stored, began, made = spec.measures[0], 0, time.monotonic(), 0
    typer.echo(f"{spec.title}: {len(spec.runs())} runs on {spec.data['dataset']}")
    with shown():
        for outcome in experiment.execute(spec, Store(results), cache or cache_home(), _words(redo) or ()):
            ran = outcome.run
            what = f"seed {ran.seed} {ran.label} {'' if ran.bits is None else f'{ran.bits} bits '}"
            if outcome.refusal:
                typer.echo(f"{what}refused: {outcome.refusal}", err=True)
            elif outcome.result is None:
                stored += 1
                continue
            else:
                value = outcome.result.means[headline]["expected"]
                spent = outcome.result.costs["training_seconds"]
                ahead = _ahead(outcome.left, (time.monotonic() - began) / (made + 1))
                typer.echo(f"{what}{headline} {value:.4f} (training {spent:.1f} s{ahead})")
            made += 1
    typer.echo(f"results in {results / spec.name} ({stored} stored before); next: isch bench plot {quote(name)}")


def _ahead(left: int, seconds: float) -> str:
    """How many runs are still to come, and how long they take at so many seconds each."""
    return f"; {left} to come, about {max(seconds * left / 60, 1):.0f} min" if left else ""


@bench.command()
def plot(
    name: Name,
    results: Results = Path("results"),
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the figures.")] = Path("figures"),
) -> None:
    """Draw the figures of an experiment from stored results, and print and write its table."""
    from isch.evaluate import experiment, figures, report
    from isch.evaluate.results import Store
    from isch.evaluate.summary import summarise

    summary = summarise(experiment.read(name), Store(results))
    written = [*figures.draw(summary, output), report.write_table(summary, output)]
    typer.echo(f"{figures.measure_name(summary.headline)}\n\n{report.quality_table(summary)}\n")
    typer.echo(f"written: {', '.join(map(str, written))}")


@bench.command("report")
def write_report(
    results: Results = Path("results"),
    output: Annotated[Path, typer.Option("--output", "-o", help="The report.")] = Path("docs/results.md"),
) -> None:
    """Write every figure and table, and where they agree with the paper, as Markdown."""
    from isch.evaluate import report
    from isch.evaluate.results import Store

    written = report.write(Store(results), output)
    typer.echo(f"{output}: {', '.join(written) or 'no results stored yet'}")


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str | None) -> list[int] | None:
    words = _words(text)
    if words is None:
        return None
    if not words or not all(word.isdigit() and int(word) for word in words):
        raise ParameterError(f"--bits must be integers of at least 1 separated by commas; got {text!r}")
    return [int(word) for word in words]
