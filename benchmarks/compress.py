"""What rounding the weights of linear methods costs: precision lost, bits that differ, size of the file.

python benchmarks/compress.py mnist.npy gist.npy cnn.npy --rows 15000
"""

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from judged import Judged, arguments
from report import section, table

import isch
from isch import codes
from isch.errors import IschWarning

METHODS = ("isch", "itq", "lsh", "pcah", "pcarr", "sklsh")
LENGTHS = (128, 256)
WEIGHT_BITS = (8, 4, 3, 2)


def main() -> None:
    """Print and record the table."""
    asked = arguments(__doc__ or "")
    warnings.simplefilter("ignore", IschWarning)
    rows = []
    for file in asked.files:
        data = Judged.read(file, asked.rows)
        for row in lines(data):
            print(*row, sep="\t", flush=True)
            rows.append(row)
    head = ["data", "method", "bits", "precision", "weights", "with data", "bits changed", "without", "changed", "file"]
    text = (
        f"## Rounded weights\n\nPrecision (labels judge) of {asked.rows} rows at most, and its change when weights are "
        "rounded: with data (the database) or without. Bits changed: share of all bits. File: of that with float32."
    )
    section("compress", f"{text}\n\n{table(head, rows)}")


def lines(data: Judged) -> Iterator[list[object]]:
    for method in METHODS:
        for n_bits in LENGTHS:
            whole = isch.hasher(method, n_bits=n_bits).fit(data.base)
            before, full = data.of(whole), size(whole)
            for bits in WEIGHT_BITS:
                told, untold = whole.compressed(bits, data.base), whole.compressed(bits)
                yield [
                    *(data.name, method, n_bits, f"{before:.4f}", f"{bits} bits"),
                    *(f"{data.of(told) - before:+.4f}", f"{changed(data, whole, told):.2%}"),
                    *(f"{data.of(untold) - before:+.4f}", f"{changed(data, whole, untold):.2%}"),
                    f"{size(told) / full:.1%}",
                ]


def changed(data: Judged, before: isch.Hasher, after: isch.Hasher) -> float:
    """The share of the bits that differ."""
    both = (codes.unpack(hasher.transform(data.base[:2000]), before.n_bits) for hasher in (before, after))
    return float(np.not_equal(*both).mean())


def size(hasher: isch.Hasher) -> int:
    """Bytes of the model file."""
    with tempfile.TemporaryDirectory() as folder:
        hasher.save(path := Path(folder) / "m.safetensors")
        return path.stat().st_size


if __name__ == "__main__":
    main()
