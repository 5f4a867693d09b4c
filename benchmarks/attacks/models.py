"""Model files: a hasher, an encoder of pictures, a describer; and crafted headers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

import isch
from attacks.target import Target
from isch import models
from isch.describe import describer, load

ROWS = np.random.default_rng(0).normal(size=(60, 20)).astype(np.float32)
PICTURES = np.random.default_rng(1).integers(0, 256, (6, 40, 40, 3), np.uint8)


def make_hasher(folder: Path) -> Path:
    """A fitted ISCH."""
    isch.ISCH(n_bits=16, n_atoms=40).fit(ROWS).save(folder / "hasher.safetensors")
    return folder / "hasher.safetensors"


def make_encoder(folder: Path) -> Path:
    """A describer and a hasher."""
    gist = describer("gist", side=32)
    encoder = isch.Encoder(isch.LSH(n_bits=12).fit(gist.transform(PICTURES)), gist)
    encoder.save(folder / "encoder.safetensors")
    return folder / "encoder.safetensors"


def make_describer(folder: Path) -> Path:
    """A describer that has learned."""
    describer("le", grid=4).fit(PICTURES).save(folder / "describer.safetensors")
    return folder / "describer.safetensors"


def attempt_hasher(path: Path) -> Any:
    """The codes it gives."""
    return isch.load(path).transform(ROWS)


def attempt_encoder(path: Path) -> Any:
    """The codes of pictures."""
    return isch.Encoder.load(path).codes(PICTURES)


def attempt_describer(path: Path) -> Any:
    """The vectors of pictures."""
    return load(path).transform(PICTURES)


def crafted(folder: Path) -> Iterator[Path]:
    """Headers that lie, with checksums that are right."""
    whole = models.read(make_hasher(folder)).parts[0]
    changes: dict[str, dict[str, Any]] = {
        f"bits {n}": {"parameters": {**whole.parameters, "n_bits": n}} for n in (0, -1, 17, 4 * 10**9, 1e9, "16", None)
    }
    needed = [name for name in whole.learned if name not in ("rank_", "unit_", "n_neighbours_")]
    changes |= {f"without {name}": {"learned": _without(whole.learned, name)} for name in needed}
    changes |= {
        f"odd {name}": {"learned": {**whole.learned, name: np.zeros((3, 3), np.float32)}} for name in whole.learned
    }
    changes |= {
        "more": {"learned": {**whole.learned, "transform": 1}},
        "method": {"method": "os.system"},
        "parameter": {"parameters": {**whole.parameters, "evil": 1}},
        "nan": {"learned": {**whole.learned, "projection_": np.full((20, 16), np.nan, np.float32)}},
    }
    for name, change in changes.items():
        models.write(folder / f"{name}.safetensors", [whole._replace(**change)])
        yield folder / f"{name}.safetensors"
    for name, text in _headers().items():
        (folder / f"{name}.safetensors").write_bytes(save({}, {"isch": text}))
        yield folder / f"{name}.safetensors"
    for name, content in (("empty", b""), ("huge header", b"\xff" * 8 + b"{}"), ("pickle", b"\x80\x04cos\nsystem\n.")):
        (folder / f"{name}.safetensors").write_bytes(content)
        yield folder / f"{name}.safetensors"


def _headers() -> dict[str, str]:
    deep = "[" * 100_000 + "]" * 100_000
    odd: dict[str, Any] = {"list": [], "number": 7, "no parts": {"version": 2}, "parts": {"version": 2, "parts": 3}}
    odd |= {f"version {v}": {"version": v, "parts": []} for v in (0, -1, 99, "2", None, 1.5)}
    return {"deep": deep, "not json": "{", **{name: json.dumps(value) for name, value in odd.items()}}


def _without(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


TARGETS = [
    Target("models hasher", make_hasher, attempt_hasher, sealed=True, crafted=crafted),
    Target("models encoder", make_encoder, attempt_encoder, sealed=True),
    Target("models describer", make_describer, attempt_describer, sealed=True),
]
