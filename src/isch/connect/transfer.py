"""Items on their way: from a source into a store, into a file of codes, or into a new index of ours."""

from collections.abc import Iterator
from pathlib import Path

from isch import progress
from isch.connect import files
from isch.connect.base import Source, Store
from isch.connect.mark import Mark
from isch.encoder import Encoder
from isch.errors import InputError, KeysExist
from isch.search import intake
from isch.search.folder import building, write_empty
from isch.search.index import Index
from isch.search.reading import Batch


def export(source: Source, store: Store) -> int:
    """Put all items of a source into a store, some thousands at a time.

    Items whose keys the store has are replaced, so a second run changes nothing and completes one that was interrupted.

    Parameters
    ----------
    source : Source
        Where codes, keys and metadata come from: a store such as ``isch.connect.Local``, or a file of codes.
    store : Store
        Where they go; opened with the encoder or the mark of the source.

    Returns
    -------
    int
        How many items were put there.
    """
    count = 0
    for batch in Shown(source, "export").batches():
        store.add_codes(batch.keys, batch.codes, batch.metadata)
        count += len(batch.keys)
    store.finish()
    return count


def export_file(source: Source, name: str, path: Path) -> int:
    """Write all items of a source as a file of codes: ``npy``, ``hdf5`` or ``parquet``; gives how many there are."""
    files.write(name, path, Shown(source, "export"))
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
        source.mark.check(Mark.of(encoder), source.where)
    n_bits = source.mark.n_bits
    with building(path) as folder:
        write_empty(folder, encoder, None if encoder else n_bits, None)
        with Index.open(folder) as index:
            start = 0
            for batch in Shown(source, "import").batches():
                codes = intake.check_codes(batch.codes, n_bits, source.where, start)
                _add(index, batch._replace(codes=codes), source.where)
                start += len(codes)
            index.compact()
            return len(index)


class Shown(Source):
    """A source whose reading shows its progress."""

    def __init__(self, source: Source, label: str) -> None:
        self.where, self.mark, self._source, self._label = source.where, source.mark, source, label

    def __len__(self) -> int:
        return len(self._source)

    def batches(self) -> Iterator[Batch]:
        """All items, some thousands at a time."""
        with progress.task(self._label, len(self), "items") as advance:
            for batch in self._source.batches():
                yield batch
                advance(len(batch.keys))


def _add(index: Index, batch: Batch, where: str) -> None:
    try:
        index.add_codes(batch.codes, batch.keys, batch.metadata)
    except KeysExist as error:
        raise InputError(f"{where}: a key comes twice ({error.fact}); keys must be unique") from error
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
