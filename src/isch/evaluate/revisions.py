"""Which revision of the code made a result; a result of another revision is stale.

Every hashing method, descriptor and peer has a revision number. It is raised when codes or vectors change by more than
rounding, which the golden tests notice. Refactoring does not change it.
"""

from isch import describe
from isch.evaluate import methods
from isch.evaluate.runs import Result, Run


def current(run: Run) -> str:
    """The current revisions for a run, such as ``isch 1, gist 1``; a fused descriptor lists each part."""
    parts = [f"{run.method} {methods.revision(run.method)}"]
    if descriptor := run.data.get("descriptor"):
        parts.append(of_descriptor(descriptor))
    return ", ".join(parts)


def of_descriptor(name: str) -> str:
    """The revisions of a descriptor, such as ``gist 1`` or ``le 1, lbp 1, fusion 1``."""
    parts = name.split("+")
    parts += ["fusion"] if len(parts) > 1 else []
    return ", ".join(f"{part} {describe.descriptor(part).revision}" for part in parts)


def is_stale(result: Result) -> bool:
    """Whether a result was made by another revision than the current one."""
    return result.revision != current(result.run)
