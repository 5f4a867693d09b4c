"""Copies of photographs found among others: recall and precision beside imagehash, and how long 100,000 take.

python benchmarks/duplicates.py judge              # the half of flowers-400 that nothing was set on; writes the section
python benchmarks/duplicates.py build              # the other half, on which the limits were set; prints only
python benchmarks/duplicates.py scale --count 100000                   # time of search and grouping

Needs flowers-400 and tiny-imagenet-20k (scale: tiny-imagenet-60k and cifar-10) in the folder of data sets, and
imagehash. Pictures are described once, which takes the network some ten minutes for 100,000, and kept in --cache.
With --describe that is all that is done, so that what is timed can be run later on a quiet machine.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import imagehash
import numpy as np
from alterations import BUILDING, JUDGING, Alteration, stored
from numpy.typing import NDArray
from PIL import Image, ImageOps
from report import machine, section, table

from isch import compute
from isch.describe import describer
from isch.describe.images import decode, find
from isch.evaluate.datasets import cifar
from isch.evaluate.datasets.base import data_home
from isch.photos.candidates import Matches
from isch.photos.fingerprint import FINGERPRINT, fingerprints
from isch.photos.groups import group_matches
from isch.photos.matching import SETTINGS, find_matches, radius_of
from isch.scan.exact import distances

PRECISION = 0.99
COPIED = 33  # one picture in so many is a copy of another, where time is measured
PEERS = ("phash", "dhash", "whash")
SUMS = [names for size in (1, 2, 3) for names in combinations(PEERS, size)]
TARGETS = {
    **dict.fromkeys(("resize", "JPEG", "grey", "brightness", "turn"), 0.99),
    "crop": 0.97,
    **dict.fromkeys(("watermark", "rotation", "border", "letterbox"), 0.95),
    "one-sided crop": 0.80,
}
OVERALL = 0.97
SAME = 4.0  # grey levels by which two photographs of the data differ, at 64 pixels, if they are one and the same
"""Some photographs are in the data twice."""
CROPPED = ("c9/image_0674.jpg", "c9/image_0698.jpg")
"""The same photograph, one a crop of the other, as was seen when what counted as wrong was looked at."""


@dataclass
class Pictures:
    """What is known of some pictures."""

    prints: NDArray[np.void]
    vectors: NDArray[np.float16]
    peers: NDArray[np.uint8]  # (n, 3, 8): 64 bits of each peer

    @classmethod
    def joined(cls, parts: Sequence["Pictures"]) -> "Pictures":
        columns = zip(*((part.prints, part.vectors, part.peers) for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    @classmethod
    def kept(cls, path: Path, make: Callable[[], "Pictures"]) -> "Pictures":
        """What a file holds, which is made first if there is none."""
        if not path.exists():
            made = make()
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, prints=made.prints.view(np.uint8), vectors=made.vectors, peers=made.peers)
        with np.load(path) as file:
            return cls(file["prints"].view(FINGERPRINT), file["vectors"], file["peers"])


def described(images: Sequence[Image.Image]) -> Pictures:
    """Fingerprints, vectors and the peers' hashes, in this thread."""
    arrays = [np.asarray(image.convert("RGB")) for image in images]
    vectors = describer("cnn").describe(arrays).astype(np.float16)
    hashes = [[getattr(imagehash, name)(image).hash.ravel() for name in PEERS] for image in images]
    return Pictures(fingerprints(arrays), vectors, np.packbits(np.array(hashes), axis=2))


def photographs(paths: Sequence[str], alterations: Mapping[str, Alteration]) -> Pictures:
    """Each photograph, then its copies in order."""

    def work(path: str) -> Pictures:
        image = Image.open(path).convert("RGB")
        return described([image, *(alteration.alter(image) for alteration in alterations.values())])

    return Pictures.joined(list(compute.parallel(work, paths)))


def distractors(count: int) -> Pictures:
    paths = find(data_home() / "tiny-imagenet-20k").paths
    chosen = [paths[i] for i in np.linspace(0, len(paths) - 1, count).astype(int)]
    groups = [chosen[start : start + 16] for start in range(0, count, 16)]
    return Pictures.joined(list(compute.parallel(lambda some: described([Image.open(p) for p in some]), groups)))


