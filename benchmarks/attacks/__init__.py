"""What ``benchmarks/attack.py`` attacks. A new target is one entry in a module here; a new module is one line below."""

from attacks import features, index, models, photos, pictures
from attacks.target import Target

MODULES = (features, index, models, photos, pictures)
TARGETS: dict[str, Target] = {target.name: target for module in MODULES for target in module.TARGETS}
