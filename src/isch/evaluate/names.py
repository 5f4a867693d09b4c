"""What readers call methods and measures, and how numbers are written."""

from isch.evaluate.metrics import measure

METHODS = {
    "isch": "ISCH",
    "isch-auto": "ISCH (λ* of the spectrum)",
    "isch-auto-asymmetric": "ISCH (λ* of the spectrum, real-valued query)",
    "isch-auto-real": "ISCH (λ* of the spectrum, before the signs)",
    "diffusion": "DiffusionHash",
    "diffusion-asymmetric": "DiffusionHash (real-valued query)",
    "diffusion-real": "DiffusionHash (before the signs)",
    "distance": "DistanceHash",
    "2-norm": "2-norm",
    "sign": "signs of all dimensions",
    "threshold": "x > 0 of all dimensions",
    "pcarr": "PCA-RR",
    "sph-hamming": "SPH (Hamming)",
    "faiss-itq": "faiss ITQ",
    "faiss-lsh": "faiss LSH",
    "faiss-pq": "faiss PQ",
    "faiss-rabitq": "faiss RaBitQ",
    "pca-2-norm": "2-norm after PCA",
    "pca-sign": "signs after PCA",
}


def of_method(label: str) -> str:
    """A method as readers call it; a label of the user's own experiment stays as it is."""
    return METHODS.get(label, label.upper() if label.isalpha() and len(label) <= 5 else label)


def of_measure(name: str) -> str:
    """A measure as readers call it, such as ``precision at 500``."""
    m = measure(name)
    if m.neighbours:
        return f"share of the {m.neighbours} true nearest neighbours among the first {m.k}"
    words = {
        "map": "mean average precision",
        "map-trapezoid": "mean average precision (trapezoid)",
        "within": f"precision within Hamming radius {m.k}",
    }
    return words.get(m.kind, f"{m.kind} at {m.k:,}")


def number(value: float) -> str:
    """A share of 1 with three digits, as .812."""
    if value != value:
        return "–"
    return f"{value:.3f}".removeprefix("0") if value < 0.9995 else "1"


def capital(text: str) -> str:
    """A text with a capital at its beginning."""
    return text[:1].upper() + text[1:]