def sources(paths: Sequence[str]) -> NDArray[np.int64]:
    """A number for each photograph; those that are in the data twice have the same."""
    small = [np.asarray(Image.open(path).convert("L").resize((64, 64)), float) for path in paths]
    label = np.arange(len(paths))
    for a, b in combinations(range(len(paths)), 2):
        if np.abs(small[a] - small[b]).mean() < SAME:
            label[b] = label[a]
    return label


class Half(NamedTuple):
    """Half of the photographs, and what they are mixed with."""

    first: int  # 0 or 1
    alterations: Mapping[str, Alteration]
    n_thumbnails: int
    count: int | None  # of photographs; None: all
    cache: Path

    @property
    def paths(self) -> list[str]:
        return find(data_home() / "flowers-400").paths[self.first :: 2][: self.count]

    @property
    def step(self) -> int:
        """From a photograph to the next: its copies follow it."""
        return len(self.alterations) + 1

    def pictures(self) -> Pictures:
        copied = self.cache / f"copied-{self.first}-{len(self.paths)}.npz"
        others = self.cache / f"thumbnails-{self.n_thumbnails}.npz"
        return Pictures.joined(
            [
                Pictures.kept(copied, lambda: photographs(self.paths, self.alterations)),
                Pictures.kept(others, lambda: distractors(self.n_thumbnails)),
            ]
        )

    def labels(self) -> NDArray[np.int64]:
        """The same number for copies of the same photograph, another for each thumbnail."""
        return np.concatenate([np.repeat(sources(self.paths), self.step), -1 - np.arange(self.n_thumbnails)])


def found_copies(matches: Matches, n_photographs: int, n_kinds: int) -> NDArray[np.bool_]:
    """(photographs, kinds): whether the photograph and this copy of it are a pair."""
    step = n_kinds + 1
    photograph, kind = np.divmod(matches.second, step)
    mine = (matches.first == photograph * step) & (matches.second < n_photographs * step)
    out = np.zeros((n_photographs, step), np.bool_)
    out[photograph[mine], kind[mine]] = True
    return out[:, 1:]


class Peer(NamedTuple):
    """How a sum of peers fares on the same pictures."""

    recall: NDArray[np.float64]  # of each kind of copy
    precision: float


def peer_recall(names: Sequence[str], codes: NDArray[np.uint8], label: NDArray[np.int64], step: int) -> Peer:
    """Recall of a sum of peers at the largest distance with precision enough, else at that with the best precision.

    Every copy is compared with every photograph and thumbnail. The distance is chosen on these very pictures, which
    favours the peers.
    """
    mine = np.ascontiguousarray(codes[:, [PEERS.index(name) for name in names]].reshape(len(codes), -1))
    n = int((label >= 0).sum()) // step
    targets = np.concatenate([np.arange(0, n * step, step), np.arange(n * step, len(codes))])
    bits = 64 * len(names)
    wrong, right = np.zeros(bits + 1, np.int64), np.empty((n, step), np.int64)
    for photograph in range(n):
        rows = slice(photograph * step, (photograph + 1) * step)
        apart = distances(mine[rows], mine[targets])
        right[photograph] = apart[:, photograph]
        other = label[targets] != label[photograph * step]
        wrong += np.bincount(apart[1:][:, other].ravel(), minlength=bits + 1)
    good = np.cumsum(np.bincount(right[:, 1:].ravel(), minlength=bits + 1))
    precision = good / np.maximum(good + np.cumsum(wrong), 1)
    limit = int(np.flatnonzero(precision >= min(PRECISION, precision.max()))[-1])
    return Peer((right[:, 1:] <= limit).mean(axis=0), float(precision[limit]))


