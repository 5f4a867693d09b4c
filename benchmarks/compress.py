"""What rounding the weights of linear methods costs: precision lost, bits that differ, size of the file.

python benchmarks/compress.py mnist.npy gist.npy cnn.npy --rows 10000 --splits 4

Each split draws queries and database anew; a change is the mean over splits ± its standard error. Data sets that are
not named keep their lines.
"""

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from judged import Judged, parser
from report import kept, section, table

import isch
from isch import codes
from isch.errors import IschWarning

METHODS = ("isch", "diffusion", "distance", "itq", "lsh", "pcah", "pcarr", "sh", "sklsh", "mdsh", "kmh")
LENGTHS = (128, 256)
PAGE = Path(__file__).parents[1] / "docs" / "methods.md"


def main() -> None:
    """Print and record the table."""
    options = parser(__doc__ or "")
    options.add_argument("--splits", type=int, default=4)
    options.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    options.add_argument("--weight-bits", nargs="+", type=int, default=[4])
    asked = options.parse_args()
    warnings.simplefilter("ignore", IschWarning)
    rows = kept("compress", PAGE, {file.stem for file in asked.files})
    for file in asked.files:
        splits = [Judged.read(file, asked.rows, seed) for seed in range(asked.splits)]
        for method in asked.methods:
            for row in lines(splits, method, asked.weight_bits):
                print(*row, sep="\t", flush=True)
                rows.append(row)
    head = ["data", "method", "bits", "precision", "weights", "with data", "bits changed", "without", "changed", "file"]
    text = (
        f"Precision by labels of {asked.rows:,} rows at most, and its change when weights are rounded, with data (the "
        f"database) or without: mean of {asked.splits} splits of 2,000 queries ± standard error. Bits changed: "
        "share of all bits. File: of that with float32."
    )
    section("compress", f"{text}\n\n{table(head, rows)}", PAGE)


def lines(splits: list[Judged], method: str, weight_bits: list[int]) -> Iterator[list[object]]:
    for n_bits in LENGTHS:
        found = np.array([list(changes(data, method, n_bits, weight_bits)) for data in splits])
        for bits, values in zip(weight_bits, found.swapaxes(0, 1), strict=True):
            before, told, told_bits, untold, untold_bits, size = values.T
            yield [
                *(splits[0].name, method, n_bits, f"{before.mean():.4f}", f"{bits} bits"),
                *(mean(told), f"{told_bits.mean():.2%}", mean(untold), f"{untold_bits.mean():.2%}"),
                f"{size.mean():.1%}",
            ]


def mean(values: np.ndarray) -> str:
    """With its standard error."""
    return f"{values.mean():+.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"


def changes(data: Judged, method: str, n_bits: int, weight_bits: list[int]) -> Iterator[tuple[float, ...]]:
    """(precision, its change and bits changed with data, the same without, share of the file) for each rounding."""
    whole = isch.hasher(method, n_bits=n_bits).fit(data.base)
    before, full = data.of(whole), size(whole)
    for bits in weight_bits:
        told, untold = whole.compressed(bits, data.base), whole.compressed(bits)
        both = [value for small in (told, untold) for value in (data.of(small) - before, changed(data, whole, small))]
        yield before, *both, size(told) / full


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
