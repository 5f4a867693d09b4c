"""A copy of an index as it is at one moment, whole or not at all. Writers may go on meanwhile.

Files of segments never change, so links to them are as good as copies where both folders are on one file system.
"""

import os
import shutil
from pathlib import Path

from isch import progress
from isch.errors import FileError, FormatError
from isch.files import plain, sync
from isch.search import catalog as catalogs
from isch.search.catalog import Catalog
from isch.search.folder import MODEL, SEGMENTS, building, checked
from isch.search.snapshot import ATTEMPTS
from isch.search.verify import problems


def backup(source: Path, target: str | os.PathLike[str], copy: bool = False) -> int:
    """Copy an index and compare the copy with its checksums.

    Parameters
    ----------
    source : Path
        The index.
    target : path
        The folder to make.
    copy : bool
        Whether files are always copied, never linked.

    Returns
    -------
    int
        How many items there are.
    """
    folder = checked(source)
    if folder.resolve() in Path(target).resolve().parents:
        raise FileError(f"cannot make {target}: it would lie in the index {source}")
    with building(target) as temporary:
        (temporary / SEGMENTS).mkdir()
        catalog = _files(folder, temporary, copy)
        sync(temporary / SEGMENTS)
        catalogs.write(temporary, catalog)
        if found := problems(temporary):
            first = found[0].replace(str(temporary), str(source))
            more = f" and {len(found) - 1} more" if found[1:] else ""
            raise FormatError(f"{first}{more}; no backup was made; isch index repair keeps what is undamaged")
    return catalog.n_items


def _files(folder: Path, into: Path, copy: bool) -> Catalog:
    """Put the files of one moment into a new folder; a compaction that removes one of them begins it anew."""
    before: object = None
    for _ in range(ATTEMPTS):
        catalog = None
        try:
            catalog = catalogs.read(folder)
            _put_all(folder, into, catalog, copy)
            return catalog
        except FileNotFoundError as error:
            if catalog is None or catalog == before:
                raise FormatError(f"{error.filename}: a file of the index is missing") from error
            before = catalog
    raise FormatError(f"{folder}: its segments vanish faster than they can be copied")


def _put_all(folder: Path, into: Path, catalog: Catalog, copy: bool) -> None:
    names = [f"{SEGMENTS}/{name}" for name in sorted(catalog.files)] + ([MODEL] if catalog.model else [])
    with progress.task("copying", len(names), "files") as advance:
        for name in names:
            if not (into / name).exists():
                _put(plain(folder / name), into / name, copy)
            advance(1)
    for path in (into / SEGMENTS).iterdir():
        if path.name not in catalog.files:
            path.unlink()


def _put(path: Path, target: Path, copy: bool) -> None:
    """Give a file a second name, or copy it."""
    if not copy:
        try:
            os.link(path, target, follow_symlinks=False)
            return
        except FileNotFoundError:
            raise
        except OSError:  # another file system, one without links, or a file of somebody else
            pass
    shutil.copyfile(path, target)
    shutil.copystat(path, target)  # repair puts segments in the order of their times where it has nothing better
    sync(target)
