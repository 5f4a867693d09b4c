"""Writing files whole or not at all."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from isch.errors import FileError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path``; it takes the name ``path`` if the block succeeds and vanishes if not.

    A link keeps pointing where it did, and a file that is replaced keeps its permissions.
    """
    target = Path(path).resolve()
    check_writable(target)
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    temporary = target.with_name(f".{target.stem}.{token_hex(4)}{target.suffix}")
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        if mode is not None:
            temporary.chmod(mode)
        sync(temporary)
        os.replace(temporary, target)
        sync(target.parent)
    except OSError as error:
        raise (
            error if isinstance(error, FileError) else FileError(f"cannot write {path}: {error.strerror or error}")
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(target: Path) -> None:
    """Refuse a target that cannot be written, before the work whose result it is to hold."""
    if not target.parent.is_dir():
        raise FileError(f"cannot write {target}: the folder {target.parent} does not exist")
    if target.exists() and not target.is_file():
        raise FileError(
            f"cannot write {target}: it is a {'folder' if target.is_dir() else 'device or pipe'}, not a file"
        )
    if not os.access(target.parent, os.W_OK):
        raise FileError(f"cannot write {target}: the folder {target.parent} is not writable")


def sync(path: Path) -> None:
    """Force a file, or the entries of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
