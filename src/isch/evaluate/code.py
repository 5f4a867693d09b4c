"""Which code a method is made of, so that results of an older version of it are not taken for those of the present."""

import ast
import hashlib
import inspect
import sys
from types import ModuleType

from isch import hashing

LEFT_OUT = {"isch.hashing", "isch.hashing.base", "isch.models"}  # interface and storage change no code


def fingerprint(method: str) -> str:
    """A hash of the modules that make a hashing method, blind to comments and layout; empty for anything else."""
    if method not in hashing.METHODS:
        return ""
    digest = hashlib.sha256()
    for module in sorted(_modules(inspect.getmodule(hashing.method(method)), set()), key=lambda m: m.__name__):
        digest.update(ast.dump(_without_docstrings(ast.parse(inspect.getsource(module)))).encode())
    return digest.hexdigest()[:16]


def _modules(module: ModuleType | None, seen: set[ModuleType]) -> set[ModuleType]:
    """The module and those of isch.hashing and isch.kmeans that it uses, directly or not."""
    if module is None or module in seen:
        return seen
    seen.add(module)
    for value in list(vars(module).values()):
        name = value.__name__ if isinstance(value, ModuleType) else str(getattr(value, "__module__", ""))
        if (name.startswith("isch.hashing.") or name == "isch.kmeans") and name not in LEFT_OUT:
            _modules(sys.modules.get(name), seen)
    return seen


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return tree
