"""The folder of an index: made whole or not at all, and recognised."""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from isch.encoder import Encoder
from isch.errors import FileError, FormatError, InputError, NotDurable, ParameterError, unknown
from isch.files import plain, sync, sync_name
from isch.lazy import Lazy
from isch.locks import locked, note
from isch.search import catalog as catalogs
from isch.search import version1
from isch.search.catalog import FACTORS, KEPT, Catalog

if TYPE_CHECKING:
    from isch.hashing import distance as estimator
else:
    estimator = Lazy("isch.hashing.distance")

MODEL, LOCK, SEGMENTS = "model.safetensors", "lock", "segments"
FILES = (catalogs.FILE, *version1.FILES, MODEL, LOCK, note(Path(LOCK)).name)
TEMPORARY = re.compile(r"\.(catalog|model)\.[0-9a-f]{8}\.(json|safetensors)")  # of isch.files.replacing
SEGMENT_FILE = re.compile(r"[0-9a-f]{16}\.(codes|features|items|dead)")


@contextmanager
def building(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new folder beside ``path``; it takes the name ``path`` if the block succeeds and vanishes if not.

    One process at a time may make an index of a name, so what others began under that name was left by killed ones.
    """
    target = Path(path)
    if os.path.lexists(target):
        raise FileError(f"cannot make {target}: it exists already")
    if not target.absolute().parent.is_dir():
        raise FileError(f"cannot make {target}: the folder {target.parent} does not exist")
    lock = target.absolute().with_name(f".{target.name}.lock")
    temporary = target.with_name(f".{target.name}.{token_hex(4)}")
    with locked(lock, 0, f"is making {target.name}"):
        try:
            _remove_remains(target)
            temporary.mkdir()
            yield temporary
            os.rename(temporary, target)
        except OSError as error:
            raise _unmade(error, target) from error
        finally:
            _remove(temporary)
            for file in (lock, note(lock)):
                with suppress(OSError):  # the next process that makes an index of this name takes the same files
                    file.unlink()
    sync_name(target.absolute())


def remove(path: Path) -> None:
    """Remove an index; whatever else is in its folder stays."""
    with locked(checked(path) / LOCK, 0, "is writing to this index"):
        pass
    _remove(path)


def _unmade(error: OSError, target: Path) -> FileError:
    if isinstance(error, FileError) and not isinstance(error, NotDurable):  # what is in the new folder goes with it
        return error
    return FileError(f"cannot make {target}: {error.strerror or error}")


def _remove_remains(target: Path) -> None:
    """Remove the folders in which killed processes made an index of this name."""
    begun = re.compile(re.escape(f".{target.name}.") + "[0-9a-f]{8}")
    for path in target.absolute().parent.iterdir():
        if begun.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            _remove(path)


def _remove(folder: Path) -> None:
    """Remove the files of an index from a folder, and the folder if nothing else is there."""
    with suppress(OSError):
        if not (folder / SEGMENTS).is_symlink():
            for path in (folder / SEGMENTS).iterdir():
                if SEGMENT_FILE.fullmatch(path.name):
                    path.unlink()
        (folder / SEGMENTS).rmdir()
    with suppress(OSError):
        for path in folder.iterdir():
            if path.name in FILES or TEMPORARY.fullmatch(path.name):
                path.unlink()
        folder.rmdir()


def write_empty(folder: Path, encoder: Encoder | None, n_bits: int | None, keep_features: str | None) -> None:
    """Put an index without items into a new folder."""
    if keep_features is not None and keep_features not in KEPT:
        raise unknown("keep_features", keep_features, KEPT)
    if encoder is None:
        settings = _settings_for_codes(n_bits, keep_features)
    else:
        settings = _settings_for_features(folder / MODEL, encoder, n_bits)
        if keep_features == FACTORS:
            estimator.checked(encoder.hasher)
    (folder / SEGMENTS).mkdir()
    catalogs.write(folder, Catalog(token_hex(16), keep_features=keep_features, **settings))
    sync(folder)


def checked(path: Path, catalog: bool = True) -> Path:
    """The folder, if it can be an index and all of it lies in this folder.

    Parameters
    ----------
    path : Path
        The folder.
    catalog : bool
        Whether there must be a catalog; a repair can do without.
    """
    try:
        if not path.exists():
            raise FileError(f"{path}: no such index")
        has_one = any((path / name).is_file() for name in (catalogs.FILE, version1.FILE))
        if has_one < catalog or not (path / SEGMENTS).is_dir():
            raise FormatError(f"{path}: not an ISCH index (a folder with {catalogs.FILE} and {SEGMENTS})")
        for name in (*FILES, SEGMENTS):
            if (path / name).is_symlink():
                raise FormatError(f"{path / name}: is a link; expected an index whose files are all in its folder")
    except OSError as error:
        raise error if isinstance(error, FileError) else FileError(f"{path}: {error.strerror or error}") from error
    return path


def model_file(folder: Path, catalog: Catalog) -> Path:
    """The model file of an index, if it is the one that the index was made with."""
    path = folder / MODEL
    try:
        right = digest(plain(path)) == catalog.model
    except FileNotFoundError:
        raise FormatError(f"{path}: the model of the index is missing") from None
    if not right:
        raise FormatError(f"{path}: the model is damaged (it does not match its checksum)")
    return path


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _settings_for_codes(n_bits: int | None, keep_features: str | None) -> dict[str, Any]:
    if not isinstance(n_bits, int) or isinstance(n_bits, bool) or n_bits < 1:
        raise ParameterError(f"an index without a hasher holds whole bits and needs n_bits, at least 1; got {n_bits!r}")
    if keep_features is not None:
        raise ParameterError("keep_features needs a hasher: an index without one takes codes")
    return {"n_bits": int(n_bits), "n_features": None, "model": None}


def _settings_for_features(path: Path, encoder: Encoder, n_bits: int | None) -> dict[str, Any]:
    if n_bits is not None and n_bits != encoder.n_bits:
        raise ParameterError(f"n_bits is {n_bits}, but the hasher makes codes of {encoder.n_bits} bits")
    if not hasattr(encoder.hasher, "n_features_in_"):
        raise InputError("the hasher must be fitted before it makes an index")
    encoder.save(path)
    return {"n_bits": int(encoder.n_bits), "n_features": encoder.n_features, "model": digest(path)}
