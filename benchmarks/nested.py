"""What nested codes cost: precision of their first 64, 128, 256, … bits beside codes learned for that length alone.

python benchmarks/nested.py mnist.npy gist.npy cnn.npy --rows 15000
"""

import warnings
from collections.abc import Iterator

from judged import Judged, arguments
from report import section, table

import isch
from isch.errors import IschWarning
from isch.hashing.nested import levels

N_BITS = 256


def main() -> None:
    """Print and record the table."""
    asked = arguments(__doc__ or "")
    warnings.simplefilter("ignore", IschWarning)
    rows = []
    for file in asked.files:
        for row in lines(Judged.read(file, asked.rows)):
            print(*row, sep="\t", flush=True)
            rows.append(row)
    head = ["data", "method", "bits", "learned alone", "nested", "change", f"first bits of a plain {N_BITS}-bit code"]
    text = f"## Nested codes\n\nPrecision (labels judge) of {asked.rows} rows at most; one model of {N_BITS} bits."
    section("nested", f"{text}\n\n{table(head, rows)}")


def lines(data: Judged) -> Iterator[list[object]]:
    for method in ("isch", "itq"):
        nested, plain = (isch.hasher(method, n_bits=N_BITS, nested=n).fit(data.base) for n in (True, False))
        cut = [plain.transform(rows) for rows in (data.queries, data.base)]
        for n_bits in levels(N_BITS):
            alone = data.of(plain if n_bits == N_BITS else isch.hasher(method, n_bits=n_bits).fit(data.base))
            within = data.of(nested.prefix(n_bits))
            first = data.precision(*(rows[:, : n_bits // 8] for rows in cut), n_bits)
            numbers = (f"{alone:.4f}", f"{within:.4f}", f"{within - alone:+.4f}", f"{first:.4f}")
            yield [data.name, method, n_bits, *numbers]


if __name__ == "__main__":
    main()
