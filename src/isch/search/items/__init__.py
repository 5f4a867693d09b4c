"""The items of a segment: a key and metadata for each of its rows, in one file that never changes.

Who reads it takes no lock and needs no right to write. A row that was deleted may be here still, or not any more.
Files are written as in ``stored.py``; those of earlier versions are SQLite and are read as they are.
"""

from pathlib import Path

from isch.files import plain
from isch.search.items.contents import Metadata
from isch.search.items.merge import Kept, write
from isch.search.items.sqlite import SqliteItems
from isch.search.items.stored import StoredItems
from isch.search.items.table import Table

__all__ = ["Items", "Kept", "Metadata", "SqliteItems", "StoredItems", "Table", "opened", "write"]

SQLITE = b"SQLite format 3\0"

Items = StoredItems | SqliteItems


def opened(path: Path, n_rows: int, n_bytes: int, digest: str) -> Items:
    """The items of one segment, open for reading by any number of threads.

    Parameters
    ----------
    path : Path
        Its file.
    n_rows : int
        Rows of the segment.
    n_bytes : int
        Bytes of the file.
    digest : str
        What the catalog has of it: the digest of its header, or the SHA-256 of a SQLite file, in hexadecimal.
    """
    with plain(path).open("rb") as file:
        kind = SqliteItems if file.read(len(SQLITE)) == SQLITE else StoredItems
    return kind(path, n_rows, n_bytes, digest)
