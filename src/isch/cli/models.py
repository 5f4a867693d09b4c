"""isch fit, encode, info, demo."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

Output = Annotated[Path, typer.Option("--output", "-o", help="Where to write.")]


def attach(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (fit, encode, info, demo):
        app.command()(command)


def fit(
    features: Annotated[str, typer.Argument(help="A feature file, FILE::NAME inside one, or a folder of files.")],
    output: Output,
    bits: Annotated[int, typer.Option(help="Code length.")] = 128,
    method: Annotated[str, typer.Option(help="Hashing method.")] = "isch",
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    option: Annotated[list[str] | None, typer.Option("--set", help="A parameter of the method, as NAME=VALUE.")] = None,
) -> None:
    """Learn a hashing model from a feature matrix."""
    from isch.cli.progress import shown
    from isch.describe.files import describer_of
    from isch.encoder import Encoder
    from isch.files import check_writable
    from isch.hashing import hasher

    check_writable(output)
    model = hasher(method, **{"n_bits": bits, "random_state": seed} | dict(map(_setting, option or [])))
    with shown():
        encoder = Encoder(model.fit(features), describer_of(features))
        encoder.save(output)
    _print_summary(output)
    typer.echo(f"model written to {output}; next: isch encode {quote(str(output))} {quote(features)} -o codes.npy")


def encode(
    model: Annotated[Path, typer.Argument(help="A model that isch fit wrote.")],
    features: Annotated[str, typer.Argument(help="A feature file, FILE::NAME inside one, or a folder of files.")],
    output: Output,
) -> None:
    """Write the packed codes of a feature matrix as .npy, streaming."""
    import numpy as np

    from isch import codes
    from isch import features as feature_sources
    from isch.cli.progress import shown
    from isch.files import replacing
    from isch.hashing import load

    _refuse_same(output, model, Path(features.partition("::")[0]))
    hasher, source = load(model), feature_sources.open(features)
    shape = (len(source), codes.width(hasher.n_bits))
    with replacing(output) as temporary, shown(), temporary.open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for part in hasher.encode(source):
            file.write(part.data)
    typer.echo(f"{shape[0]} codes of {hasher.n_bits} bits ({shape[1]} bytes) written to {output}")


def info(
    model: Annotated[Path, typer.Argument(help="A model that isch fit wrote.")],
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Say what a model is: method, parameters, training data, spectrum, checksum."""
    from json import dumps

    from isch.hashing import load
    from isch.models import read_header

    if json:
        load(model)
        typer.echo(dumps(read_header(model), indent=2, sort_keys=True))
    else:
        _print_summary(model)


def demo(
    folder: Annotated[Path, typer.Option(help="Where the demo's model and codes go.")] = Path("isch-demo"),
) -> None:
    """Train, compare and search on scikit-learn's digits, in a few seconds."""
    from isch.cli.demo import run

    run(folder)


def _refuse_same(output: Path, *inputs: Path) -> None:
    """Refuse to write over what is read."""
    from isch.errors import FileError

    for path in inputs:
        if output.exists() and path.exists() and output.samefile(path):
            raise FileError(f"cannot write {output}: it is also the input {path}")


def _setting(text: str) -> tuple[str, Any]:
    """NAME=VALUE with the value read as JSON where it is JSON, else as text."""
    from json import JSONDecodeError, loads

    from isch.errors import ParameterError

    name, equals, value = text.partition("=")
    if not equals:
        raise ParameterError(f"--set expects NAME=VALUE; got {text!r}")
    try:
        return name, loads(value)
    except JSONDecodeError:
        return name, value


def _print_summary(path: Path) -> None:
    """What a model was asked to be and what it learned, one line each."""
    from isch.encoder import Encoder
    from isch.models import read

    model, encoder = read(path), Encoder.load(path)
    hasher = encoder.hasher
    parameters = hasher.get_params(deep=False)
    lines = {
        "method": hasher.name,
        "bits": hasher.n_bits,
        "takes": "feature vectors" if encoder.describer is None else f"pictures, described by {encoder.describer.name}",
        "trained on": f"{hasher.n_samples_} rows × {hasher.n_features_in_} features",
        **(_isch_lines(hasher) if hasher.name == "isch" else {}),
        "parameters": ", ".join(f"{k}={v}" for k, v in sorted(parameters.items()) if v is not None),
        "format": f"version {model.version}",
        "checksum": model.checksum[:16],
    }
    for name, value in lines.items():
        typer.echo(f"{name:>12}  {value}")


def _isch_lines(hasher: Any) -> dict[str, str]:
    """What ISCH's diagnostics say."""
    errors = hasher.quantization_errors_
    first, last = (sum(e[i] for e in errors) / len(errors) for i in (0, -1))
    rank = "" if hasher.rank_ is None else f", rank {hasher.rank_}"
    iterations = max(map(len, errors))
    return {
        "dictionary": f"{hasher.dictionary_kind_}, {hasher.n_atoms_} atoms made of {hasher.n_atoms_asked_} asked",
        "spectrum": f"{hasher.spectrum_kind_}, {hasher.spectrum_share_:.1%} kept{rank}",
        "weights": f"λ* = {hasher.lambda_star_:.4g} (τ = {hasher.tau_:.4g})",
        "rotation": f"{len(errors)} × {hasher.block_size_} bits, block overlap {hasher.block_overlap_:.2f}, "
        f"quantisation error {first:.4f} → {last:.4f} in {iterations} iterations",
        "ones": f"{hasher.bit_balance_.min():.0%} to {hasher.bit_balance_.max():.0%} of rows, by bit",
        "correlation": f"{hasher.bit_correlation_:.3f} between two bits, mean absolute",
    }