def judge(half: Half) -> str:
    """The section on one half of the photographs."""
    pictures, label, step = half.pictures(), half.labels(), half.step
    start = time.perf_counter()
    matches = find_matches(pictures.prints, pictures.vectors)
    middle = time.perf_counter()
    groups = group_matches(matches, len(label), "altered")
    times = f"pairs in {middle - start:.1f} s, groups in {time.perf_counter() - middle:.1f} s"
    own = found_copies(matches, len(half.paths), len(half.alterations))
    wrong = label[matches.first] != label[matches.second]
    peers = {names: peer_recall(names, pictures.peers, label, step) for names in SUMS}
    best = max((names for names in SUMS if len(names) > 1), key=lambda names: peers[names].recall.mean())
    columns = [peers[(name,)].recall for name in PEERS] + [peers[best].recall]
    return f"""## Duplicates

{len(half.paths)} photographs of flowers-400 (the half on which nothing was set), {len(half.alterations)} copies of each
by kinds and strengths that were not used for setting the limits (five of them resemble alterations tried while building
it), and {half.n_thumbnails:,} thumbnails; photographs of the same class are each other's distractors. Recall is the
share of copies that are found as a match of their photograph at the setting "altered". imagehash has its largest
distance with precision ≥ {PRECISION}, chosen on these very pictures; "best sum" is {" + ".join(best)}.
{imprecise(peers)}

{by_target(half.alterations, own, columns)}

{by_kind(half.alterations, own, columns)}

Precision over all {len(label) * (len(label) - 1) // 2:,} pairs of pictures: {1 - wrong.mean():.5f} ({wrong.sum():,}
wrong of {len(wrong):,} found; {wrong_by_closeness(matches, label)}). {twice(half, matches.where(wrong), len(wrong))}
{in_groups(groups, label, step, len(half.paths))} {len(label):,} pictures: {times}.

{machine("imagehash", "onnxruntime")}"""


def imprecise(peers: Mapping[Sequence[str], Peer]) -> str:
    """Sentences on the peers that never reach the precision."""
    return " ".join(
        f"{' + '.join(names)} never reaches that precision, since different pictures share its hash: "
        f"its recall is given where its precision is best, {peer.precision:.3f}."
        for names, peer in peers.items()
        if peer.precision < PRECISION
    )


def by_target(alterations: Mapping[str, Alteration], own: NDArray[np.bool_], peers: list[Any]) -> str:
    kinds = [alteration.target for alteration in alterations.values()]
    rows: list[list[object]] = []
    for target in dict.fromkeys(kinds):
        chosen = [kind == target for kind in kinds]
        wanted = f"≥ {TARGETS[target]}" if target in TARGETS else "–"
        rows.append([target, wanted, _three(own[:, chosen].mean()), *(_three(peer[chosen].mean()) for peer in peers)])
    rows.append(["**all**", f"≥ {OVERALL}", _three(own.mean()), *(_three(peer.mean()) for peer in peers)])
    return table(["copies", "target", "isch", *PEERS, "best sum"], rows)


def by_kind(alterations: Mapping[str, Alteration], own: NDArray[np.bool_], peers: list[Any]) -> str:
    rows: list[list[object]] = [
        [name, _three(own[:, i].mean()), *(_three(peer[i]) for peer in peers)] for i, name in enumerate(alterations)
    ]
    return table(["copy", "isch", *PEERS, "best sum"], rows)


def _three(share: float) -> str:
    return f"{share:.3f}"


def wrong_by_closeness(matches: Matches, label: NDArray[np.int64]) -> str:
    wrong = matches.distance[label[matches.first] != label[matches.second]]
    return "; ".join(f"{name}: {(wrong <= radius_of(name)).sum()}" for name in SETTINGS)


