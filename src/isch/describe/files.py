"""Where the describer of a feature file is kept."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from isch.errors import FormatError, require

if TYPE_CHECKING:
    from isch.describe.base import Describer

ATTACHMENT = "describer"  # in an HDF5 file a dataset of bytes, beside others a file with this suffix


def kept(path: Path, make: "Callable[[], Describer]") -> "Describer":
    """The describer that interrupted work has left at ``path``, or a new one, which is left there."""
    from isch.describe import load

    if path.exists():
        return load(path)
    made = make()
    made.save(path)
    return made


@contextmanager
def model_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The model file itself, or the one that a feature file carries."""
    source = Path(path)
    if source.suffix in (".npy", ".npz"):
        yield source.with_suffix(f".{ATTACHMENT}")
    elif source.suffix in (".h5", ".hdf5"):
        with TemporaryDirectory() as folder:
            copy = Path(folder) / "model"
            copy.write_bytes(_attached(source))
            yield copy
    else:
        yield source


def _attached(path: Path) -> bytes:
    h5py = require("h5py", "images")
    try:
        with h5py.File(path, "r") as file:
            if ATTACHMENT in file:
                return bytes(file[ATTACHMENT][:].tobytes())
    except OSError as error:
        raise FormatError(f"{path}: not a readable HDF5 file ({error})") from error
    raise FormatError(f"{path}: does not say how its features were made; expected a file of isch describe")
