"""isch bench: run experiments, draw their figures, write the report."""

import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from isch.cli.console import complain, done, say
from isch.cli.help import EXPERIMENTS, Commands
from isch.cli.outputs import Force, claim, staged
from isch.errors import ParameterError

if TYPE_CHECKING:
    from isch.evaluate.experiment import Experiment
    from isch.evaluate.store import Store

Name = Annotated[str, typer.Argument(help="An experiment of isch bench list, or a TOML file.")]
Results = Annotated[Path, typer.Option(help="The folder of result tables.")]
Cache = Annotated[Path | None, typer.Option(help="The folder of features and runs in progress; default $ISCH_CACHE.")]

bench = typer.Typer(help="Repeat the paper's experiments, on its data or yours.", cls=Commands, rich_markup_mode=None)


def attach(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(bench, name="bench", rich_help_panel=EXPERIMENTS)


def _store(results: Path, cache: Path | None) -> "Store":
    from isch.evaluate.prepare import cache_home
    from isch.evaluate.store import Store

    return Store(results, cache or cache_home())


@bench.command("list")
def list_experiments() -> None:
    """List the experiments, their data, and whether it is there."""
    from isch.evaluate import experiment
    from isch.evaluate.datasets import data_home

    states = set()
    for spec in map(experiment.read, experiment.names()):
        say(f"{spec.name:12} {spec.title} ({spec.paper})")
        for variant in (spec, spec.stand_in):
            if variant is not None:
                dataset, state = variant.data["dataset"], _state(variant)
                states.add(f"{dataset:13} {state}")
                role = "stand-in" if variant.is_stand_in else "data"
                say(f"{'':12} {role}: {dataset}{'' if state == 'here' else ' (missing)'}")
    done(["", f"Data below {data_home()}:", *sorted(states)])


def _state(experiment: "Experiment") -> str:
    """Whether the data of an experiment is here, or what is missing."""
    from isch.evaluate import datasets

    data = experiment.data
    return datasets.state(data["dataset"], data.get("path"), data.get("options", {}))


@bench.command()
def run(
    name: Name,
    bits: Annotated[str | None, typer.Option(help="Code lengths, such as 32,64,128.")] = None,
    methods: Annotated[str | None, typer.Option(help="Methods, such as isch,itq,lsh.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds.", min=1)] = None,
    results: Results = Path("results"),
    cache: Cache = None,
    redo: Annotated[str | None, typer.Option(help="Methods to run again although they are stored.")] = None,
    memory: Annotated[
        str | None, typer.Option(help="The memory for learning, such as 4GB; default: half of what is free.")
    ] = None,
) -> None:
    """Train, encode, search and measure; runs only what is missing or stale."""
    from isch import compute
    from isch.cli.progress import shown
    from isch.evaluate import execution, experiment
    from isch.evaluate.prepare import cache_home

    spec = experiment.available(experiment.read(name))
    spec = spec.narrowed(_numbers(bits), _words(methods), seeds)
    store, headline, stored, began, made = _store(results, cache), spec.measures[0], 0, time.monotonic(), 0
    say(f"{spec.title}: {len(spec.runs())} runs on {spec.data['dataset']}")
    with shown(), compute.memory.bounded(memory):
        for outcome in execution.execute(spec, store, cache or cache_home(), _words(redo) or ()):
            ran = outcome.run
            what = f"seed {ran.seed} {ran.label} {'' if ran.bits is None else f'{ran.bits} bits '}"
            if outcome.refusal:
                complain(f"{what}refused: {outcome.refusal}")
            elif outcome.result is None:
                stored += 1
                continue
            else:
                value = outcome.result.means[headline]["expected"]
                spent = outcome.result.costs["training_seconds"]
                ahead = _ahead(outcome.left, (time.monotonic() - began) / (made + 1))
                say(f"{what}{headline} {value:.4f} (training {spent:.1f} s{ahead})")
            made += 1
    done(f"results in {store.path(spec.name)} ({stored} stored before); next: isch bench plot {quote(name)}")


def _ahead(left: int, seconds: float) -> str:
    """How many runs remain, and how long they take at so many seconds each."""
    return f"; {left} left, about {max(seconds * left / 60, 1):.0f} min" if left else ""


@bench.command()
def collect(results: Results = Path("results"), cache: Cache = None) -> None:
    """Add runs that were killed before they could do it themselves to the tables of results."""
    store = _store(results, cache)
    names = store.uncollected()
    done([f"{store.path(name)}: {store.collect(name)} runs added" for name in names] or "nothing to collect")


@bench.command()
def plot(
    name: Name,
    results: Results = Path("results"),
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the figures.")] = Path("figures"),
    cache: Cache = None,
    force: Force = False,
) -> None:
    """Draw the figures of an experiment from stored results, and print and write its table."""
    from isch.evaluate import comparison, experiment, figures, names, report
    from isch.evaluate.summary import summarise

    summary = summarise(experiment.read(name), _store(results, cache))
    with staged(output, force) as folder:
        made = [*figures.draw(summary, folder, ("svg", "png")), report.write_table(summary, folder)]
    written = ", ".join(str(output / path.relative_to(folder)) for path in made)
    table = comparison.quality_table(summary).split("\n")
    done([names.of_measure(summary.headline), "", *table, "", f"written: {written}"])


@bench.command("report")
def write_report(
    results: Results = Path("results"),
    output: Annotated[Path, typer.Option("--output", "-o", help="The report.")] = Path("docs/results.md"),
    cache: Cache = None,
    force: Force = False,
) -> None:
    """Write every figure and table, and where they agree with the paper, as Markdown."""
    from isch.evaluate import report

    claim(output, [], force)
    with staged(output.parent, force) as folder:
        written = report.write(_store(results, cache), folder / output.name)
    done(f"{output}: {', '.join(written) or 'no results stored yet'}")


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str | None) -> list[int] | None:
    words = _words(text)
    if words is None:
        return None
    if not words or not all(word.isdigit() and int(word) for word in words):
        raise ParameterError(f"--bits must be integers of at least 1 separated by commas; got {text!r}")
    return [int(word) for word in words]
