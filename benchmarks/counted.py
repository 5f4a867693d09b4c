"""``python counted.py FILE COMMAND …``: runs an isch command, and writes the bytes of .npy it read to FILE."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isch.cli import main
from isch.features.npy import NpyFeatures

counted = 0


def counting(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, whose blocks are counted when they are handed out."""

    def counts(*arguments: Any) -> Any:
        global counted
        block = function(*arguments)
        counted += block.nbytes
        return block

    return counts


if __name__ == "__main__":
    NpyFeatures.read, NpyFeatures.take = counting(NpyFeatures.read), counting(NpyFeatures.take)  # type: ignore[method-assign]
    target = Path(sys.argv.pop(1))
    try:
        main()
    finally:
        target.write_text(str(counted))
