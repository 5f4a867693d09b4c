"""Where the describer of a feature file is kept."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from isch.errors import FormatError
from isch.features.formats import FORMATS, SUFFIXES
from isch.features.hdf5 import attachment

if TYPE_CHECKING:
    from isch.describe.base import Describer

HDF5 = FORMATS["hdf5"]
ATTACHMENT = "describer"  # in an HDF5 file a dataset of bytes, beside others a file with this suffix


def kept(path: Path, make: "Callable[[], Describer]") -> "Describer":
    """The describer that interrupted work saved at ``path``, or a new one, which is then saved there."""
    from isch.describe import load

    if path.exists():
        return load(path)
    made = make()
    made.save(path)
    return made


def describer_of(features: Any) -> "Describer | None":
    """The describer that made a feature file or a folder of such files; None if they do not tell."""
    from isch.describe import load

    if not isinstance(features, str | os.PathLike):
        return None
    path = Path(os.fspath(features).partition("::")[0])
    for file in sorted(path.iterdir()) if path.is_dir() and path.suffix != ".zarr" else [path]:
        if file.suffix in HDF5:
            if attachment(file, ATTACHMENT) is not None:
                return load(file)
        elif file.suffix in SUFFIXES and file.with_suffix(f".{ATTACHMENT}").is_file():
            return load(file)
    return None


@contextmanager
def model_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The model file itself, or the one inside a feature file."""
    source = Path(path)
    if source.suffix in SUFFIXES and source.suffix not in HDF5:
        yield source.with_suffix(f".{ATTACHMENT}")
    elif source.suffix in HDF5:
        content = attachment(source, ATTACHMENT)
        if content is None:
            raise FormatError(f"{path}: does not tell how it was made; expected a file made by isch describe")
        with TemporaryDirectory() as folder:
            copy = Path(folder) / "model"
            copy.write_bytes(content)
            yield copy
    else:
        yield source
