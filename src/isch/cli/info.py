"""isch info: what a file or folder is, whatever isch reads or writes."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isch.cli.arguments import AsJson
from isch.cli.console import done, facts, json_lines
from isch.cli.help import START
from isch.errors import FileError, FormatError

if TYPE_CHECKING:
    from isch.features import Features
    from isch.models import Part

KNOWN = "a model, an index, features, codes, a descriptor, a picture, or a folder of features or pictures"

Facts = dict[str, Any]


def attach(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=START)(info)


def info(
    thing: Annotated[str, typer.Argument(help="A model, index, feature file, file of codes, descriptor or picture.")],
    json: AsJson = False,
) -> None:
    """Say what a file or folder is, and what it holds."""
    found = look(thing)
    done(json_lines(found) if json else facts(_readable(found)))


def look(thing: str) -> Facts:
    """What there is to know about a file or folder.

    Parameters
    ----------
    thing
        A path, or ``FILE::NAME`` for one matrix inside a file.

    Returns
    -------
    dict
        ``kind`` and ``path``, and what is known of that kind.
    """
    path = Path(thing.partition("::")[0])
    if not path.exists():
        raise FileError(f"{path}: no such file or folder")
    found = _folder(path) if path.is_dir() and path.suffix != ".zarr" else _file(thing, path)
    return {"kind": found.pop("kind"), "path": thing, **found}


def model_facts(path: Path) -> Iterator[str]:
    """A line per fact about a model."""
    return facts(_readable(_model(path)))


def _folder(path: Path) -> Facts:
    from isch.describe.images import find
    from isch.features import SUFFIXES
    from isch.search.folder import SEGMENTS

    if (path / SEGMENTS).is_dir():
        return _index(path)
    if path.suffix == ".partial" and (path / "recipe.json").is_file():
        return {"kind": "work of isch describe or isch encode that was interrupted; the same command resumes it"}
    if any(child.suffix in SUFFIXES for child in path.iterdir()):
        return _features(str(path))
    if pictures := find(path).paths:
        return {"kind": "folder of pictures", "pictures": len(pictures)}
    raise FormatError(f"{path}: not a folder that isch knows; expected {KNOWN}")


def _file(thing: str, path: Path) -> Facts:
    from isch.describe.decoding import formats
    from isch.features import SUFFIXES
    from isch.files import regular

    if path.suffix in SUFFIXES:
        return _array(path) if path.suffix == ".npy" else _features(thing)
    regular(path)
    if path.suffix == ".toml":
        return _experiment(path)
    if path.suffix.lower() in formats.SUFFIXES:
        return _picture(path)
    return _model(path)


def _index(path: Path) -> Facts:
    from isch.search.index import Index

    with Index.open(path) as index:
        return {"kind": "index", **index.info()}


def _array(path: Path) -> Facts:
    """A .npy file: features, codes, one vector, or the names of the rows of another file."""
    import numpy as np

    from isch.features import npy

    array = npy.load(path)
    if array.ndim != 2:
        kind = "vector" if array.ndim == 1 and np.issubdtype(array.dtype, np.number) else "names or labels"
        return {"kind": kind, "shape": list(array.shape), "type": str(array.dtype), "bytes": path.stat().st_size}
    found = _features(str(path))
    if array.dtype == np.uint8:
        return found | {"kind": "codes, or features of 8 bits", "bits": f"at most {8 * array.shape[1]} per code"}
    return found


def _features(thing: str) -> Facts:
    from isch import features
    from isch.describe.files import describer_of

    source = features.open(thing)
    describer = describer_of(thing)
    return {
        "kind": "features",
        "rows": source.shape[0],
        "columns": source.shape[1],
        "type": str(source.dtype),
        "names": _names(source),
        "described by": None if describer is None else describer.name,
        "bytes": _size(Path(thing.partition("::")[0])),
    }


def _names(source: "Features") -> str | None:
    names = source.names
    return None if names is None or not len(names) else f"{names[0]} … {names[len(names) - 1]}"


def _size(path: Path) -> int:
    files = (file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def _picture(path: Path) -> Facts:
    from isch.describe.images import facts

    found = facts(path)
    told = {"taken": found.taken and str(found.taken), "camera": f"{found.make} {found.model}".strip()}
    size = {"width": found.width, "height": found.height, "bytes": path.stat().st_size}
    return {"kind": "picture", "format": found.format, **size, **{name: value for name, value in told.items() if value}}


def _experiment(path: Path) -> Facts:
    from isch.evaluate import experiment

    spec = experiment.read(str(path))
    methods = ", ".join(spec.methods)
    return {"kind": "experiment", "title": spec.title, "methods": methods, "bits": list(spec.bits), "seeds": spec.seeds}


def _readable(found: Facts) -> Facts:
    """Without the header of a model, which only programs want."""
    lists = {name: ", ".join(map(str, value)) for name, value in found.items() if isinstance(value, list)}
    return {name: value for name, value in (found | lists).items() if name != "header"}


def _model(path: Path) -> Facts:
    """A hashing model, a descriptor, or both in one file. The content is read, but nothing is run."""
    from isch.hashing import METHODS
    from isch.models import read, read_header

    model = read(path)
    if not model.parts:
        raise FormatError(f"{path}: the model is empty")
    hashers = [part for part in model.parts if part.method in METHODS]
    others = [part for part in model.parts if part.method not in METHODS]
    found: Facts = {"kind": "model" if hashers else "descriptor"}
    try:
        for part in hashers:
            found |= _hasher(part)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise FormatError(f"{path}: the header of the model is damaged ({error!r})") from error
    for part in others:
        found |= {"described by": part.method, f"parameters of {part.method}": _parameters(part)}
    return found | {"format": f"version {model.version}", "checksum": model.checksum[:16], "header": read_header(path)}


def _hasher(part: "Part") -> Facts:
    learned = part.learned
    return {
        "method": part.method,
        "bits": part.parameters.get("n_bits"),
        "trained on": f"{learned['n_samples_']} rows × {learned['n_features_in_']} features",
        **({"bits per weight": learned["projection_"].bits} if _is_rounded(learned) else {}),
        **_diagnostics(learned),
        "parameters": _parameters(part),
    }


def _is_rounded(learned: dict[str, Any]) -> bool:
    from isch.rounded import Rounded

    return isinstance(learned.get("projection_"), Rounded)


def _parameters(part: "Part") -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(part.parameters.items()) if value is not None)


def _diagnostics(learned: dict[str, Any]) -> Facts:
    """What a method that rotates block by block says of its steps."""
    if "quantization_errors_" not in learned:
        return {}
    errors, balance = learned["quantization_errors_"], learned["bit_balance_"]
    first, last = (sum(e[i] for e in errors) / len(errors) for i in (0, -1))
    return {
        **(_dictionary(learned) if "dictionary_kind_" in learned else {}),
        "rotation": f"{len(errors)} × {learned['block_size_']} bits, block overlap {learned['block_overlap_']:.2f}, "
        f"quantisation error {first:.4f} → {last:.4f} in {max(map(len, errors))} iterations",
        "ones": f"{balance.min():.0%} to {balance.max():.0%} of rows, by bit",
        "correlation": f"{learned['bit_correlation_']:.3f} between two bits, mean absolute",
    }


def _dictionary(learned: dict[str, Any]) -> Facts:
    """What a method that learns a dictionary says of it, of its spectrum, and of the weights."""
    rank = "" if learned.get("rank_") is None else f", rank {learned['rank_']}"
    kind, atoms, asked = (learned[name] for name in ("dictionary_kind_", "n_atoms_", "n_atoms_asked_"))
    tau = f" (τ = {learned['tau_']:.4g})" if "tau_" in learned else ""
    count = learned.get("n_neighbours_")
    walks = "" if count is None else f", then walks among {count} neighbours"
    return {
        "dictionary": f"{kind}, {atoms} atoms" + (f" ({asked} were asked for)" if asked != atoms else ""),
        "spectrum": f"{learned['spectrum_kind_']}, {learned['spectrum_share_']:.1%} kept{rank}",
        "weights": f"λ* = {learned['lambda_star_']:.4g}{tau}{walks}",
    }
