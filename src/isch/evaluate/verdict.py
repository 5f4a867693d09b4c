"""What the results of an experiment say, in plain sentences: the paper's claim, and where ISCH stands."""

from isch.evaluate import figures, names
from isch.evaluate.markdown import plain
from isch.evaluate.summary import REFERENCE, Summary


def verdict(summary: Summary) -> str:
    """Plain sentences: what the paper says, and where ISCH stands against the other codes and the 2-norm."""
    claim = summary.experiment.claim
    sentences = [f"The paper says: {plain(claim)}."] if claim else []
    if REFERENCE not in summary.experiment.methods:
        return " ".join([*sentences, *_after_pca(summary)])
    length, own = claimed(summary)
    if own is None:
        return " ".join([*sentences, f"ISCH has no result at {length:,} bits."])
    name = names.of_measure(summary.headline)
    sentences.append(f"Here, {length:,}-bit ISCH reaches {_article(name)} {name} of {names.number(own)}.")
    compared, others = rivals(summary)
    sentences += _against(summary, own, "The best of the paper's other codes", compared)
    sentences += _against(summary, own, "The best of the other methods and peers", others)
    norm = summary.cells.get(("2-norm", None))
    if norm is not None:
        value = norm.mean(summary.headline)
        sentences.append(f"The 2-norm reaches {names.number(value)}; ISCH is {_compared(own, value)}.")
    return " ".join(sentences)


def claimed(summary: Summary) -> tuple[int, float | None]:
    """(code length, headline measure) of ISCH where the paper makes its claim; None if there is no result."""
    length = summary.experiment.figure.get("claim_bits", figures.chosen_length(summary))
    mine = summary.cells.get((REFERENCE, length))
    return length, None if mine is None else mine.mean(summary.headline)


def rivals(summary: Summary) -> tuple[list[str], list[str]]:
    """Methods other than ISCH and the 2-norm: (those the paper compares with, the others)."""
    compared = set(summary.experiment.figure.get("paper", summary.labels))
    others = [x for x in summary.labels if not x.startswith(REFERENCE) and x != "2-norm"]
    return [x for x in others if x in compared], [x for x in others if x not in compared]


def _after_pca(summary: Summary) -> list[str]:
    """What the best number of principal coordinates gives, compared with all dimensions."""
    name, sentences = names.of_measure(summary.headline), []
    for label, cell in summary.flat().items():
        best = summary.best([f"pca-{label}"])
        if best is not None:
            (reduced, n), value = best
            whole = cell.mean(summary.headline)
            who, reach = names.capital(names.of_method(reduced)), "reaches" if reduced.endswith("norm") else "reach"
            sentences.append(
                f"{who} {reach} at best {_article(name)} {name} of {names.number(value)}, with {n:,} dimensions; "
                f"without PCA it is {names.number(whole)}, so PCA {'gains' if value > whole else 'loses'} "
                f"{names.number(abs(value - whole))}."
            )
    return sentences


def _against(summary: Summary, own: float, who: str, labels: list[str]) -> list[str]:
    best = summary.best(labels)
    if best is None:
        return []
    return [
        f"{who}, at any length, is {named(*best[0])} with {names.number(best[1])}; ISCH is {_compared(own, best[1])}."
    ]


def named(label: str, bits: int | None) -> str:
    """A method and its code length, as readers call it."""
    return names.of_method(label) if bits is None else f"{bits:,}-bit {names.of_method(label)}"


def _compared(own: float, other: float) -> str:
    gap = own - other
    if abs(gap) < 5e-4:
        return "level with it"
    return f"{names.number(abs(gap))} {'higher' if gap > 0 else 'lower'}"


def _article(name: str) -> str:
    return "an" if name[0] in "aeiou" else "a"
