"""A connection to PostgreSQL: errors in our words and without the password, made again when it is lost."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from isch.codes import Codes, pack
from isch.connect.remote import check_address, retried
from isch.errors import FileError, FormatError, ParameterError, require

CONNECT_SECONDS = 10

T = TypeVar("T")


class Server:
    """A server of PostgreSQL.

    Parameters
    ----------
    url : str
        ``postgresql://user:password@host/database``. The password is never shown.
    where : str
        What is read or written there, for messages.
    """

    def __init__(self, url: str, where: str) -> None:
        self._url = url
        self._where = where
        self.psycopg = require("psycopg", "postgres")
        self._check_url()
        self.connection: Any = self._connected()

    def run(self, statement: Any, values: Sequence[Any] = ()) -> list[Any]:
        """The rows that a statement gives."""

        def work() -> list[Any]:
            cursor = self.connection.execute(statement, values)
            return list(cursor.fetchall()) if cursor.description else []

        return self.retried(work)

    def retried(self, work: Callable[[], T]) -> T:
        """``work()``, again with a new connection where the old one was lost."""

        def worded() -> T:
            with self.translated():
                return work()

        return retried(worded, self._reconnect, self._lost)

    def sql(self, text: str, table: str, **more: Any) -> Any:
        """A statement with the names of a table and of columns put in safely."""
        sql = self.psycopg.sql
        parts = {name: sql.Identifier(one) if isinstance(one, str) else one for name, one in more.items()}
        return sql.SQL(text).format(table=sql.Identifier(table), **parts)

    def literal(self, value: Any) -> Any:
        """A value to put into a statement."""
        return self.psycopg.sql.Literal(value)

    def quoted(self, name: str) -> str:
        """A name as SQL writes it."""
        return str(self.psycopg.sql.Identifier(name).as_string(self.connection))

    def columns(self, table: str) -> dict[str, str]:
        """The types of the columns of a table; none if there is no such table."""
        return dict(
            self.run(
                "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
                "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
                [self.quoted(table)],
            )
        )

    def stream(self, query: Any, at_once: int) -> Iterator[list[Any]]:
        """The rows of a query as they are at one moment, some at a time."""
        with self.translated(), self.connection.transaction(), self.connection.cursor("reading") as cursor:
            cursor.execute(query)
            while rows := cursor.fetchmany(at_once):
                yield rows

    def close(self) -> None:
        """End the connection."""
        self.connection.close()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Errors of PostgreSQL become ours."""
        try:
            yield
        except self.psycopg.Error as error:
            raise FileError(f"{self._where}: {_one_line(error)}") from None

    def _check_url(self) -> None:
        """Refuse a URL that is not valid in words of ours: PostgreSQL's own would quote a part of the password.

        Once it is valid, no message of PostgreSQL has the password.
        """
        check_address(self._url, "/")
        try:
            self.psycopg.conninfo.conninfo_to_dict(self._url)
        except (self.psycopg.Error, ValueError, TypeError):
            raise ParameterError(
                "the URL of PostgreSQL is not valid; expected postgresql://user@host/database"
            ) from None

    def _connected(self) -> Any:
        try:
            return self.psycopg.connect(self._url, autocommit=True, connect_timeout=CONNECT_SECONDS)
        except self.psycopg.Error as error:
            raise FileError(f"PostgreSQL cannot be reached: {_one_line(error)}") from None

    def _reconnect(self) -> None:
        self.connection.close()
        self.connection = self._connected()

    def _lost(self, error: BaseException) -> bool:
        """Whether an error means that the connection was lost, so that trying again can help."""
        return isinstance(error, FileError) and bool(self.connection.closed or self.connection.broken)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def to_bits(code: Codes, n_bits: int) -> str:
    """A code as PostgreSQL writes ``bit(n)``."""
    return "".join("01"[bit] for bit in np.unpackbits(code, count=n_bits))


def from_bits(texts: Sequence[str], n_bits: int, where: str) -> Codes:
    """Codes from what PostgreSQL writes for ``bit(n)``."""
    wrong = next((len(text) for text in texts if len(text) != n_bits), None)
    if wrong is not None:
        raise FormatError(f"{where}: expected codes of {n_bits} bits; got one of {wrong}")
    return pack(np.frombuffer("".join(texts).encode(), np.uint8).reshape(len(texts), n_bits) == ord("1"))
