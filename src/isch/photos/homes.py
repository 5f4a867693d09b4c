"""Where the libraries of this user are kept, and which one was used last."""

import hashlib
import os
from pathlib import Path

from platformdirs import user_cache_path

from isch.errors import FileError, InputError
from isch.files import replacing


def home_of(folder: Path) -> Path:
    """The folder in the user's cache that belongs to a folder of pictures."""
    mark = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    return root() / f"{folder.name or 'pictures'}-{mark}"


def root() -> Path:
    """Where all libraries are kept."""
    return Path(user_cache_path("isch")) / "photos"


def remember(folder: Path) -> None:
    """Note the folder of pictures used last."""
    root().mkdir(parents=True, exist_ok=True)
    with replacing(root() / "last") as temporary:
        temporary.write_bytes(os.fsencode(folder))


def last() -> Path:
    """The folder of pictures used last."""
    try:
        folder = Path(os.fsdecode((root() / "last").read_bytes()))
    except OSError:
        raise InputError("no folder of pictures was used yet: give one with --folder") from None
    if not folder.is_dir():
        raise FileError(f"{folder}: the folder of pictures used last is gone: give another with --folder")
    return folder
