"""Items on their way: out of an index, a file or an engine, into a store, a file of codes or a new index of ours."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from isch.connect import FORMATS, engine, files
from isch.connect.source import ModelTag, ReadOptions, Source, WithProgress
from isch.connect.store import Store, opening
from isch.encoder import Encoder
from isch.errors import FileError, FormatError, InputError, KeysExist
from isch.files import printable
from isch.search import intake
from isch.search.folder import building, write_empty
from isch.search.index import Index
from isch.search.reading import Batch


def opened(path: Path, options: ReadOptions) -> Source:
    """An index of ours, or a file of codes."""
    if not path.is_dir():
        return files.read(path, options)
    return _exported("local", [path], options)


def imported(name: str, place: list[Any], options: ReadOptions) -> Source:
    """Codes in a file or an engine: as isch put them there, or as somebody else did.

    Parameters
    ----------
    name : str
        An engine or a format of files.
    place : list
        Where it is: the path of a file, or an address and the name of a table.
    options : ReadOptions
        What the user says about codes of somebody else.
    """
    if name in FORMATS:
        return files.read(Path(place[0]), options, name)
    if name in ("faiss", "usearch"):
        return _file(name, Path(place[0]), options)
    if name == "postgres":
        return _table(place, options)
    return _exported(name, place, options)


def export(source: Source, store: Store) -> int:
    """Put all items of a source into a store, some thousands at a time.

    Items whose keys the store has are replaced, so a second run changes nothing and completes one that was interrupted.

    Parameters
    ----------
    source : Source
        Where codes, keys and metadata come from: a store such as ``isch.connect.Local``, or a file of codes.
    store : Store
        Where they go; opened with the encoder or the model tag of the source.

    Returns
    -------
    int
        How many items were put there.
    """
    count = 0
    for batch in WithProgress(source, "export").batches():
        store.add_codes(batch.keys, batch.codes, batch.metadata)
        count += len(batch.keys)
    store.finish()
    return count


def export_file(source: Source, name: str, path: Path) -> int:
    """Write all items of a source as a file of codes: ``npy``, ``hdf5`` or ``parquet``; gives how many there are."""
    files.write(name, path, WithProgress(source, "export"))
    return len(source)


def import_index(source: Source, path: Path, encoder: Encoder | None = None) -> int:
    """Make an index of ours from codes that exist, whole or not at all.

    Parameters
    ----------
    source : Source
        Where codes, keys and metadata come from.
    path : Path
        The index to make.
    encoder : Encoder, optional
        The model that made the codes, so that the index takes features. One that the source names otherwise is refused.

    Returns
    -------
    int
        How many items there are.
    """
    if encoder is not None:
        source.tag.check(ModelTag.of(encoder), source.where)
    n_bits = source.tag.n_bits
    with building(path) as folder:
        write_empty(folder, encoder, None if encoder else n_bits, None)
        with Index.open(folder) as index:
            start = 0
            for batch in WithProgress(source, "import").batches():
                codes = intake.check_codes(batch.codes, n_bits, source.where, start)
                _add(index, batch._replace(codes=codes), source.where)
                start += len(codes)
            index.compact()
            return len(index)


def _add(index: Index, batch: Batch, where: str) -> None:
    try:
        index.add_codes(batch.codes, batch.keys, batch.metadata)
    except KeysExist as error:
        raise InputError(f"{where}: a key comes twice ({error.fact}); keys must be unique") from error
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _file(name: str, path: Path, options: ReadOptions) -> Source:
    if not path.exists():
        raise FileError(f"{printable(path)}: no such file")
    if path.with_name(path.name + ".items").exists():
        return _exported(name, [path], options)
    if name == "usearch":
        raise FormatError(
            f"{printable(path)}: {path.name}.items is not beside it, which isch export writes; usearch crashes on "
            "damaged files, so those of others are not read"
        )
    from isch.connect.faiss import FaissFile

    return FaissFile(path, options)


def _table(place: list[Any], options: ReadOptions) -> Source:
    from isch.connect.postgres import Table

    url, table = place
    if options.code is options.key is None:
        with suppress(FormatError):  # of another shape, so of somebody else
            return _exported("postgres", place, options)
    return Table(url, table, options)


def _exported(name: str, place: list[Any], options: ReadOptions) -> Source:
    """What isch put into an engine; it says itself how long its codes are."""
    store = engine(name)(*place)
    with opening(store):
        if options.n_bits is not None:
            store.tag.check(ModelTag(options.n_bits), store.where)
    return store
