"""isch fit, encode, compress."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from isch.cli.arguments import MAX_BITS, Cluster, Features, LogJson, settings
from isch.cli.console import done
from isch.cli.help import CODES
from isch.cli.outputs import Force, beside, claim

Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]

Memory = Annotated[str | None, typer.Option(help="The memory to use, such as 4GB; default: half of what is free.")]


def attach(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (fit, encode, compress):
        app.command(rich_help_panel=CODES)(command)


def fit(
    features: Features,
    output: Output,
    bits: Annotated[int, typer.Option(help="Bits per code.", min=1, max=MAX_BITS)] = 128,
    method: Annotated[
        str,
        typer.Option(
            help="Hashing method. Same kind of thing: diffusion; nearest vectors: distance; the paper: isch.",
        ),
    ] = "diffusion",
    seed: Annotated[int, typer.Option(help="Seed of all randomness.", min=0)] = 0,
    option: Annotated[list[str] | None, typer.Option("--set", help="A parameter of the method, as NAME=VALUE.")] = None,
    cluster: Cluster = None,
    memory: Memory = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A folder for finished stages; the same command goes on from them.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what it would do, how long it would take, and what cannot work.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="With --dry-run: print JSON.")] = False,
    log_json: LogJson = False,
    force: Force = False,
) -> None:
    """Learn a hashing model from features."""
    from isch.cli import plans
    from isch.cli.cluster import workers
    from isch.cli.info import model_facts
    from isch.cli.progress import shown
    from isch.describe.files import describer_of
    from isch.encoder import Encoder
    from isch.fitting import checkpoint as stages
    from isch.hashing import hasher

    target = claim(output, [features], force)
    model = hasher(method, **{"n_bits": bits, "random_state": seed} | settings(option))
    with shown(log_json), workers(cluster):
        plan = model.plan(features, memory=memory, checkpoint=checkpoint, output=output, measured=dry_run)
        if dry_run:
            plans.show(plan, json)
            return
        plan.refuse()
        encoder = Encoder(model.fit(features, memory=memory, checkpoint=checkpoint), describer_of(features))
        encoder.save(path := target.path)
        if checkpoint is not None:
            stages.remove(checkpoint)
    following = f"isch encode {quote(str(path))} {quote(features)} -o codes.npy"
    done([*model_facts(path), f"model written to {path}; next: {following}"])


def encode(
    model: Annotated[Path, typer.Argument(help="A model that isch fit wrote.")],
    features: Features,
    output: Annotated[Path, typer.Option("--output", "-o", help="The .npy file or .zarr store to write.")],
    fast: Annotated[
        bool, typer.Option("--fast", help="Multiply 8-bit numbers where the machine can; about 1 bit in 500 differs.")
    ] = False,
    shards: Annotated[bool, typer.Option("--shards", help="Write a folder of .npy files.")] = False,
    cluster: Cluster = None,
    memory: Memory = None,
    log_json: LogJson = False,
    force: Force = False,
) -> None:
    """Write the packed codes of features; the same command goes on where an earlier one stopped."""
    from isch import codefiles, codes
    from isch.cli.cluster import workers
    from isch.cli.progress import shown
    from isch.encoder import Encoder

    target = claim(output, [model, features], force)
    for side in beside(output):  # would name or describe the codes that are written now
        claim(side, [], force=None)
    encoder = Encoder.load(model)
    source = encoder.features(features)
    with shown(log_json), workers(cluster):
        codefiles.write(encoder, source, output, target.check, shards=shards, exact=not fast, memory=memory)
    n_bytes = codes.width(encoder.n_bits)
    done(f"{len(source)} codes of {encoder.n_bits} bits ({n_bytes} bytes) written to {output}")


def compress(
    model: Annotated[Path, typer.Argument(help="A model that isch fit wrote.")],
    output: Output,
    bits: Annotated[int, typer.Option(help="Bits per weight.", min=2, max=8)] = 4,
    data: Annotated[
        str | None, typer.Option(help="Features like those to encode; rounding then changes their codes least.")
    ] = None,
    force: Force = False,
) -> None:
    """Make a model file smaller: the same codes but for a few bits, with 4 bits per weight from an eighth of it."""
    from isch.cli.progress import shown
    from isch.encoder import Encoder

    target = claim(output, [model] if data is None else [model, data], force)
    with shown():
        small = Encoder.load(model).compressed(bits, data)
        small.save(path := target.path)
    before, after = model.stat().st_size, path.stat().st_size
    done(f"{path}: {after} bytes, {after / before:.1%} of the {before} bytes of {model}")
