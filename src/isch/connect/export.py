"""An index of ours, streamed into an outside engine."""

from isch import progress
from isch.connect.base import Store
from isch.search.index import Index


def export(index: Index, store: Store) -> int:
    """Put all items of an index into a store, some thousands at a time.

    Items whose keys the store has are replaced, so a second run changes nothing and completes one that was interrupted.

    Parameters
    ----------
    index : Index
        Where the codes, keys and metadata come from. They are those of the moment it was opened or refreshed.
    store : Store
        Where they go; opened with the encoder of the index, or with its number of bits if it has no model.

    Returns
    -------
    int
        How many items were put there.
    """
    total = len(index)
    with progress.task("export", total, "items") as advance:
        for batch in index.batches():
            store.add_codes(batch.keys, batch.codes, batch.metadata)
            advance(len(batch.keys))
    store.finish()
    return total
