"""The API page, from docstrings: ``python -m isch.cli.api > docs/api.md``."""

import inspect
import sys
from collections.abc import Iterator
from typing import Any

import isch

SECTIONS = {
    "Methods": "Hashing methods are scikit-learn transformers: `fit`, `transform`, `project`, `save`.",
    "Codes and search": "Exact search among codes in memory, and the index on disk.",
    "Modules": "What else can be imported from `isch`.",
}


def markdown() -> str:
    """Every public name with its signature and docstring."""
    parts = ["# API", "Made from the docstrings. Everything here is imported from `isch`."]
    objects = {name: getattr(isch, name) for name in sorted(isch.__all__) if not name.startswith("_")}
    methods = {name: value for name, value in objects.items() if _is_method(value)}
    modules = {name: value for name, value in objects.items() if inspect.ismodule(value)}
    others = {name: value for name, value in objects.items() if name not in methods and name not in modules}
    for (title, text), group in zip(SECTIONS.items(), (methods, others, modules), strict=True):
        parts += [f"## {title}", text, *(entry for name, value in group.items() for entry in _entries(name, value))]
    return "\n\n".join(parts) + "\n"


def _is_method(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, isch.Hasher)


def _entries(name: str, value: Any) -> Iterator[str]:
    if inspect.ismodule(value):
        yield f"* `isch.{name}`: {_summary(value)}"
        return
    yield f"### `isch.{name}{_signature(value)}`"
    yield _block(value)
    if inspect.isclass(value) and (not _is_method(value) or name == "Hasher"):
        for member, function in inspect.getmembers(value, _public_function):
            if not member.startswith("_") and function.__module__.startswith("isch") and inspect.getdoc(function):
                yield f"#### `{name}.{member}{_signature(function)}`"
                yield _block(function)


def _public_function(member: Any) -> bool:
    return inspect.isfunction(member) or inspect.ismethod(member)


def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    names = [
        f"{'*' if p.kind is p.VAR_POSITIONAL else '**' if p.kind is p.VAR_KEYWORD else ''}{p.name}"
        + (f"={p.default!r}" if p.default is not p.empty else "")
        for p in signature.parameters.values()
        if p.name != "self"
    ]
    return f"({', '.join(names)})"


def _block(value: Any) -> str:
    return f"```text\n{inspect.getdoc(value) or ''}\n```"


def _summary(value: Any) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0]


if __name__ == "__main__":
    sys.stdout.write(markdown())