def twice(half: Half, wrong: Matches, n_found: int) -> str:
    """A sentence on what counts as wrong although it is not."""
    rows = [i for i, path in enumerate(half.paths) if path.endswith(CROPPED)]
    count = int((np.isin(wrong.first // half.step, rows) & np.isin(wrong.second // half.step, rows)).sum())
    if not count:
        return ""
    return (
        f"{count:,} of the wrong ones are copies of {' and '.join(CROPPED)}, of which one is a crop of the other: "
        f"without them the precision is {1 - (len(wrong.first) - count) / (n_found - count):.5f}."
    )


def in_groups(groups: Sequence[Any], label: NDArray[np.int64], step: int, n: int) -> str:
    """A sentence on how groups hold what belongs together."""
    group_of = np.full(len(label), -1)
    for number, group in enumerate(groups):
        group_of[group.rows] = number
    copies = group_of[: n * step].reshape(n, step)
    together = ((copies == copies[:, :1]) & (copies >= 0))[:, 1:].mean()
    mixed = sum(len(np.unique(label[group.rows])) > 1 for group in groups)
    return (
        f"In groups: {together:.3f} of the copies are in the group of their photograph, {mixed} of {len(groups)} "
        "groups mix photographs."
    )


def scale(count: int, cache: Path) -> str:
    """How long collections of growing size take, and what a fingerprint costs beside the network."""
    cnn = describer("cnn")
    records, vectors = known(cnn, count, cache)
    find_matches(records[:100], vectors[:100])  # compiled before it is timed
    rows: list[list[object]] = []
    for n in (count // 10, count // 4, count // 2, count):
        start = time.perf_counter()
        matches = find_matches(records[:n], vectors[:n])
        middle = time.perf_counter()
        found = group_matches(matches, n)
        times = [f"{middle - start:.1f}", f"{time.perf_counter() - middle:.1f}"]
        rows.append([f"{n:,}", *times, f"{len(matches.first):,}", f"{len(found):,}"])
        print(*rows[-1], flush=True)
    header = ["pictures", "pairs found in, s", "grouped in, s", "pairs", "groups"]
    about = f"Thumbnails of ImageNet and pictures of CIFAR-10, one in {COPIED} a grey, recompressed copy of another."
    return f"{about}\n\n{table(header, rows)}\n\n{costs(cnn)}"


def known(cnn: Any, count: int, cache: Path) -> tuple[Any, Any]:
    """Fingerprints and vectors of so many small pictures, kept in a folder. One in ``COPIED`` is a copy of another."""
    cache.mkdir(parents=True, exist_ok=True)
    every = [*find(data_home() / "tiny-imagenet-60k").paths, *cifar.load(data_home() / "cifar-10").images]
    order = np.random.default_rng(0).permutation(len(every))[:count]
    prints, vectors = cache / f"prints-{count}.npy", cache / f"vectors-{count}.npy"
    if not vectors.exists():
        groups = [range(start, min(start + 64, count)) for start in range(0, count, 64)]
        parts = compute.parallel(lambda rows: _known(cnn, [_picture(every, order, row) for row in rows]), groups)
        both = [np.concatenate(column) for column in zip(*parts, strict=True)]
        np.save(prints, both[0].view(np.uint8).reshape(count, -1))
        np.save(vectors, both[1])
    return np.load(prints).view(FINGERPRINT).ravel(), np.load(vectors, mmap_mode="r")


def _picture(every: Sequence[Any], order: NDArray[np.int64], row: int) -> NDArray[np.uint8]:
    if row % COPIED or row == 0:
        return decode(every[order[row]], 224)
    original = Image.fromarray(decode(every[order[row - 1]], 224))
    return np.asarray(stored("JPEG", quality=60)(ImageOps.grayscale(original).convert("RGB")))


def _known(cnn: Any, images: Sequence[NDArray[np.uint8]]) -> tuple[Any, Any]:
    return fingerprints(images), cnn.describe(images).astype(np.float16)


def costs(cnn: Any) -> str:
    """A sentence on the time for a fingerprint beside the network's, on decoded photographs in one thread."""
    images = [decode(path, 224) for path in find(data_home() / "flowers-400").paths[:64]]
    times = []
    for work in (fingerprints, cnn.describe):
        work(images[:8])
        start = time.perf_counter()
        with compute.single_threaded_blas():
            for at in range(0, 64, 8):
                work(images[at : at + 8])
        times.append((time.perf_counter() - start) / 64)
    return (
        f"A fingerprint takes {times[0] / times[1]:.2f} of the time of the network's vector ({1000 * times[0]:.2f} ms)."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["build", "judge", "scale"])
    parser.add_argument("--thumbnails", type=int, default=20_000)
    parser.add_argument("--photographs", type=int)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "isch-duplicates-benchmark")
    parser.add_argument("--describe", action="store_true", help="describe the pictures and end")
    given = parser.parse_args()
    halves = {
        "build": Half(0, BUILDING, given.thumbnails, given.photographs, given.cache),
        "judge": Half(1, JUDGING, given.thumbnails, given.photographs, given.cache),
    }
    match given.what, given.describe:
        case "scale", True:
            known(describer("cnn"), given.count, given.cache)
        case "scale", False:
            text = scale(given.count, given.cache)
            print(text)
            section("duplicates-scale", f"## Duplicates among many\n\n{text}\n\n{machine('onnxruntime')}")
        case half, True:
            halves[half].pictures()
        case half, False:
            text = judge(halves[half])
            print(text)
            if half == "judge" and given.photographs is None:
                section("duplicates", text)


if __name__ == "__main__":
    main()
