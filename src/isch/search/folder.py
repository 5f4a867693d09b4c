"""The folder of an index: made whole or not at all, and recognised."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

from isch.encoder import Encoder
from isch.errors import FileError, FormatError, InputError, ParameterError, unknown
from isch.files import sync
from isch.search.catalog import Catalog

KEPT = ("float16", "float32")


@contextmanager
def building(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new folder beside ``path``; it takes the name ``path`` if the block succeeds and vanishes if not."""
    target = Path(path)
    if target.exists():
        raise FileError(f"cannot make {target}: it exists already")
    if not target.absolute().parent.is_dir():
        raise FileError(f"cannot make {target}: the folder {target.parent} does not exist")
    temporary = target.with_name(f".{target.name}.{token_hex(4)}")
    try:
        temporary.mkdir()
        yield temporary
        os.rename(temporary, target)
        sync(target.absolute().parent)
    except OSError as error:
        raise error if isinstance(error, FileError) else FileError(f"cannot make {target}: {error.strerror}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_empty(folder: Path, encoder: Encoder | None, n_bits: int | None, keep_features: str | None) -> None:
    """Put an index without items into a new folder."""
    if keep_features is not None and keep_features not in KEPT:
        raise unknown("keep_features", keep_features, KEPT)
    if encoder is None:
        settings = _settings_for_codes(n_bits, keep_features)
    else:
        settings = _settings_for_features(folder / "model.safetensors", encoder, n_bits)
    (folder / "segments").mkdir()
    Catalog.create(folder / "catalog.sqlite", {**settings, "keep_features": keep_features})
    for path in (folder / "catalog.sqlite", folder / "segments", folder):
        sync(path)


def checked(path: Path) -> Path:
    """The folder, if it can be an index."""
    if not path.exists():
        raise FileError(f"{path}: no such index")
    if not path.is_dir() or not (path / "catalog.sqlite").is_file() or not (path / "segments").is_dir():
        raise FormatError(f"{path}: not an ISCH index (a folder with catalog.sqlite and segments)")
    return path


def digest(path: Path) -> bytes:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _settings_for_codes(n_bits: int | None, keep_features: str | None) -> dict[str, Any]:
    if not isinstance(n_bits, int) or isinstance(n_bits, bool) or n_bits < 1:
        raise ParameterError(f"an index without a hasher holds whole bits and needs n_bits, at least 1; got {n_bits!r}")
    if keep_features is not None:
        raise ParameterError("keep_features needs a hasher: an index without one takes codes")
    return {"n_bits": int(n_bits), "n_features": None, "model_digest": None}


def _settings_for_features(path: Path, encoder: Encoder, n_bits: int | None) -> dict[str, Any]:
    if n_bits is not None and n_bits != encoder.n_bits:
        raise ParameterError(f"n_bits is {n_bits}, but the hasher makes codes of {encoder.n_bits} bits")
    if not hasattr(encoder.hasher, "n_features_in_"):
        raise InputError("the hasher must be fitted before it makes an index")
    encoder.save(path)
    return {"n_bits": int(encoder.n_bits), "n_features": encoder.n_features, "model_digest": digest(path)}
