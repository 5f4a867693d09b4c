"""Which revision of the code makes a run's numbers: a stored result of another revision is stale.

Every hashing method, descriptor and peer carries a small number. It is raised when the codes or vectors change beyond
rounding, which the golden tests notice; a clean-up of the code leaves it alone.
"""

from isch import describe
from isch.evaluate import methods
from isch.evaluate.runs import Result, Run


def current(run: Run) -> str:
    """The revisions that a run would be made by now, such as ``isch 1, gist 1``; of each part of a fused descriptor."""
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
    """Whether a result was made by another revision than the present one."""
    return result.revision != current(result.run)
