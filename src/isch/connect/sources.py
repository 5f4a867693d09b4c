"""Where codes can come from, by the names that the command line uses."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from isch.connect import engine, files
from isch.connect.base import Source, opening
from isch.connect.mark import Mark
from isch.connect.wanted import Wanted
from isch.errors import FileError, FormatError
from isch.files import printable


def opened(path: Path, wanted: Wanted) -> Source:
    """An index of ours, or a file of codes."""
    if not path.is_dir():
        return files.read(path, wanted)
    return _exported("local", [path], wanted)


def imported(name: str, place: list[Any], wanted: Wanted) -> Source:
    """Codes in a file or an engine: as isch put them there, or as somebody else did.

    Parameters
    ----------
    name : str
        An engine or a format of files.
    place : list
        Where it is: the path of a file, or an address and the name of a table.
    wanted : Wanted
        What the user says about codes of somebody else.
    """
    if name in files.FORMATS:
        return files.read(Path(place[0]), wanted, name)
    if name in ("faiss", "usearch"):
        return _file(name, Path(place[0]), wanted)
    if name == "postgres":
        return _table(place, wanted)
    return _exported(name, place, wanted)


def _file(name: str, path: Path, wanted: Wanted) -> Source:
    if not path.exists():
        raise FileError(f"{printable(path)}: no such file")
    if path.with_name(path.name + ".items").exists():
        return _exported(name, [path], wanted)
    if name == "usearch":
        raise FormatError(
            f"{printable(path)}: {path.name}.items is not beside it, which isch export writes; usearch crashes on "
            "damaged files, so those of others are not read"
        )
    from isch.connect.foreign.faiss import FaissFile

    return FaissFile(path, wanted)


def _table(place: list[Any], wanted: Wanted) -> Source:
    from isch.connect.foreign.postgres import Table

    url, table = place
    if wanted.code is wanted.key is None:
        with suppress(FormatError):  # of another shape, so of somebody else
            return _exported("postgres", place, wanted)
    return Table(url, table, wanted)


def _exported(name: str, place: list[Any], wanted: Wanted) -> Source:
    """What isch put into an engine; it says itself how long its codes are."""
    store = engine(name)(*place)
    with opening(store):
        if wanted.n_bits is not None:
            store.mark.check(Mark(wanted.n_bits), store.where)
    return store
