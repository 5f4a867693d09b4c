"""A plan of learning, as ``isch fit --dry-run`` prints it."""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from isch.cli.console import done, json_lines, say
from isch.cli.progress import readable as time_in_words

if TYPE_CHECKING:
    from isch.fitting import Stage
    from isch.fitting.plan import Plan

HEADS = ("stage", "flops", "reads", "about")


def show(plan: "Plan", as_json: bool) -> None:
    """Print a plan; raises what it says cannot work."""
    printed = json_lines(plan.as_dict()) if as_json else lines(plan)
    if not plan.problems:
        done(printed)
        return
    for line in printed:
        say(line)
    plan.refuse()


def lines(plan: "Plan") -> Iterator[str]:
    """A line per stage, then the whole, memory, disk, and the speeds that were measured."""
    from isch.compute.memory import readable
    from isch.fitting import NOMINAL
    from isch.fitting.plan import PROGRAM

    rows = [_row(list(same), plan) for _, same in groupby(plan.stages)]
    label = f"learning, {plan.passes} passes"
    total = (label, _count(plan.flops), readable(plan.read), time_in_words(plan.seconds))
    rows = [HEADS, *rows, total, _row([plan.encoding], plan)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    for first, *others in rows:
        yield f"{first:<{widths[0]}}" + "".join(f"  {x:>{w}}" for x, w in zip(others, widths[1:], strict=True))
    would_do = f"at least {readable(plan.least)} would do, besides {readable(PROGRAM)} for the program itself"
    yield f"memory: at most {readable(plan.bound)}; {would_do}"
    disk = f"{readable(plan.temporary)} of temporary files, {readable(plan.model)} for the model"
    yield f"disk: {disk}, {readable(plan.kept)} for a checkpoint"
    speeds, known = plan.speeds, "assumed" if plan.speeds == NOMINAL else "measured"
    rates = f"{_count(speeds.products)}FLOP/s in products, {_count(speeds.solving)}FLOP/s in decompositions"
    yield f"{known}: {rates}, {readable(speeds.read)}/s read"


def _row(same: list["Stage"], plan: "Plan") -> tuple[str, str, str, str]:
    """What one stage costs, or several that are alike."""
    from isch.compute.memory import readable

    stage, times = same[0], len(same)
    flops, read = times * (stage.products + stage.solving), times * stage.read
    label = stage.label if times == 1 else f"{stage.label}, {times} ×"
    seconds = times * plan.speeds.seconds(stage)
    return label, _count(flops) if flops else "–", readable(read) if read else "–", time_in_words(seconds)


def _count(number: float) -> str:
    """A large number in words: 3.2 T."""
    for unit in ("", "k", "M", "G", "T"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.0f} P"
