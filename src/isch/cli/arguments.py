"""What users write on the command line, and in the files they name there, as values."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from isch.errors import FormatError, ParameterError

MAX_BITS = 1 << 20

Features = Annotated[
    str, typer.Argument(help="A feature file, FILE::NAME for one matrix inside it, or a folder of feature files.")
]
Cluster = Annotated[
    str | None,
    typer.Option(help="The address of a Dask scheduler, as tcp://host:8786, whose workers do the work."),
]
LogJson = Annotated[bool, typer.Option("--log-json", help="Report progress on stderr as lines of JSON.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_CONDITION = re.compile(r"(?P<field>[^=<>!]+)(?P<operator>>=|<=|!=|=|<|>)(?P<value>.*)", re.DOTALL)


def settings(texts: list[str] | None) -> dict[str, Any]:
    """NAME=VALUE each, the value read as JSON where it is JSON, else as text."""
    given = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ParameterError(f"--set expects NAME=VALUE; got {text!r}")
        given[name] = _json_or_text(value)
    return given


def conditions(texts: list[str] | None) -> list[dict[str, Any]] | None:
    """FIELD=VALUE means equal, to the text or to the JSON value it spells; the other operators make ranges."""
    where: list[dict[str, Any]] = []
    for text in texts or []:
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise ParameterError(f"--where expects FIELD=VALUE, or < <= > >= != between them; got {text!r}")
        field, operator, value = match["field"].strip(), match["operator"], match["value"].strip()
        where.append({field: [value, _plain(value)] if operator == "=" else {operator: _plain(value)}})
    return where or None


def keys(path: Path | None) -> list[Any] | None:
    """The keys in a text file, one per line, or in a .npy file."""
    if path is None:
        return None
    if path.suffix != ".npy":
        return _lines(path)
    from isch.features import npy

    return npy.load(path).ravel().tolist()


def metadata(path: Path | None) -> list[Any] | None:
    """The JSON objects in a file, one per line."""
    from json import JSONDecodeError, loads

    if path is None:
        return None
    rows = []
    for number, line in enumerate(_lines(path), 1):
        try:
            rows.append(loads(line))
        except (JSONDecodeError, RecursionError) as error:
            raise FormatError(f"{path}: line {number} is not JSON ({error})") from error
    return rows


def _lines(path: Path) -> list[str]:
    """The lines of a text file, without an empty one at its end."""
    from isch.files import reading

    try:
        with reading(path) as file:
            text = file.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: not a text file in UTF-8 ({error})") from error
    return text.removesuffix("\n").split("\n") if text else []


def _plain(text: str) -> Any:
    """The number, true, false or null that a text spells, else the text."""
    value = _json_or_text(text)
    return text if isinstance(value, list | dict) else value


def _json_or_text(text: str) -> Any:
    from json import JSONDecodeError, loads

    try:
        return loads(text)
    except (JSONDecodeError, RecursionError):
        return text
