"""What ``benchmarks/attack.py`` attacks. A new target is one entry in a module here; a new module is one line below."""

from attacks import features, index
from attacks.target import Target

TARGETS: dict[str, Target] = {target.name: target for module in (features, index) for target in module.TARGETS}
