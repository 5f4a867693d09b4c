"""What nested codes cost: precision of their first 64, 128, 256, … bits beside codes learned for that length alone.

python benchmarks/nested.py mnist.npy gist.npy cnn.npy --rows 5000 --splits 2

Data sets that are not named keep their lines.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from judged import Judged, parser
from report import kept, section, table

import isch
from isch.errors import IschWarning
from isch.hashing.nested import levels

N_BITS = 256
PAGE = Path(__file__).parents[1] / "docs" / "methods.md"


def main() -> None:
    """Print and record the table."""
    options = parser(__doc__ or "")
    options.add_argument("--splits", type=int, default=2, help="how often queries and database are drawn")
    asked = options.parse_args()
    warnings.simplefilter("ignore", IschWarning)
    rows = kept("nested", PAGE, {file.stem for file in asked.files})
    for file in asked.files:
        splits = [Judged.read(file, asked.rows, seed) for seed in range(asked.splits)]
        for row in lines(splits):
            print(*row, sep="\t", flush=True)
            rows.append(row)
    head = ["data", "method", "bits", "learned alone", "nested", "change", f"first bits of a plain {N_BITS}-bit code"]
    text = (
        f"Precision by labels of {asked.rows:,} rows at most, 2,000 queries, splits: {asked.splits}; one nested model "
        f"of {N_BITS} bits:"
    )
    section("nested", f"{text}\n\n{table(head, rows)}", PAGE)


def lines(splits: list[Judged]) -> Iterator[list[object]]:
    for method in ("diffusion", "itq"):
        found = np.mean([list(precisions(method, data)) for data in splits], axis=0)
        for n_bits, (alone, within, first) in zip(levels(N_BITS), found, strict=True):
            numbers = (f"{alone:.4f}", f"{within:.4f}", f"{within - alone:+.4f}", f"{first:.4f}")
            yield [splits[0].name, method, n_bits, *numbers]


def precisions(method: str, data: Judged) -> Iterator[tuple[float, float, float]]:
    """For each length: of codes learned for it, of nested ones, and of the first bits of codes that are not nested."""
    nested, plain = (isch.hasher(method, n_bits=N_BITS, nested=n).fit(data.base) for n in (True, False))
    cut = [plain.transform(rows) for rows in (data.queries, data.base)]
    for n_bits in levels(N_BITS):
        alone = plain if n_bits == N_BITS else isch.hasher(method, n_bits=n_bits).fit(data.base)
        first = data.precision(*(rows[:, : n_bits // 8] for rows in cut), n_bits)
        yield data.of(alone), data.of(nested.prefix(n_bits)), first


if __name__ == "__main__":
    main()
